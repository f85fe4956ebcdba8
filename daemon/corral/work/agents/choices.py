"""Pins and rollouts of the versions of an agent, and what their commands need of the user."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from sqlalchemy import Connection

from corral.config.trust import Claim
from corral.coordination.services import Services
from corral.core.errors import RACED, Conflict, CorralError, InvalidInput, NotFound
from corral.core.identifiers import new_id
from corral.core.instants import iso
from corral.core.payload import Payload
from corral.core.steps import Step
from corral.store.rows.agents import AgentVersionRow, RunningChoice
from corral.work.agents import definitions, rollouts
from corral.work.agents.api import AgentChoice, Pinned, Unpinned
from corral.work.agents.choosing import Choosing, claims_of, definition_of
from corral.work.agents.choosing import shown as shown_choice
from corral.work.agents.store import choices


def pin(services: Services, name: str, version: str) -> Pinned:
    """Have all tasks of an agent work by a stored version, whatever its file says, until it is unpinned.

    Raises:
        NotFound: There is no such agent or version.
        Conflict: A rollout of it is running.
    """
    row = definitions.stored(services, name, version)
    now = services.now()

    def write(conn: Connection) -> None:
        before = _running(conn, row["agent"])
        if before is not None and before["share"] is not None:
            raise _in_force(before)
        if before is not None:
            choices.end(conn, before["choice_id"], "stopped", None, iso(now))
        _add(conn, row, None, None, now)
        rollouts.record(conn, row["agent"], row["version"], "pinned", None, now)

    services.db.write(write)
    services.nudge("supervisor")
    waits = _waits_for_trust(services, row)
    return {"agent": row["agent"], "version": row["version"], "pinned": True, "waits_for_trust": waits}


def unpin(services: Services, name: str) -> Unpinned:
    """Have the tasks of an agent work by what its file says again; ``was``: the version that it was pinned to."""
    agent, now = definitions.known_name(services, name), services.now()

    def write(conn: Connection) -> RunningChoice | None:
        before = _running(conn, agent)
        if before is None or before["share"] is not None:
            return None
        choices.end(conn, before["choice_id"], "stopped", None, iso(now))
        rollouts.record(conn, agent, before["version"], "unpinned", None, now)
        return before

    before = services.db.write(write)
    services.nudge("supervisor")
    return {"agent": agent, "was": before["version"] if before else None, "pinned": False}


def start(services: Services, name: str, version: str, share: float) -> Payload:
    """Have a share of an agent's tasks work by another version than its file's, and compare.

    Args:
        share: Above 0 and below 1.

    Raises:
        NotFound: There is no such agent or version.
        InvalidInput: The agent has no valid definition, the version is what its file says, or it would change who does tasks.
        Conflict: A pin or a rollout of it is in force.
    """
    row, known = definitions.stored(services, name, version), definitions.history(services, name)
    if known.current is None:
        raise InvalidInput(f"The agent {known.agent} has no valid definition to compare with.")
    if row["content_hash"] == known.current:
        raise InvalidInput(
            f"Version {row['version']} is what the file of {known.agent} says: all of its tasks work by it.",
            remedy=f"Write the old one back first: `corral agent rollback {known.agent} V`; then roll this one out.",
        )
    base = definitions.stored(services, name, known.current)
    _check_same_tasks(row, base)
    now = services.now()

    def write(conn: Connection) -> None:
        if (before := _running(conn, row["agent"])) is not None:
            raise _in_force(before)
        choices.see(conn, row["agent"], iso(now))
        _add(conn, row, base["content_hash"], share, now)
        rollouts.record(conn, row["agent"], row["version"], "running", None, now)

    services.db.write(write)
    services.nudge("supervisor")
    return {**status(services, name), "waits_for_trust": _waits_for_trust(services, row)}


def stop(services: Services, name: str) -> Payload:
    """End a rollout: all tasks that start now work by what the file says. Of an ended one: note that it was seen."""
    agent, now = definitions.known_name(services, name), services.now()

    def write(conn: Connection) -> None:
        before = _running(conn, agent)
        if before is not None and before["share"] is not None:
            rollouts.end(conn, before, "stopped", "A person stopped it.", now)
        choices.see(conn, agent, iso(now))

    services.db.write(write)
    return status(services, name)


def status(services: Services, name: str) -> Payload:
    """The newest rollout of an agent: its state, both versions, and how they compare.

    Raises:
        NotFound: There was none.
    """
    agent, rules = definitions.known_name(services, name), services.settings().agents.rollout
    with services.db.reading() as conn:
        row = choices.newest(conn, agent, rollout=True)
    if row is None:
        raise NotFound(
            f"There is no rollout of {agent}.",
            cause="None was started.",
            remedy=f"`corral agent rollout {agent} --to V --share 20%`.",
        )
    numbers = {known["content_hash"]: known["version"] for known in definitions.history(services, agent).versions}
    with services.db.reading() as conn:
        counted = choices.tasks_of(conn, row["choice_id"])
    comparison = rollouts.compare(counted, row["content_hash"], rules)
    version = numbers.get(row["content_hash"], row["content_hash"][:12])
    plain = {field: row[field] for field in ("state", "share", "reason", "created_at", "ended_at")}
    return {
        "agent": agent, "version": version, "from": numbers.get(row["from_hash"] or ""), **plain, "tasks": len(counted),
        **rollouts.figures(comparison), "summary": rollouts.sentence(comparison, version),
    }  # fmt: skip


def listing(services: Services) -> list[AgentChoice]:
    """The pins and rollouts in force."""
    return [shown_choice(row) for row in services.db.read(choices.running)]


def step(services: Services, now: datetime) -> None:
    """Look at the rollouts in force, and end those that cannot go on or whose version is worse."""
    running = [row for row in services.db.read(choices.running) if row["share"] is not None]
    if not running:
        return
    rules, ended = services.settings().agents.rollout, False
    for row in running:
        current = _current(services, row["agent"])
        ended |= services.db.write(rollouts.step, row, current, rules, now) is not None
    if ended:
        services.nudge("supervisor")


def unapproved(conn: Connection, services: Services) -> list[Claim]:
    """The commands in stored versions that tasks or agents are pinned to, or that are rolled out, and nobody approved."""
    stored = Choosing([*choices.running(conn), *choices.pinned_by_tasks(conn)]).stored()
    claims = {claim.digest: claim for version in stored for claim in claims_of(version)}
    return services.settings.answers.missing(services.project.common_dir, claims.values())


def _current(services: Services, agent: str) -> str | None:
    try:
        definition = services.roster().find(agent).definition
    except CorralError:
        return None
    return definition.content_hash if definition else None


def _running(conn: Connection, agent: str) -> RunningChoice | None:
    return next((row for row in choices.running(conn) if row["agent"] == agent), None)


def _add(conn: Connection, row: AgentVersionRow, from_hash: str | None, share: float | None, now: datetime) -> None:
    added = choices.add(
        conn,
        {
            "choice_id": new_id(),
            "agent": row["agent"],
            "content_hash": row["content_hash"],
            "from_hash": from_hash,
            "share": share,
            "state": "running",
            "reason": None,
            "created_at": iso(now),
            "ended_at": None,
            "seen_at": None,
        },
    )
    if not added:
        raise Conflict(f"Somebody else has just chosen a version of {row['agent']}.", cause=RACED, remedy="Look again.")


def _check_same_tasks(new: AgentVersionRow, old: AgentVersionRow) -> None:
    """Refuse a version that would do other tasks, or do them by another runner: it cannot be compared task by task."""
    changed, present = (definition_of(row["content"], row["agent"]) for row in (new, old))
    if changed is None or present is None:
        raise InvalidInput(f"Version {new['version']} of {new['agent']} can no longer be read as a definition.")
    lacking = sorted(set(present.capabilities) - set(changed.capabilities))
    if lacking or changed.runner != present.runner:
        runners = f"has the runner {changed.runner} instead of {present.runner}"
        difference = f"lacks {', '.join(lacking)}" if lacking else runners
        raise InvalidInput(
            f"Version {new['version']} of {new['agent']} {difference}: it could not do the same tasks.",
            remedy=f"Pin it instead: `corral agent pin {new['agent']} {new['version']}`.",
        )


def _waits_for_trust(services: Services, row: AgentVersionRow) -> bool:
    def waits(conn: Connection) -> bool:
        return any(claim.key.casefold() == f"agents.{row['agent']}" for claim in unapproved(conn, services))

    return services.db.read(waits)


def _in_force(row: RunningChoice) -> Conflict:
    if row["share"] is None:
        return Conflict(
            f"The agent {row['agent']} is pinned to {row['version']}.",
            cause="One choice of its version counts at a time.",
            remedy=f"`corral agent pin {row['agent']} --unpin`.",
        )
    return Conflict(
        f"A rollout of {row['agent']} {row['version']} is running.",
        cause="One choice of its version counts at a time.",
        remedy=f"`corral agent rollout stop {row['agent']}`.",
    )


def job(services: Services) -> Step:
    """The job of rollouts."""
    return Step("rollouts", partial(step, services), pause_s=1.0, reads_events=True)
