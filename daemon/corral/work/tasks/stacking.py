"""Tasks that were begun on the finished work of others before that landed: what they are told of it.

Where they begin is :mod:`corral.work.workers.execution`; how they land behind it, :mod:`corral.landing.stacks`.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection

from corral.coordination.sessions.store import sessions
from corral.core.events import EventKind
from corral.core.instants import iso
from corral.core.states import RETURNED_MERGES, MergeState
from corral.core.visible import one_line
from corral.store import events
from corral.store.rows.merges import MergeRow
from corral.work.tasks.store import dependencies

GONE = (*RETURNED_MERGES, MergeState.CANCELLED)
"""States of a merge request whose work does not land as it is."""


def tell(conn: Connection, merge: MergeRow, now: datetime) -> None:
    """Tell those who were begun on a request's work that it changed or came back: the worker by a notice, the task by an event.

    In the transaction in which that happens, so that each is told once.
    """
    if merge["task_id"] is None or merge["state"] not in (MergeState.QUEUED, *GONE):
        return
    notified: set[str] = set()
    for child in dependencies.stacked(conn, merge["task_id"]):
        text = _news(merge, child["stacked_on"][merge["task_id"]], works=child["session_id"] is not None)
        if text is None or child["task_id"] in notified:
            continue
        notified.add(child["task_id"])
        if child["session_id"] is not None:
            sessions.notify(conn, child["session_id"], text, iso(now))
        events.record(conn, now, EventKind.TASK_BASE_CHANGED({"reason": text}), task_id=child["task_id"])


def _news(merge: MergeRow, begun_on_sha: str, *, works: bool) -> str | None:
    title, branch = one_line(merge["title"])[:80], one_line(merge["branch"])
    if merge["state"] in GONE:
        return (
            f"{title!r}, on whose work this one was begun, does not land as it is: its merge request {merge['merge_id'][:8]} "
            f"ended as {merge['state']}. This one's work is kept, and lands once that has."
        )
    if merge["head_sha"] == begun_on_sha:
        return None
    how = f" Take it over if it matters to you: git merge {merge['head_sha'][:12]}" if works else ""
    return (
        f"{title!r}, on whose work this one was begun ({begun_on_sha[:12]}), was changed: {branch} lands as "
        f"{merge['head_sha'][:12]}. This one is merged onto it when it lands.{how}"
    )
