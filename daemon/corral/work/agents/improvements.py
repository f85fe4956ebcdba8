"""Improvements of agents: started by a person, carried on by the daemon as ordinary tasks, and never deployed unasked."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection

from corral.coordination.services import Services
from corral.core.crash import crash_point
from corral.core.errors import Conflict, CorralError, LimitReached, NotFound
from corral.core.identifiers import new_id
from corral.core.instants import iso
from corral.core.payload import Payload, picked
from corral.core.redaction import redact
from corral.core.states import TERMINAL_TASKS, TaskStatus
from corral.core.steps import Step
from corral.store.rows.agents import ImprovementRow
from corral.work.agents import cases, definitions, improving, record
from corral.work.agents.api import AgentRecord, Deployed, Improvement
from corral.work.agents.judging import key_of
from corral.work.agents.store import improvements as rows
from corral.work.agents.store import runs, versions
from corral.work.tasks import submitting as app_tasks
from corral.work.tasks.store import tasks
from corral.work.tasks.wire import IMPROVEMENT

SINCE = timedelta(days=90)
MOST_LOGS, LOG_END = 3, 8000
"""Logs of failed tasks that the meta-agent sees, and bytes of the end of each."""


def start(services: Services, name: str, feedback: str | None, *, deploys: bool) -> Payload:
    """Begin to improve an agent's definition.

    Raises:
        NotFound: There is no such agent.
        InvalidInput: It has no file of the project.
        Conflict: It is being improved already.
    """
    definition = definitions.own_definition(services.roster(), name)
    base, now = definitions.stored(services, name, definition.content_hash), services.now()
    material = _material(services, base["agent"], definition.content, feedback, now)
    row: ImprovementRow = {
        "improvement_id": new_id(), "agent": base["agent"], "state": "proposing", "base_hash": base["content_hash"],
        "new_hash": None, "material": material, "deploys": deploys, "plan": None, "report": None, "reason": None,
        "created_at": iso(now), "ended_at": None,
    }  # fmt: skip

    def write(conn: Connection) -> None:
        if any(running["agent"] == row["agent"] for running in rows.running(conn)):
            raise Conflict(
                f"{row['agent']} is being improved.",
                cause="An agent has one improvement at a time.",
                remedy=f"`corral agent improve {row['agent']} --status`.",
            )
        rows.add(conn, row)

    services.db.write(write)
    crash_point("improvement.begun")
    services.nudge("improvements")
    return shown(services, row)


def status(services: Services, name: str) -> Payload:
    """The newest improvement of an agent.

    Raises:
        NotFound: There was none.
    """
    agent = definitions.known_name(services, name)
    with services.db.reading() as conn:
        row = rows.newest(conn, agent)
    if row is None:
        raise _never(agent)
    return shown(services, row)


def shown(services: Services, row: ImprovementRow) -> Payload:
    """An improvement as a face shows it."""
    with services.db.reading() as conn:
        new = versions.by_hash(conn, row["agent"], row["new_hash"] or "")
    names = [case["name"] for case in (row["plan"] or {}).get("cases", [])]
    return picked({**row, "version": new["version"] if new else None, "cases": names}, Improvement.__annotations__)


def resume(services: Services, name: str) -> Payload:
    """Go on with the newest improvement of an agent, which ended because tasks of it could not do their work.

    Raises:
        NotFound: There was none.
        Conflict: It has not ended so.
    """
    agent, now = definitions.known_name(services, name), services.now()

    def write(conn: Connection) -> ImprovementRow:
        row = rows.newest(conn, agent)
        if row is None:
            raise _never(agent)
        if row["state"] != "failed":
            raise Conflict(
                f"The improvement of {agent} is {row['state']}.",
                cause="Only one that failed can go on.",
                remedy="Nothing to do.",
            )
        again = cases.unusable(conn, row) if row["new_hash"] else _unproposed(conn, row)
        if again is None:
            raise Conflict(
                f"The improvement of {agent} cannot go on. {row['reason']}",
                cause="It failed for another reason than tasks that could not do their work.",
                remedy=f"Begin a new one: `corral agent improve {agent}`.",
            )
        state = "testing" if row["new_hash"] else "proposing"
        rows.advance(conn, row["improvement_id"], "failed", {"state": state, "reason": None, "ended_at": None})
        cases.again(services, conn, row, again, now)
        return {**row, "state": state, "reason": None, "ended_at": None}

    row = services.db.write(write)
    services.nudge("supervisor")
    return shown(services, row)


def deploy(services: Services, name: str, version: str) -> Deployed:
    """Write a version into the agent's file (:func:`definitions.rollback`), and note it if an improvement has made it."""
    answer = definitions.rollback(services, name, version)
    agent, file = answer["agent"], answer["file"]

    def note(conn: Connection) -> None:
        row = rows.newest(conn, agent)
        new = versions.by_hash(conn, agent, (row["new_hash"] if row else None) or "")
        if row is not None and row["report"] and new is not None and new["version"] == answer["version"]:
            report = {**row["report"], "deployed": file}
            rows.advance(conn, row["improvement_id"], row["state"], {"report": report})

    services.db.write(note)
    return answer


def _unproposed(conn: Connection, row: ImprovementRow) -> list[cases.Part] | None:
    """The tasks of the meta-agent that could not do their work; None: it has given all the answers that it may."""
    proposals = cases.proposals(conn, row)
    if sum(task["status"] == TaskStatus.COMPLETED for task in proposals) == improving.PROPOSALS:
        return None
    return [cases.Part("propose", task) for task in proposals if task["status"] != TaskStatus.COMPLETED]


def step(services: Services, now: datetime) -> None:
    """Carry every improvement on as far as its tasks allow. Each step is done once, wherever the daemon was killed before."""
    for row in services.db.read(rows.running):
        try:
            (_propose if row["state"] == "proposing" else cases.compare)(services, row, now)
        except LimitReached as error:  # its tasks are added when there is room
            _note(services, row, error.message)
        except CorralError as error:
            cases.end(services, row, "failed", {"reason": f"{error.message} {error.cause}".strip()}, now)


def _note(services: Services, row: ImprovementRow, reason: str) -> None:
    if row["reason"] != reason:
        services.db.write(rows.advance, row["improvement_id"], row["state"], {"reason": reason})


def _material(services: Services, agent: str, content: str, feedback: str | None, now: datetime) -> str:
    def look(conn: Connection) -> tuple[list[AgentRecord], list[tuple[str, int]]]:
        figures = record.stats(conn, agent, now - SINCE, None)
        worked = runs.of_agents(conn, agent, iso(now - SINCE))
        failed = [row for row in worked if row["outcome"] == "failed" and row["task_type"] != IMPROVEMENT]
        return figures, [(row["task_id"], row["number"]) for row in failed[-MOST_LOGS:]]

    figures, failed = services.db.read(look)
    logs = []
    for task_id, number in failed:
        file = services.project.logs_dir / "tasks" / task_id / f"{number}.log"
        if file.is_file() and not file.is_symlink():
            with file.open("rb") as log:
                log.seek(max(0, file.stat().st_size - LOG_END))
                logs.append(log.read(LOG_END).decode(errors="replace"))
    parts = {
        "The definition": content,
        "The figures": repr(figures),
        "The feedback of people": feedback or "nothing more",
    }
    sections = [f"## {head}\n\n{text}" for head, text in parts.items()]
    return redact(
        "\n\n".join([*sections, *(f"## The end of the log of a task that failed\n\n{text}" for text in logs)])
    )


def _propose(services: Services, row: ImprovementRow, now: datetime) -> None:
    rules, prompt, why = services.settings().agents.improve, row["material"], ""
    for number in range(1, improving.PROPOSALS + 1):
        key = key_of(row["improvement_id"], f"propose:{number}")
        with services.db.reading() as conn:
            task = tasks.by_idempotency_key(conn, key)
        if task is None:
            question = improving.question(prompt, rules.max_cases)
            item = improving.proposing(row["improvement_id"], row["agent"], number, question, rules.max_cost_usd)
            settled = app_tasks.settle(services, [item])
            services.db.write(partial(cases.submit, services, items=settled, now=now))
            crash_point("improvement.asked")
            services.nudge("supervisor")
            return
        if task["status"] not in TERMINAL_TASKS:
            return
        if task["status"] != TaskStatus.COMPLETED:
            cases.end(
                services,
                row,
                "failed",
                {"reason": cases.failure_reason([cases.Part("The meta-agent", task)], row)},
                now,
            )
            return
        try:
            cases.begin(services, row, improving.read_proposal(cases.text_of(task)), now)
            return
        except ValueError as error:
            why = str(error)
            prompt = f"{row['material']}\n\nAn answer of yours was not usable: {why}."
    cases.end(services, row, "failed", {"reason": f"The meta-agent gave no usable proposal: {why}"}, now)


def _never(agent: str) -> NotFound:
    return NotFound(
        f"{agent} was never improved.",
        cause="No improvement of it was started.",
        remedy=f"`corral agent improve {agent}`.",
    )


def job(services: Services) -> Step:
    """The job of improvements."""
    return Step("improvements", partial(step, services), pause_s=1.0, reads_events=True)
