"""The test cases of an improvement: both versions do them, judges compare the works, and the report says which is better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from corral.coordination.services import Services
from corral.core.crash import crash_point
from corral.core.errors import Conflict, CorralError, InvalidInput
from corral.core.event_payloads import AgentChosen
from corral.core.events import EventKind
from corral.core.instants import iso, parse
from corral.core.payload import Payload
from corral.core.redaction import redact
from corral.core.runners import traits
from corral.core.states import TERMINAL_TASKS, RunnerName, TaskStatus
from corral.git import diffs, refs
from corral.git.commits import add_files
from corral.store import events
from corral.store.rows import required
from corral.store.rows.agents import ImprovementRow
from corral.store.rows.tasks import TaskRow
from corral.work.agents import definitions, improving, judging
from corral.work.agents.choosing import definition_of
from corral.work.agents.definitions import Origin, proposed
from corral.work.agents.judging import Judged, key_of
from corral.work.agents.store import improvements as rows
from corral.work.agents.store import versions
from corral.work.loops import store as loops
from corral.work.loops.history import read_record
from corral.work.tasks import submitting as app_tasks
from corral.work.tasks import tasks as submitting
from corral.work.tasks.store import attempts, outcomes, tasks
from corral.work.tasks.wire import TaskSubmission, usage

CASES_REF = "refs/corral/cases/"
MOST_SAID = 4000
"""Characters of a worker's last words that a judge sees."""
_OWN_ENDS = ("max_turns", "budget_exceeded", "token_limit", "output_limit", "timeout", "stalled", "memory_limit")
"""Ends of a run that its version is to blame for: it has not passed."""


@dataclass(frozen=True)
class Part:
    """A task of an improvement, and the part of its key that says what it is for."""

    part: str
    task: TaskRow


def submit(services: Services, conn: Connection, *, items: Sequence[TaskSubmission], now: datetime) -> list[TaskRow]:
    """Queue tasks of an improvement, once."""
    settings = services.settings()
    return submitting.submit_batch(conn, items, now, settings.tasks, max_size=settings.queue.max_size)


def end(services: Services, row: ImprovementRow, state: str, values: Payload, now: datetime) -> None:
    """End an improvement, and record it."""
    ended = {"state": state, "ended_at": iso(now), **values}
    why = values.get("reason") or values["report"]["why"]

    def write(conn: Connection) -> None:
        if rows.advance(conn, row["improvement_id"], row["state"], ended):
            new = versions.by_hash(conn, row["agent"], row["new_hash"] or "")
            facts: AgentChosen = {"agent": row["agent"], "version": new["version"] if new else None, "reason": why}
            events.record(conn, now, EventKind.AGENT_IMPROVEMENT_ENDED(facts))

    services.db.write(write)


def begin(services: Services, row: ImprovementRow, proposal: improving.Proposal, now: datetime) -> None:
    """Store the proposed version, and queue all runs of its cases, in one transaction.

    Raises:
        ValueError: The proposal is no definition, or changes what has to stay.
    """
    rules, branch = services.settings().agents.improve, services.settings.target()
    with services.db.reading() as conn:
        base = versions.by_hash(conn, row["agent"], row["base_hash"])
    old = definition_of(base["content"], row["agent"]) if base else None
    new = definition_of(improving.new_text(old, proposal), row["agent"]) if old else None
    if old is None or new is None:
        raise ValueError("the new definition could not be read")
    improving.check_new(old, new)
    target, tip = branch.removeprefix("refs/heads/"), refs.read(services.git, branch)
    if tip is None:
        raise InvalidInput(f"There is no commit on {target} that the cases could start at.")
    cases = proposal.cases[: rules.max_cases]
    at = parse(row["created_at"])
    shas = [
        add_files(services.git, f"{CASES_REF}{row['improvement_id']}/{index}", tip, case.files, case.name, at)
        for index, case in enumerate(cases)
    ]  # fmt: skip
    crash_point("improvement.prepared")
    share, _ = improving.shares(cases, rules.rounds, rules.max_cost_usd)
    plan = {"cases": [case.model_dump() for case in cases], "rounds": rules.rounds, "max_cost_usd": rules.max_cost_usd}
    hashes = {"old": old.content_hash, "new": new.content_hash}

    def write(conn: Connection) -> None:
        if versions.by_hash(conn, row["agent"], new.content_hash) is None:
            version = proposed(versions.of_agent(conn, row["agent"]), Origin(new, None), now)
            versions.add(conn, {**version, "author": "corral agent improve", "reason": redact(proposal.reason)})
        values = {"state": "testing", "new_hash": new.content_hash, "plan": plan, "reason": None}
        if not rows.advance(conn, row["improvement_id"], "proposing", values):
            return
        keys = [(f"{case}:{arm}:{turn}", case, arm) for case, arm, turn in _runs(len(cases), rules.rounds)]
        items = [
            improving.case_task(row["improvement_id"], row["agent"], hashes[arm], key, cases[case], share)
            for key, case, arm in keys
        ]
        queued = submit(services, conn, items=[_with_runner(item, old.runner) for item in items], now=now)
        for (_, case, _), task in zip(keys, queued, strict=True):
            loops.begin(conn, task["task_id"], target, shas[case])

    services.db.write(write)
    crash_point("improvement.testing")
    services.nudge("supervisor")


def _with_runner(item: TaskSubmission, runner: str) -> TaskSubmission:
    return item.model_copy(update={"runner": runner if traits(runner).is_model else RunnerName.COMMAND.value})


def _runs(cases: int, rounds: int) -> list[tuple[int, str, int]]:
    """Of each run its case, version and round; the versions take turns, so that neither has the quieter machine."""
    return [(case, arm, turn) for turn in range(rounds) for case in range(cases)
            for arm in (("old", "new") if (turn + case) % 2 == 0 else ("new", "old"))]  # fmt: skip


def compare(services: Services, row: ImprovementRow, now: datetime) -> None:
    """Once all runs have ended, have their works judged; once that is done, say which version is better."""
    with services.db.reading() as conn:
        runs = _parts(conn, row)
        if any(run.task["status"] not in TERMINAL_TASKS for run in runs.values()):
            return
        failed = [run for run in runs.values() if not _has_result(conn, run.task)]
    if failed:
        end(services, row, "failed", {"reason": failure_reason(failed, row)}, now)
        return
    _settle(services, [run.task for run in runs.values()], now)
    answers = _judgings(services, row, runs, now)
    if answers is None or any(answer.task["status"] not in TERMINAL_TASKS for answer in answers.values()):
        return
    if failed := [answer for answer in answers.values() if not _has_answer(answer.task)]:
        end(services, row, "failed", {"reason": failure_reason(failed, row)}, now)
        return
    names = [case["name"] for case in _plan(row)["cases"]]
    with services.db.reading() as conn:
        results = [_run(conn, runs[key].task, *key) for key in runs]
        judged = _judged(conn, row, answers)
        compared = [
            versions.by_hash(conn, row["agent"], digest or "") for digest in (row["base_hash"], row["new_hash"])
        ]
        _, proposals_usd = _spent(conn, proposals(conn, row))
    old, new = (version["version"] if version else "?" for version in compared)
    report: dict[str, Any] = {**improving.report(results, judged, names, of=(old, new))}
    report["cost_usd"] = round(proposals_usd + judged.cost_usd + sum(run.cost_usd for run in results), 6)
    report["deployed"] = None
    if row["deploys"] and report["recommendation"] == "deploy":
        try:
            _require_compared(services, row)
            report["deployed"] = definitions.rollback(services, row["agent"], new)["file"]
        except CorralError as error:
            report["why"] += f" It was not deployed: {error.message}"
        crash_point("improvement.deployed")
    for ref in refs.listing(services.git, f"{CASES_REF}{row['improvement_id']}/"):
        refs.delete(services.git, ref.name, ref.sha)  # the runs have them in their history
    end(services, row, "done", {"report": report, "reason": None}, now)


def _require_compared(services: Services, row: ImprovementRow) -> None:
    """Refuse to deploy, without a person's yes, over a definition that was not compared.

    Raises:
        Conflict: The file was changed since the improvement began.
        InvalidInput: The project has no file for this agent.
    """
    definition = definitions.own_definition(services.roster(), row["agent"])
    if definition.content_hash not in (row["base_hash"], row["new_hash"]):
        command = f"corral agent improve {row['agent']} --deploy"
        raise Conflict(
            f"its file was changed meanwhile, and was not compared. `{command}` deploys over it.",
            cause="Somebody changed the definition while its improvement was tried.",
            remedy=f"Look at it, then `{command}`.",
        )


def _settle(services: Services, ended: Sequence[TaskRow], now: datetime) -> None:
    """Dismiss failed runs: their failure is a result, and needs no person."""
    failed = [task["task_id"] for task in ended if task["status"] != TaskStatus.COMPLETED and not task["dismissed_at"]]
    if failed:
        services.db.write(lambda conn: [outcomes.dismiss_task(conn, task_id, iso(now)) for task_id in failed])


def _plan(row: ImprovementRow) -> dict[str, Any]:
    return row["plan"] or {"cases": [], "rounds": 0, "max_cost_usd": 0}


def _parts(conn: Connection, row: ImprovementRow) -> dict[tuple[int, str, int], Part]:
    """The newest task of each run of the cases.

    Raises:
        InvalidInput: One is gone.
    """
    parts, plan = {}, _plan(row)
    for case, arm, turn in _runs(len(plan["cases"]), plan["rounds"]):
        part = f"{case}:{arm}:{turn}"
        task = tasks.by_idempotency_key(conn, key_of(row["improvement_id"], part))
        number = 2
        while task is not None and (
            later := tasks.by_idempotency_key(conn, key_of(row["improvement_id"], f"{part}:{number}"))
        ):
            task, number = later, number + 1
        if task is None:
            raise InvalidInput(f"The run {part} of its cases is gone.")
        parts[case, arm, turn] = Part(part if number == 2 else f"{part}:{number - 1}", task)
    return parts


def _has_result(conn: Connection, task: TaskRow) -> bool:
    """Whether a run says something of its version: not so where the API, the machine or a person ended it."""
    iterations = loops.iterations(conn, task["task_id"])
    if not iterations:
        return task["error_code"] in _OWN_ENDS
    return bool(iterations[-1]["is_success"]) or not improving.was_cut_off(read_record(iterations[-1])["result"])


def _has_answer(task: TaskRow) -> bool:
    is_own = task["error_code"] in _OWN_ENDS or not improving.was_cut_off(task["result"])
    return task["status"] == TaskStatus.COMPLETED or is_own


def failure_reason(failed: Sequence[Part], row: ImprovementRow) -> str:
    """Why an improvement ended without a report, and what to type."""
    task = failed[0].task
    last = (task["result"] or {}).get("last") if isinstance(task["result"], dict) else None
    last_words = last.get("text") if isinstance(last, dict) else None
    why = f"Task {task['task_id'][:8]} is {task['status']}: {last_words or task['error_message'] or task['error_code']}"
    others = f" So are {len(failed) - 1} others." if len(failed) > 1 else ""
    return f"{redact(why)[:500]}{others} Nothing is lost: `corral agent improve {row['agent']} --resume` goes on from here."


def unusable(conn: Connection, row: ImprovementRow) -> list[Part]:
    """The tasks of an improvement that ended without a result, and no version is to blame for it."""
    runs = [part for part in _parts(conn, row).values() if not _has_result(conn, part.task)]
    return runs or [part for part in _judge_tasks(conn, row).values() if not _has_answer(part.task)]


def again(services: Services, conn: Connection, row: ImprovementRow, parts: Sequence[Part], now: datetime) -> None:
    """Have tasks done again: a run of a case from its beginning, so that it knows nothing of the one before."""
    settings = services.settings()
    for repeated in parts:
        past = loops.get(conn, repeated.task["task_id"])
        if past is None:
            submitting.retry(conn, repeated.task["task_id"], now, settings.tasks)
            continue
        outcomes.dismiss_task(conn, repeated.task["task_id"], iso(now))  # another one takes its place
        case, arm, turn, *rest = repeated.part.split(":")
        part = f"{case}:{arm}:{turn}:{int(rest[0]) + 1 if rest else 2}"
        plan = _plan(row)
        cases = [improving.Case.model_validate(case_fields) for case_fields in plan["cases"]]
        share, _ = improving.shares(cases, plan["rounds"], plan["max_cost_usd"])
        version = str(repeated.task["agent_version"])
        item = improving.case_task(row["improvement_id"], row["agent"], version, part, cases[int(case)], share)
        (task,) = submit(services, conn, items=[item.model_copy(update={"runner": repeated.task["runner"]})], now=now)
        loops.begin(conn, task["task_id"], required(past["target"]), required(past["base_sha"]))


def _judge_tasks(conn: Connection, row: ImprovementRow) -> dict[tuple[int, int, str], Part]:
    """The tasks of judges that exist, by case, round and order."""
    judge_tasks, plan = {}, _plan(row)
    for case, _ in enumerate(plan["cases"]):
        for turn in range(plan["rounds"]):
            for order in judging.ORDERS:
                part = f"judge:{case}:{turn}:{order}"
                task = tasks.by_idempotency_key(conn, key_of(row["improvement_id"], part))
                if task is not None:
                    judge_tasks[case, turn, order] = Part(part, task)
    return judge_tasks


def _judgings(
    services: Services, row: ImprovementRow, runs: dict[tuple[int, str, int], Part], now: datetime
) -> dict[tuple[int, int, str], Part] | None:
    """The tasks of the judges; None: they have just been queued."""
    plan, judge_tasks = _plan(row), services.db.read(_judge_tasks, row)
    if judge_tasks or not any(case["rubric"] for case in plan["cases"]):
        return judge_tasks
    with services.db.reading() as conn:
        models = [attempts.model_of(conn, run.task["task_id"], run.task["fencing_token"]) for run in runs.values()]
    model = judging.model_for(services.settings().loops.judge_model, models)
    if model is None:
        return judge_tasks
    cases = [improving.Case.model_validate(case) for case in plan["cases"]]
    _, share = improving.shares(cases, plan["rounds"], plan["max_cost_usd"])
    items = []
    for index, case in enumerate(cases):
        for turn in range(plan["rounds"] if case.rubric else 0):
            old, new = (_work(services, runs[index, arm, turn].task) for arm in ("old", "new"))
            for order in judging.ORDERS if old is not None and new is not None else ():
                prompt = judging.question(case.prompt, case.rubric or "", old or "", new or "", order)
                items.append(
                    judging.judging(row["improvement_id"], f"judge:{index}:{turn}:{order}", prompt, model, share)
                )
    if not items:
        return judge_tasks
    settled = app_tasks.settle(services, items)
    services.db.write(lambda conn: submit(services, conn, items=settled, now=now))
    crash_point("improvement.judging")
    services.nudge("supervisor")
    return None


def _work(services: Services, task: TaskRow) -> str | None:
    """The work of a run as a judge sees it: its change, and its worker's last words; None: there is none."""
    with services.db.reading() as conn:
        iterations = loops.iterations(conn, task["task_id"])
    if not iterations:
        return None
    changed = diffs.between(services.git, iterations[0]["base_sha"], iterations[-1]["head_sha"], most=judging.MOST_WORK)
    cut = "\n(The rest of the change is not shown.)" if changed.truncated else ""
    return redact(
        f"The change as a patch:\n{changed.patch}{cut}\n\nThe worker's last words:\n{text_of(task)[:MOST_SAID]}"
    )


def _judged(conn: Connection, row: ImprovementRow, answers: dict[tuple[int, int, str], Part]) -> Judged:
    plan = _plan(row)
    pairs = [
        {order: judging.read_answer(text_of(answer.task)) if (answer := answers.get((index, turn, order))) else None
         for order in judging.ORDERS}
        for index, case in enumerate(plan["cases"]) if case["rubric"] for turn in range(plan["rounds"])
    ]  # fmt: skip
    tokens, cost = _spent(conn, [answer.task for answer in answers.values()])
    model = next((str((answer.task["input_data"] or {}).get("model")) for answer in answers.values()), None)
    return judging.count(pairs, model=model, tokens=tokens, cost_usd=cost)


def _run(conn: Connection, task: TaskRow, case: int, arm: str, turn: int) -> improving.Run:
    iterations = loops.iterations(conn, task["task_id"])
    tokens, cost = _spent(conn, [task])
    duration = iterations[-1]["duration_s"] if iterations else None
    return improving.Run(case, turn, arm == "new", task["status"] == TaskStatus.COMPLETED, duration, tokens, cost)


def proposals(conn: Connection, row: ImprovementRow) -> list[TaskRow]:
    """The tasks of the meta-agent."""
    keys = [key_of(row["improvement_id"], f"propose:{number}") for number in range(1, improving.PROPOSALS + 1)]
    return [task for key in keys if (task := tasks.by_idempotency_key(conn, key)) is not None]


def _spent(conn: Connection, task_rows: Sequence[TaskRow]) -> tuple[int, float]:
    """The tokens and the cost of all attempts at tasks."""
    uses = [usage(attempts.of_task(conn, task["task_id"])) for task in task_rows]
    return sum(use["input_tokens"] + use["output_tokens"] for use in uses), sum(use["cost_usd"] for use in uses)


def text_of(task: TaskRow) -> str:
    """The last words of a task's worker."""
    result = task["result"] if isinstance(task["result"], dict) else {}
    last = result.get("last") if isinstance(result.get("last"), dict) else result
    return str((last or {}).get("text") or (last or {}).get("output") or "")
