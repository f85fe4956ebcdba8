"""The status line of a session over HTTP."""

from __future__ import annotations

import asyncio
import time

from sqlalchemy import Connection

from corral.coordination.locks.store import locks
from corral.coordination.mail.store import mailbox
from corral.coordination.services import Services
from corral.coordination.sessions.store import sessions
from corral.core.instants import iso
from corral.core.needs import count
from corral.core.routing import EVERYONE, MACHINE, Routes
from corral.core.states import OPEN_MERGES, TaskStatus
from corral.observe.view.api import ClientStatus, SessionScreen, ShownScreen, StatusLine
from corral.observe.view.needs_you import needs_you
from corral.observe.view.session_screen import compose, short
from corral.work.merges.store import merges
from corral.work.tasks.store import tasks

router = Routes("status_line", "/statusline", scope=MACHINE, callers=EVERYONE)


@router.post("", changes=False)
async def line(services: Services, status: ClientStatus) -> StatusLine:
    """A session in one line: its name, task, locks and mail, the queue, and what needs a person. Changes nothing."""
    text = await services.store.read(status_line, services, status.session_id)
    return StatusLine(line=text)


@router.post("/screen", changes=False)
async def screen(services: Services, shown: ShownScreen) -> SessionScreen:
    """What the mod of a session draws; held until it differs from what is ``shown``, ``wait_s`` at most. Changes nothing."""
    deadline = time.monotonic() + shown.wait_s
    while True:
        answer = await services.store.read(compose, services, shown.session_id)
        left_s = deadline - time.monotonic()
        if answer.shown != shown.shown or left_s <= 0 or services.stopping:
            return answer
        await services.changes.next(left_s)
        await asyncio.sleep(PAUSE_S)


PAUSE_S = 1.0
"""Between two looks of one screen, seconds: changes are frequent."""
MOST_OF_A_TASK, MOST_OF_A_NEED = 40, 80
"""Characters; a terminal is not much wider."""
_QUEUED = (TaskStatus.PENDING, TaskStatus.WAITING, TaskStatus.RUNNING)


def status_line(conn: Connection, services: Services, session_id: str | None) -> str:
    """A session's name, task, locks and unread mail, then the queue, then what needs a person; one line of visible characters.

    Reads only: it is no heartbeat of the session. Of a session that Corral does not know only the project is told.
    """
    parts = _of_session(conn, session_id, iso(services.now())) if session_id else []
    counts, landing = tasks.counts(conn), merges.counts(conn)
    open_tasks = sum(counts.get(status, 0) for status in _QUEUED)
    to_land = sum(landing.get(state, 0) for state in OPEN_MERGES)
    parts.append(f"queue {_number(open_tasks, 'task')}, {_number(to_land, 'merge')}" if open_tasks or to_land else "")
    if needs := needs_you(conn, services):
        parts.append(f"needs you ({count(needs)}): {_short(needs[0]['what'], MOST_OF_A_NEED)}")
    return " | ".join(part for part in parts if part) or "corral: nothing to do"


def _of_session(conn: Connection, session_id: str, now: str) -> list[str]:
    row = sessions.get(conn, session_id)
    if row is None:
        return []
    task = tasks.get(conn, row["task_id"]) if row["task_id"] else None
    doing = task["title"] if task is not None else row["current_task"]
    held, unread = locks.count_of(conn, session_id, now), mailbox.count_unread(conn, session_id)
    return [
        _short(row["agent_name"], MOST_OF_A_TASK),
        _short(doing, MOST_OF_A_TASK) if doing else "",
        _number(held, "lock") if held else "",
        f"{unread} unread" if unread else "",
    ]


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _short(text: str, most: int) -> str:
    """The text as a part of the line, whose parts a bar separates."""
    return short(text, most).replace("|", "/")
