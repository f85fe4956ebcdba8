"""The pages of tasks: the list, and one with all that is known of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from corral.coordination.services import Services
from corral.core.errors import InvalidInput
from corral.core.outcomes import FAILURES, Outcome
from corral.core.pages import page as one_page
from corral.core.payload import Payload
from corral.core.redaction import redact
from corral.core.runners import traits
from corral.core.states import OPEN_TASKS, TERMINAL_TASKS, TaskSort, TaskStatus
from corral.core.tree import indented
from corral.faces.web.actions import Button
from corral.faces.web.live import as_shown, following
from corral.faces.web.rendering import Visit
from corral.observe.exports import store as exports
from corral.store import events
from corral.work.evidence import bundle
from corral.work.tasks import submitting as app_tasks
from corral.work.tasks import tasks, views

MOST_LISTED = 200
"""Tasks on one page of the list."""
TAIL = 64 * 1024
"""Bytes of a log that a page begins with: the last ones."""
MOST_OF_EVIDENCE = 64 * 1024
FILTERS: dict[str, tuple[str, ...]] = {
    "all": (),
    "open": OPEN_TASKS,
    "running": (TaskStatus.RUNNING,),
    **{str(word): (str(word),) for word in (Outcome.HELD, Outcome.CONFLICT, Outcome.RED)},
    "failed": (TaskStatus.FAILED, TaskStatus.DEAD),
    "landed": (Outcome.LANDED,),
    "completed": (TaskStatus.COMPLETED,),
    "cancelled": (TaskStatus.CANCELLED,),
}
ORDERS = {"open": TaskSort.PRIORITY}
"""Of a filter's list: what is open stands as it starts; everything else the newest first."""
FOLLOWING = {TaskSort.PRIORITY: "Further tasks", TaskSort.NEWEST: "Older tasks"}
"""Text of the link to the next page."""


async def listing(services: Services, visit: Visit, _item: str) -> dict[str, Any]:
    """The list of tasks, filtered by state, in the filter's order."""
    chosen = visit.query.get("show", "all")
    if chosen not in FILTERS:
        raise InvalidInput("There is no such filter.", remedy="Choose one of the list's.")
    order = ORDERS.get(chosen, TaskSort.NEWEST)
    behind = visit.query.get("after") or None

    def look(conn: Connection) -> dict[str, Any]:
        statuses = [str(status) for status in FILTERS[chosen]]
        rows = views.listing(conn, statuses=statuses, sort=order, after=behind, limit=MOST_LISTED + 1)
        listed = one_page(rows, MOST_LISTED)
        more = views.cursor(listed.last) if listed.more else None
        return {"tasks": listed.rows, "more": more, "seq": events.newest(conn)}

    shown = await services.store.read(look)
    return {
        **shown, "title": "Tasks", "chosen": chosen, "filters": FILTERS, "following": FOLLOWING[order],
        "live": following(shown["seq"]),
    }  # fmt: skip


async def page(services: Services, visit: Visit, item: str) -> dict[str, Any]:
    """One task: what was asked, how it stands and why, its attempts, its log, its merge request, its evidence."""
    now = services.now()

    def look(conn: Connection) -> tuple[Payload, str | None, int, Payload | None]:
        row = tasks.find(conn, item)
        shown = views.detail(conn, row["task_id"])
        named = exports.named(conn, [row["task_id"]]).get(row["task_id"])
        delay = app_tasks.delay_of(services, conn, row, now)
        return shown, delay, events.newest(conn), dict(named) if named else None

    task, delay, seq, named = await services.store.read(look)
    attempt = _attempt(task, visit.query.get("attempt"))
    runner = next((entry["runner"] for entry in task["attempt_history"] if entry["number"] == attempt), None)
    log = await services.work(lambda: _tail(services, task["task_id"], attempt, runner)) if attempt else None
    evidence = await services.work(lambda: _evidence(services, named)) if named else None
    source = f"tasks/{task['task_id']}/{attempt}/{runner or ''}"
    live = following(seq, log=source, offset=log["offset"]) if log else following(seq)
    return {
        "title": task["title"], "task": task, "delay": delay, "attempt": attempt, "log": log, "evidence": evidence,
        "live": live, "buttons": _buttons(task), "steps": list(indented(task["steps"])),
        "may_reprioritize": task["status"] in ("waiting", "pending"),
    }  # fmt: skip


def _attempt(task: Payload, chosen: str | None) -> int | None:
    """The attempt whose log is shown: the one that is asked for, else the last."""
    numbers = [entry["number"] for entry in task["attempt_history"]]
    if chosen and chosen.isdecimal() and int(chosen) in numbers:
        return int(chosen)
    return numbers[-1] if numbers else None


def _buttons(task: Payload) -> list[Button]:
    names = []
    if task["status"] not in TERMINAL_TASKS:
        names.append("cancel")
    if task["outcome"] in (*FAILURES, "cancelled", "dismissed", "interrupted"):
        names.append("retry")
    if task["outcome"] in FAILURES:
        names.append("dismiss")
    return [Button.of("tasks", task["task_id"], name) for name in names]


def _tail(services: Services, task_id: str, number: int, runner: str | None) -> Payload:
    file = services.project.logs_dir / "tasks" / task_id / f"{number}.log"
    return read_tail(file, is_readable=traits(runner).streams)


def read_tail(file: Path, *, is_readable: bool = False, begin: int = 0) -> Payload:
    """The end of a log in whole lines: its ``text``, the ``offset`` behind it, and how many bytes before it are ``left_out``.

    Args:
        begin: The offset, of a line, before which nothing counts.
    """
    try:
        with file.open("rb") as handle:
            size = handle.seek(0, 2)
            start = max(begin, size - TAIL)
            handle.seek(start)
            data = handle.read(TAIL)
    except FileNotFoundError:
        return {"text": "", "offset": 0, "left_out": 0}
    end = data.rfind(b"\n") + 1  # a line that is not whole yet comes with the stream
    first = data.find(b"\n", 0, end) + 1 if start > begin else 0
    text = redact(data[first:end].decode("utf-8", "replace"))
    shown = as_shown(text, is_readable=is_readable)
    return {"text": shown, "offset": start + end, "left_out": start + first - begin}


def _evidence(services: Services, named: Any) -> Payload | None:
    """The summary that stands in the folder of a task's evidence; None while there is none."""
    folder = (
        services.project.state_dir(services.settings().supervisor.state_dir) / "evidence" / bundle.folder_name(named)
    )
    try:
        files = sorted(file.name for file in folder.iterdir())
        with (folder / "summary.md").open("rb") as handle:
            text = handle.read(MOST_OF_EVIDENCE).decode("utf-8", "replace")
    except OSError:
        return None
    return {"folder": str(folder), "files": files, "text": redact(text)}
