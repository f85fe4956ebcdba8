"""Improvements of agents: started by a person, carried on by the daemon as ordinary tasks, and never deployed unasked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Connection

from corral.app import tasks as app_tasks
from corral.app.agents import definitions
from corral.app.runtime.services import Services
from corral.errors import Conflict, CorralError, InvalidInput, NotFound
from corral.git import refs
from corral.git.fixtures import add_files
from corral.models.identifiers import new_id
from corral.models.instants import iso
from corral.models.payload import Payload
from corral.models.states import TERMINAL_TASKS, TaskStatus
from corral.models.tasks import TaskSubmission, usage
from corral.observe.redaction import redact
from corral.store.agents import improvements as rows
from corral.store.agents import runs, versions
from corral.store.rows.agents import ImprovementRow
from corral.store.rows.tasks import TaskRow
from corral.store.tasks import attempts, loops, tasks
from corral.work.agents import improving, record
from corral.work.agents.choosing import definition_of
from corral.work.agents.versions import Origin, proposed
from corral.work.loops.history import read_record
from corral.work.tasks import tasks as submitting

CASES_REF = "refs/corral/cases/"
SINCE = timedelta(days=90)
MOST_LOGS, LOG_END = 3, 2000
"""Logs of failed tasks that the meta-agent sees, and characters of the end of each."""


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
        if any(one["agent"] == row["agent"] for one in rows.running(conn)):
            raise Conflict(
                f"{row['agent']} is being improved.", remedy=f"`corral agent improve {row['agent']} --status`."
            )
        rows.add(conn, row)

    services.db.write(write)
    services.nudge("improvements")
    return shown(services, row)


def status(services: Services, name: str) -> Payload:
    """The newest improvement of an agent.

    Raises:
        NotFound: There was none.
    """
    agent = definitions.known_name(services, name)
    row = services.db.read(lambda conn: rows.newest(conn, agent))
    if row is None:
        raise NotFound(f"{agent} was never improved.", remedy=f"`corral agent improve {agent}`.")
    return shown(services, row)


def shown(services: Services, row: ImprovementRow) -> Payload:
    """An improvement as a face shows it."""
    new = services.db.read(lambda conn: versions.by_hash(conn, row["agent"], row["new_hash"] or ""))
    plain = ("improvement_id", "agent", "state", "report", "reason", "deploys", "created_at", "ended_at")
    cases = [case["name"] for case in (row["plan"] or {}).get("cases", [])]
    return {**{field: row[field] for field in plain}, "version": new["version"] if new else None, "cases": cases}  # type: ignore[literal-required]


def step(services: Services, now: datetime) -> None:
    """Carry every improvement on as far as its tasks allow."""
    for row in services.db.read(rows.running):
        try:
            (_propose if row["state"] == "proposing" else _compare)(services, row, now)
        except CorralError as error:
            _end(services, row, "failed", {"reason": f"{error.message} {error.cause}"}, now)


def _material(services: Services, agent: str, content: str, feedback: str | None, now: datetime) -> str:
    def look(conn: Connection) -> tuple[list[Payload], list[tuple[str, int]]]:
        found = record.stats(conn, agent, now - SINCE, None)
        failed = [row for row in runs.of_agents(conn, agent, iso(now - SINCE)) if row["outcome"] == "failed"]
        return found, [(row["task_id"], row["number"]) for row in failed[-MOST_LOGS:]]

    figures, failed = services.db.read(look)
    logs = []
    for task_id, number in failed:
        file = services.project.logs_dir / "tasks" / task_id / f"{number}.log"
        if file.is_file() and not file.is_symlink():
            logs.append(file.read_text(errors="replace")[-LOG_END:])
    parts = {
        "The definition": content,
        "The figures": repr(figures),
        "The feedback of people": feedback or "nothing more",
    }
    said = [f"## {head}\n\n{text}" for head, text in parts.items()]
    return redact("\n\n".join([*said, *(f"## The end of the log of a task that failed\n\n{text}" for text in logs)]))


def _submit(services: Services, conn: Connection, *, items: Sequence[TaskSubmission], now: datetime) -> list[TaskRow]:
    settings = services.settings()
    return submitting.submit_batch(conn, items, now, settings.tasks, max_size=settings.queue.max_size)


def _propose(services: Services, row: ImprovementRow, now: datetime) -> None:
    rules, prompt = services.settings().agents.improve, row["material"]
    for number in range(1, improving.PROPOSALS + 1):
        key = f"{improving.KEY}{row['improvement_id']}:propose:{number}"
        task = services.db.read(lambda conn: tasks.by_idempotency_key(conn, key))  # noqa: B023
        if task is None:
            asked = improving.question(prompt, rules.max_cases)
            item = improving.proposing(row["improvement_id"], row["agent"], number, asked, rules.max_cost_usd)
            settled = app_tasks.settle(services, [item])
            services.db.write(partial(_submit, services, items=settled, now=now))
            services.nudge("supervisor")
            return
        if task["status"] not in TERMINAL_TASKS:
            return
        if task["status"] != TaskStatus.COMPLETED:
            text = f"The meta-agent's task {task['task_id'][:8]} is {task['status']}: {task['error_message']}"
            _end(services, row, "failed", {"reason": text}, now)
            return
        try:
            _begin_cases(services, row, improving.read_proposal(improving.text_of(task["result"])), now)
            return
        except ValueError as error:
            why = str(error)
            prompt = f"{row['material']}\n\nAn answer of yours was not usable: {why}."
    _end(services, row, "failed", {"reason": f"The meta-agent gave no usable proposal: {why}"}, now)


def _begin_cases(services: Services, row: ImprovementRow, proposal: improving.Proposal, now: datetime) -> None:
    rules, branch = services.settings().agents.improve, services.settings.target()
    base = services.db.read(lambda conn: versions.by_hash(conn, row["agent"], row["base_hash"]))
    old = definition_of(base["content"], row["agent"]) if base else None
    new = definition_of(improving.new_text(old, proposal), row["agent"]) if old else None
    if old is None or new is None:
        raise ValueError("the new definition could not be read")
    target, tip = branch.removeprefix("refs/heads/"), refs.read(services.git, branch)
    if tip is None:
        raise InvalidInput(f"There is no commit on {target} that the cases could start at.")
    cases = proposal.cases[: rules.max_cases]
    at = datetime.fromisoformat(row["created_at"].replace("Z", "+00:00"))
    shas = [add_files(services.git, f"{CASES_REF}{row['improvement_id']}/{index}", tip, case.files, case.name, at)
            for index, case in enumerate(cases)]  # fmt: skip
    share = rules.max_cost_usd / (2 * len(cases) * rules.rounds)
    keys = _keys(len(cases), rules.rounds)
    hashes = {"old": old.content_hash, "new": new.content_hash}

    def write(conn: Connection) -> None:
        if versions.by_hash(conn, row["agent"], new.content_hash) is None:
            made = proposed(versions.of_agent(conn, row["agent"]), Origin(new, None), now)
            versions.add(conn, {**made, "author": "corral agent improve", "reason": proposal.reason})
        plan = {"cases": [case.model_dump() for case in cases], "rounds": rules.rounds}
        values = {"state": "testing", "new_hash": new.content_hash, "plan": plan}
        if not rows.advance(conn, row["improvement_id"], "proposing", values):
            return
        items = [improving.case_task(row["improvement_id"], row["agent"], hashes[arm], key, cases[case], share)
                 for key, case, arm in keys]  # fmt: skip
        made_rows = _submit(services, conn, items=[_with_runner(item, old.runner) for item in items], now=now)
        for (_, case, _), task in zip(keys, made_rows, strict=True):
            loops.begin(conn, task["task_id"], target, shas[case])

    services.db.write(write)
    services.nudge("supervisor")


def _with_runner(item: TaskSubmission, runner: str) -> TaskSubmission:
    return item.model_copy(update={"runner": runner if runner in ("claude", "anthropic") else "command"})


def _keys(cases: int, rounds: int) -> list[tuple[str, int, str]]:
    """Of each run its key, its case and its version; the versions take turns, so that neither has the quieter machine."""
    return [(f"{case}:{arm}:{turn}", case, arm) for turn in range(rounds) for case in range(cases)
            for arm in (("old", "new") if (turn + case) % 2 == 0 else ("new", "old"))]  # fmt: skip


def _compare(services: Services, row: ImprovementRow, now: datetime) -> None:
    plan = row["plan"] or {}
    names = [case["name"] for case in plan["cases"]]

    def look(conn: Connection) -> list[improving.Run] | None:
        found = []
        for key, case, arm in _keys(len(names), plan["rounds"]):
            task = tasks.by_idempotency_key(conn, f"{improving.KEY}{row['improvement_id']}:{key}")
            if task is None:
                raise InvalidInput(f"The run {key} of its cases is gone.")
            if task["status"] not in TERMINAL_TASKS:
                return None
            found.append(_run(conn, task, case, is_new=arm == "new"))
        return found

    found = services.db.read(look)
    if found is None:
        return
    shown_as = [services.db.read(lambda conn: versions.by_hash(conn, row["agent"], one or ""))  # noqa: B023
                for one in (row["base_hash"], row["new_hash"])]  # fmt: skip
    old, new = (one["version"] if one else "?" for one in shown_as)
    report: dict[str, Any] = improving.report(found, names, of=(old, new))
    report["deployed"] = None
    if row["deploys"] and report["recommendation"] == "deploy":
        try:
            report["deployed"] = definitions.rollback(services, row["agent"], new)["file"]
        except CorralError as error:
            report["why"] += f" It was not deployed: {error.message}"
    _end(services, row, "done", {"report": report}, now)


def _run(conn: Connection, task: TaskRow, case: int, *, is_new: bool) -> improving.Run:
    iterations = loops.iterations(conn, task["task_id"])
    judged = [
        one for one in (read_record(iterations[-1])["evaluations"] if iterations else []) if one["kind"] == "judge"
    ]
    used = usage(attempts.of_task(conn, task["task_id"]))
    return improving.Run(
        case,
        is_new,
        task["status"] == TaskStatus.COMPLETED,
        iterations[-1]["duration_s"] if iterations else None,
        used["input_tokens"] + used["output_tokens"],
        used["cost_usd"],
        judged[0].get("score") if judged else None,
    )


def _end(services: Services, row: ImprovementRow, state: str, values: Payload, now: datetime) -> None:
    ended = {"state": state, "ended_at": iso(now), **values}
    services.db.write(lambda conn: rows.advance(conn, row["improvement_id"], row["state"], ended))
