"""Why a task that could run does not run, as ``task detail``, ``wait`` and ``status`` show it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from sqlalchemy import Connection

from corral.coordination.sessions.registry import PERSON
from corral.coordination.sessions.store import sessions
from corral.core.instants import iso, parse
from corral.core.outcomes import of_task
from corral.core.payload import Payload
from corral.core.states import RunnerName, TaskStatus
from corral.core.visible import one_line
from corral.runners.blame import DAEMON_DIED
from corral.store.rows.tasks import TaskRow
from corral.work.loops import store as loops
from corral.work.loops.history import is_judged
from corral.work.tasks import leases, scheduling
from corral.work.tasks.dependencies import clash
from corral.work.tasks.leases import Claimant
from corral.work.tasks.outlook import Outlook, outlook
from corral.work.tasks.scheduling import Ready
from corral.work.tasks.store import dependencies, tasks, work_pause
from corral.work.trust.trust import TrustGate
from corral.work.workers import limits
from corral.work.workers.claim_pause import Pause
from corral.work.workers.limits import Hold

FOR_SESSIONS = (
    "It has no command and no prompt, so no worker does it: it waits until a session{capable} takes it (`corral task claim`, or "
    "the tool get_work). To drop it: `corral task cancel {which}`."
)
MOST_NAMED = 3
"""Other tasks in a reason."""


def reason(
    conn: Connection,
    row: TaskRow,
    pause: Pause | None,
    now: datetime,
    gate: TrustGate | None = None,
    *,
    throttles: Sequence[Hold] = (),
    busy: str | None = None,
    ageing_s: float = 0,
    fold: bool = False,
) -> str | None:
    """Why a task has not started, or who has taken it; None: it only waits for its turn, or a worker does it.

    Args:
        row: The task, whole.
        pause: Why no task is claimed, where none is.
        gate: Which tasks wait for the user's approval.
        throttles: The limits of all workers together that are used to 80 % or more.
        busy: Why no further worker starts, where all are running.
        ageing_s: As in :func:`corral.work.tasks.scheduling.claim`.
        fold: Whether the file system ignores case, so that claims are compared like that.
    """
    if row["status"] == TaskStatus.WAITING:
        agents = f"It waits for the {row['agents_wanted']} agents that do it." if row["combine"] is not None else None
        return _awaited_tasks(conn, row["task_id"]) or agents
    if row["status"] == TaskStatus.INTERRUPTED:
        return "It starts again once no process of its former worker is alive."
    if row["status"] == TaskStatus.RUNNING:
        return _with_person(conn, row)
    if row["status"] != TaskStatus.PENDING:
        return None
    if (ordered := work_pause.current(conn)) is not None:
        return work_pause.described(ordered)
    blocked_by_claims = partial(_blocked_by_claims, conn, row["task_id"], now, ageing_s=ageing_s, fold=fold)
    if row["runner"] is None:
        return _for_sessions(row, blocked_by_claims)
    if gate is not None and (text := gate.reason(row)):
        return text
    if pause is not None:
        return f"No task is started now: {pause.reason} {_retry_time(pause.probe_at, now)}"
    if (throttle := limits.holding(throttles, row["runner"])) is not None:
        return throttle.reason
    if (throttle := limits.holding_judges(throttles)) is not None and _is_judged(conn, row["task_id"]):
        return f"{throttle.reason} Its iterations are judged by a model."
    if row["not_before_at"] is not None and row["not_before_at"] > iso(now):
        return f"{_last_failure(row)} {_retry_time(parse(row['not_before_at']), now)}"
    other = tasks.suspect_in_flight(conn) if row["crashes"] >= tasks.SUSPECTED else None
    if other is not None and not _is_led(conn, row):
        return f"{_last_failure(row)} It waits until task {other[:8]} has ended: such tasks run one at a time."
    held = {runner.value for runner in RunnerName if limits.holding(throttles, runner)}
    startable = gate.startable if gate is not None else scheduling.startable
    return blocked_by_claims(ready=partial(startable, without=held)) or busy


def _with_person(conn: Connection, row: TaskRow) -> str | None:
    holder = sessions.get(conn, row["session_id"]) if row["session_id"] else None
    if holder is None or holder["agent_type"] != PERSON:
        return None
    done = f"`corral task complete {row['task_id'][:8]}`"
    return f"{one_line(holder['agent_name'])} has taken it, and says when it is done: {done}."


def _is_judged(conn: Connection, task_id: str) -> bool:
    loop = loops.get(conn, task_id)
    return loop is not None and is_judged(loop)


def _is_led(conn: Connection, row: TaskRow) -> bool:
    leader = tasks.get(conn, row["parent_task_id"]) if row["parent_task_id"] else None
    return leader is not None and leader["status"] == TaskStatus.RUNNING


def _for_sessions(row: TaskRow, blocked_by_claims: Callable[..., str | None]) -> str:
    required = (row["agent_requirements"] or {}).get("capabilities") or ()
    capable = f" that is capable of {one_line(', '.join(required))}" if required else ""
    text = FOR_SESSIONS.format(capable=capable, which=row["task_id"][:8])
    # Which session will ask is unknown: assume one that is capable of exactly this task.
    claimant = Claimant("", lambda: required)
    held_back = blocked_by_claims(ready=partial(leases.offered_to, who=claimant))
    return f"{text} {held_back}" if held_back else text


def _awaited_tasks(conn: Connection, task_id: str) -> str | None:
    parents = dependencies.parent_states(conn, [task_id]).get(task_id, [])
    still = [row for row in parents if outlook(row["status"], row["merge_state"], "landed") is Outlook.OPEN]
    if not still:
        return None
    named = ", ".join(
        f"{one_line(row['title'])[:40]!r} ({of_task(row['status'], row['merge_state'], dismissed=False)}, {row['task_id'][:8]})"
        for row in still[:MOST_NAMED]
    )
    more = f" and {len(still) - MOST_NAMED} more" if len(still) > MOST_NAMED else ""
    clashing = " and ".join(repr(one_line(row["title"])[:40]) for row in clash(parents))
    why = (
        f" It cannot begin before one of {clashing} has landed or changed: their work does not merge."
        if clashing
        else ""
    )
    return f"It waits for {named}{more} to land.{why}"


def _blocked_by_claims(
    conn: Connection, task_id: str, now: datetime, *, ageing_s: float, ready: Ready, fold: bool
) -> str | None:
    """The task that goes before this one, since they cannot run side by side."""
    blocker = scheduling.blocker(conn, task_id, now, ageing_s=ageing_s, ready=ready, fold=fold)
    if blocker is None:
        return None
    other, claim = blocker.task_id[:8], one_line(blocker.claim)
    if blocker.waits_for is None:
        return f"It waits until task {other} has ended, which claims {claim} too."
    return (
        f"It waits until task {other} has started, which is before it in the queue and claims {claim} too; "
        f"that one waits until task {blocker.waits_for[:8]} has ended."
    )


def delayed(conn: Connection, pause: Pause | None, now: datetime, limit: int) -> list[Payload]:
    """Tasks that a fault or a suspicion holds back: ``task_id, title, delay``, the most often delayed first."""
    reasons = ((row, reason(conn, row, pause, now)) for row in tasks.held_back(conn, limit))
    return [{"task_id": row["task_id"], "title": row["title"], "delay": text} for row, text in reasons if text]


def _last_failure(row: TaskRow) -> str:
    error = row["error_message"] or row["error_code"] or "It failed."
    if row["error_code"] == DAEMON_DIED:
        return error
    if row["faults"] or row["crashes"]:
        return f"{error} That is not counted against it."
    return f"Attempt {row['attempts']} failed: {error}"


def _retry_time(due: datetime, now: datetime) -> str:
    seconds = (due - now).total_seconds()
    return f"It is tried again in {seconds:.0f} s." if seconds >= 1 else "It is tried again now."
