"""What takes landed work back, and what a person orders the queue, over HTTP."""

from __future__ import annotations

from shlex import quote

from sqlalchemy import Connection

from corral.config.account import user_name
from corral.coordination.services import Services
from corral.core.errors import ConfigInvalid, Conflict, InvalidInput, NotFound, NotPermitted
from corral.core.payload import Payload
from corral.core.routing import EVERYONE, PERSON, PROJECT, Routes
from corral.git import refs
from corral.landing import pauses, reverts, steering
from corral.landing.api import (
    Acceptance,
    Approval,
    Bypass,
    Dependent,
    Freeze,
    Frozen,
    Order,
    Reverted,
    StoppedTarget,
    Target,
    Thawed,
    Undo,
)
from corral.store.rows.merges import MergeRow
from corral.work.merges.store import landed, of_tasks
from corral.work.merges.wire import MergeSummary, summary
from corral.work.tasks.store import lists, outcomes

router = Routes("merges", "/merges", scope=PROJECT, callers=EVERYONE, errors=(Conflict,))
targets = Routes("targets", "/targets", scope=PROJECT, callers=EVERYONE)


def require_person(body: Order | Approval | Acceptance, does: str, command: str) -> None:
    """Refuse a body that says which session or task it is from.

    Args:
        does: What only a person does, after these words.
        command: What they type, behind ``corral merge``.

    Raises:
        NotPermitted: It is a session's or a worker's.
    """
    if body.session_id is None and body.task_id is None:
        return
    raise NotPermitted(
        f"Only a person {does}.",
        cause=f"The request comes from {'a worker' if body.task_id else 'an agent session'}.",
        remedy=f"In a terminal of your own: corral merge {command}",
    )


@router.post("/{merge_id}/revert")
async def revert(services: Services, merge_id: str, body: Undo) -> Reverted:
    """Queue the revert of what a landed request brought; it is verified and lands like any other."""
    now = services.now()
    queued = await services.work(
        lambda: reverts.submit(services.db, services.git, merge_id, session_id=body.session_id, now=now)
    )
    services.nudge("landing")
    return await services.store.read(_answer_of, queued)


def _answer_of(conn: Connection, queued: reverts.Revert) -> Reverted:
    """What is told of a queued revert."""
    row, ids = queued.merge, queued.dependents[:200]
    titles, numbers, outcome = lists.titles(conn, ids), of_tasks.numbers(conn, ids), outcomes.of_tasks(conn, ids)
    dependents: list[Dependent] = [
        {"task_id": task_id, "number": numbers[task_id], "title": titles[task_id], "outcome": outcome[task_id]}  # type: ignore[typeddict-item]
        for task_id in ids
        if task_id in titles
    ]
    return {
        "merge_id": row["merge_id"],
        "branch": row["branch"],
        "target": row["target"],
        "state": row["state"],
        "reverts": queued.of["merge_id"],
        "conflicts": [{"path": item.path, "kind": item.kind} for item in queued.conflicts],
        "dependents": dependents,
    }


@router.post("/{merge_id}/skip", answer=MergeSummary, callers=PERSON)
async def skip(services: Services, merge_id: str, body: Order | None = None) -> Payload:
    """Send a request, as a person, to the back of its target's queue."""
    if body is not None:
        require_person(body, "lets others pass a request", f"skip {merge_id[:8]}")
    now = services.now()

    def store(conn: Connection) -> MergeRow:
        return pauses.explained(conn, [steering.skip(conn, of_tasks.named(conn, merge_id), now)])[0]

    row = await services.store.write(store)
    services.nudge("landing")
    return summary(row)


@router.post("/{merge_id}/bypass", answer=MergeSummary, callers=PERSON, errors=(ConfigInvalid,))
async def bypass(services: Services, merge_id: str, body: Bypass) -> Payload:
    """Let a request land, as a person, without a verification; holds for exactly the head that was seen."""
    require_person(body, "lets a request land without a verification", f"bypass {merge_id[:8]} --reason TEXT")
    merge = await services.work(lambda: services.db.read(of_tasks.named, merge_id))
    if not (await services.work(lambda: services.settings.for_target(refs.branch_ref(merge["target"])))).landing.verify:
        raise InvalidInput(
            f"Nothing is verified on {merge['target']}: there is nothing to bypass.",
            cause="landing.verify is empty there.",
            remedy=f"See what it waits for: corral merge detail {merge_id[:8]}",
        )
    now, by = services.now(), user_name()

    def store(conn: Connection) -> MergeRow:
        row = steering.bypass(conn, of_tasks.named(conn, merge["merge_id"]), body.head_sha, body.reason, by, now)
        return pauses.explained(conn, [row])[0]

    row = await services.store.write(store)
    services.nudge("landing")
    return summary(row)


@targets.get("/stopped")
async def stopped(services: Services) -> list[StoppedTarget]:
    """The targets on which nothing lands at present: frozen, red by somebody's own commits, or paused after faults."""
    rows = await services.store.read(pauses.stops)
    return [{"target": target, "reason": reason} for target, reason in rows.items()]


@targets.post("/freeze", callers=PERSON)
async def freeze(services: Services, body: Freeze) -> Frozen:
    """Let nothing land on a target, as a person, until it is thawed; what waits for it is verified all the same."""
    require_person(body, "freezes a target", f"freeze {quote(body.target)} --reason TEXT")
    target, now, by = body.target.removeprefix("refs/heads/"), services.now(), user_name()
    known = await services.work(lambda: refs.branch_tip(services.git, target)) is not None
    if not known and not await services.store.read(landed.is_known_target, target):
        raise NotFound(f"There is no branch {target[:200]!r}.", remedy="`git branch --all` lists the branches.")
    row, landing = await services.store.write(steering.freeze, target, body.reason, by, now)
    services.nudge("landing")
    services.changes.announce()
    return {**row, "landing": landing}


@targets.post("/thaw", callers=PERSON)
async def thaw(services: Services, body: Target) -> Thawed:
    """Let a frozen target go on, as a person; one that is red by somebody's own commits is verified once more."""
    require_person(body, "thaws a target", f"thaw {quote(body.target)}")
    target, now = body.target.removeprefix("refs/heads/"), services.now()
    was_frozen, is_red = await services.store.write(steering.thaw, target, now)
    services.nudge("landing")
    services.changes.announce()
    return {"target": target, "was_frozen": was_frozen, "verifies": is_red}
