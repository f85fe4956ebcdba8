"""Why a task that could run does not: what ``task detail``, ``wait`` and ``status`` say of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection

from corral.coordination.features.feasibility import ClaimIndex, Feasibility
from corral.coordination.locks.keys import parse_key
from corral.models.blame import DAEMON_DIED
from corral.models.instants import iso, parse
from corral.models.outcomes import of_task
from corral.models.payload import Payload
from corral.models.states import TaskStatus
from corral.models.visible import one_line
from corral.store.rows.tasks import TaskRow
from corral.store.tasks import dependencies, tasks, work_pause
from corral.work import limits
from corral.work.limits import Hold
from corral.work.tasks.dependencies import Outlook, outlook
from corral.work.tasks.trust import TrustGate
from corral.work.workers.claim_pause import Pause

FOR_SESSIONS = (
    "It has no command and no prompt, so no worker does it: it waits until a session{capable} takes it (`corral task claim`, or "
    "the tool get_work). To drop it: `corral task cancel ID`."
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
    fold: bool = False,
) -> str | None:
    """Why a task that has not started does not; None where it is only its turn that it waits for.

    Args:
        row: The task, whole.
        pause: Why no task is claimed, where none is.
        gate: Which tasks wait for the user's approval.
        throttles: The limits of all workers together that are used to 80 % or more.
        busy: Why no further worker starts, where all are running.
        fold: Whether the file system ignores case, so that claims are compared like that.
    """
    if row["status"] == TaskStatus.WAITING:
        if row["combine"] is not None:
            return f"It waits for the {row['agents_wanted']} agents that do it."
        return _what_comes_first(conn, row["task_id"])
    if row["status"] != TaskStatus.PENDING:
        return None
    if (ordered := work_pause.current(conn)) is not None:
        return work_pause.described(ordered)
    if row["runner"] is None:
        required = ", ".join((row["agent_requirements"] or {}).get("capabilities") or ())
        return FOR_SESSIONS.format(capable=f" that is capable of {one_line(required)}" if required else "")
    if gate is not None and (text := gate.reason(row)):
        return text
    if pause is not None:
        return f"No task is started now: {pause.reason} {_again(pause.probe_at, now)}"
    if (throttle := limits.holding(throttles, row["runner"])) is not None:
        return throttle.reason
    if row["not_before_at"] is not None and row["not_before_at"] > iso(now):
        return f"{_what_happened(row)} {_again(parse(row['not_before_at']), now)}"
    other = tasks.suspect_in_flight(conn) if row["crashes"] else None
    if other is not None:
        return f"{_what_happened(row)} It waits until task {other[:8]} has ended: such tasks run one at a time."
    return _who_claims_the_same(conn, row["task_id"], fold=fold) or busy


def _what_comes_first(conn: Connection, task_id: str) -> str | None:
    parents = dependencies.parent_states(conn, [task_id]).get(task_id, [])
    still = [row for row in parents if outlook(row["status"], row["merge_state"], "landed") is Outlook.OPEN]
    if not still:
        return None
    named = ", ".join(
        f"{one_line(row['title'])[:40]!r} ({of_task(row['status'], row['merge_state'], dismissed=False)}, {row['task_id'][:8]})"
        for row in still[:MOST_NAMED]
    )
    more = f" and {len(still) - MOST_NAMED} more" if len(still) > MOST_NAMED else ""
    return f"It waits for {named}{more} to land."


def _who_claims_the_same(conn: Connection, task_id: str, *, fold: bool) -> str | None:
    """A running task beside which this one is not started."""
    running = tasks.claims_in(conn, TaskStatus.RUNNING)
    mine = tasks.claims_of(conn, task_id)[task_id] if running else []
    if not mine:
        return None
    ground = ClaimIndex({one: [parse_key(text, fold=fold) for text in texts] for one, texts in running.items()})
    judged = ground.judge([parse_key(text, fold=fold) for text in mine])
    for other, meeting in judged.meetings.items() if judged.feasibility is Feasibility.SEQUENTIAL else ():
        claim = meeting.pairs[0][1].file_path
        return f"It waits until task {other[:8]} has ended, which claims {one_line(claim)} too."
    return None


def delayed(conn: Connection, pause: Pause | None, now: datetime, limit: int) -> list[Payload]:
    """Tasks that a fault or a suspicion holds back: ``task_id, title, delay``, those first that it happened to most often."""
    found = ((row, reason(conn, row, pause, now)) for row in tasks.held_back(conn, limit))
    return [{"task_id": row["task_id"], "title": row["title"], "delay": text} for row, text in found if text]


def _what_happened(row: TaskRow) -> str:
    said = row["error_message"] or row["error_code"] or "It failed."
    if row["error_code"] == DAEMON_DIED:
        return said
    if row["faults"] or row["crashes"]:
        return f"{said} That is not counted against it."
    return f"Attempt {row['attempts']} failed: {said}"


def _again(due: datetime, now: datetime) -> str:
    seconds = (due - now).total_seconds()
    return f"It is tried again in {seconds:.0f} s." if seconds >= 1 else "It is tried again now."
