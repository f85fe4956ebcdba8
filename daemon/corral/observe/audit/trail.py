"""Deeds that are not in the audit yet. The edges note them; a job writes them a moment later, so that nobody waits for it."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection

from corral.core.events import EventKind
from corral.core.instants import iso, parse
from corral.observe.audit import store as audit_rows
from corral.observe.audit.chain import BEGUN_AGAIN, FIRST_HASH, chained, json_text
from corral.store.rows.records import AuditDraft, AuditRow, EventRow, SessionWork

SYSTEM = "corral"
"""The agent of the daemon's own deeds."""
MOST_WAITING = 100_000
"""Deeds that wait to be written; what comes beyond them is counted, and the count is written."""
USES_REMEMBERED = 8192
OK, FAILED, DENIED = "ok", "failed", "denied"
"""The ``status`` of a result."""
REPEATED = frozenset(
    {
        EventKind.LOCK_ACQUIRED, EventKind.LOCK_AWAITED, EventKind.SESSION_CHANGED, EventKind.MESSAGE_SENT,
        EventKind.MESSAGE_READ, EventKind.MESSAGE_ACKNOWLEDGED,
    }
)  # fmt: skip
"""Kinds of events that repeat the request or the tool call that caused them."""

STATUSES: dict[str, str] = {
    **dict.fromkeys((EventKind.TASK_FAILED, EventKind.TASK_DEAD, EventKind.TASK_RETRIED), FAILED),
    **dict.fromkeys((EventKind.MERGE_FAILED, EventKind.MERGE_CONFLICT, EventKind.MERGE_REQUEUED), FAILED),
    **dict.fromkeys((EventKind.EDIT_DENIED, EventKind.COMMAND_DENIED, EventKind.IDENTITY_REFUSED), DENIED),
}
"""The ``status`` of the result of an event, by its kind; the others are ``ok``."""


@dataclass(frozen=True)
class Deed:
    """Something that an agent did; its values are made into bounded text, without secrets, when it is written.

    Attributes:
        session_id: The session that did it; None: nobody's.
        agent_id: Its name where the session has none any more.
        task_id: The task that it was done to; None: the one that the session works on.
        parameters: A JSON value.
        result: A JSON value.
    """

    at: datetime
    action: str
    session_id: str | None
    agent_id: str
    task_id: str | None
    parameters: Any
    result: Any


class AuditTrail:
    """The queue of deeds that are not written yet. Thread-safe; noting takes microseconds and never fails.

    Attributes:
        on_note: Called after each one.
    """

    def __init__(self) -> None:
        self.on_note: Callable[[], None] = lambda: None
        self._waiting: deque[Callable[[], Deed]] = deque()
        self._lost = 0
        self._uses: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """How many deeds wait to be written."""
        return len(self._waiting)

    def note(
        self,
        at: datetime,
        action: str,
        *,
        session_id: str | None,
        agent_id: str | None = None,
        task_id: str | None = None,
        parameters: Any = None,
        result: Any = None,
    ) -> None:
        """Note what was done."""
        deed = Deed(at, action, session_id, agent_id or session_id or SYSTEM, task_id, parameters, result)
        self.note_later(partial(_same, deed))

    def note_later(self, make: Callable[[], Deed]) -> None:
        """Note a deed that ``make`` builds when it is written, so that the caller does not wait for it."""
        if len(self._waiting) >= MOST_WAITING:
            self._lost += 1
            return
        self._waiting.append(make)
        self.on_note()

    def is_new(self, use_id: str) -> bool:
        """Whether a tool call is new; marks it as noted. A call without an id is always new."""
        if not use_id:
            return True
        with self._lock:
            is_new = use_id not in self._uses
            self._uses[use_id] = None
            if len(self._uses) > USES_REMEMBERED:
                self._uses.popitem(last=False)
        return is_new

    def take(self, most: int, now: datetime) -> list[Deed]:
        """Take at most ``most`` of the oldest deeds, and one that counts the lost ones."""
        taken: list[Deed] = []
        while self._waiting and len(taken) < most:
            taken.append(self._waiting.popleft()())
        if self._lost and not self._waiting:
            lost, self._lost = self._lost, 0
            taken.append(Deed(now, "audit.lines_lost", None, SYSTEM, None, {"count": lost}, {"status": FAILED}))
        return taken

    def put_back(self, deeds: Sequence[Deed]) -> None:
        """Put deeds that could not be written back to the front of the queue."""
        self._waiting.extendleft(partial(_same, deed) for deed in reversed(deeds))


def _same(deed: Deed) -> Deed:
    return deed


def draft(deed: Deed, work: Mapping[str, SessionWork]) -> AuditDraft:
    """The line of a deed, without its number and hash.

    Args:
        work: Sessions by their ids.
    """
    session = work.get(deed.session_id or "")
    return {
        "at": iso(deed.at),
        "agent_id": str(session["agent_name"] if session else deed.agent_id)[:128],
        "session_id": deed.session_id,
        "task_id": deed.task_id or (session["task_id"] if session else None),
        "action": deed.action[:128],
        "parameters": json_text(deed.parameters or {}),
        "result": json_text(deed.result or {"status": OK}),
    }


def draft_of_event(event: EventRow, work: Mapping[str, SessionWork]) -> AuditDraft:
    """The line of an event of a task, a merge request or a session."""
    session, data = work.get(event["session_id"] or ""), event["data"]
    named = session["agent_name"] if session else data.get("agent_name") or event["session_id"] or SYSTEM
    about = {"merge_id": event["merge_id"]} if event["merge_id"] else {}
    return {
        "at": event["at"],
        "agent_id": str(named)[:128],
        "session_id": event["session_id"],
        "task_id": event["task_id"],
        "action": event["kind"],
        "parameters": json_text({**about, **data}),
        "result": json_text({"status": STATUSES.get(event["kind"], OK)}),
    }


def remove_before(conn: Connection, before: datetime, now: datetime, limit: int) -> int:
    """Remove at most ``limit`` of the lines before an instant, the oldest first, and record them as removed.

    Args:
        limit: At most so many.

    Returns:
        How many.
    """
    moment, last = iso(before), None
    for row in audit_rows.oldest(conn, limit):
        if row["at"] >= moment:
            break
        last = row
    return 0 if last is None else audit_rows.remove_until(conn, last["seq"], last["hash"], iso(now))


def _begun_again(at: str) -> AuditDraft:
    """The line that reports a chain whose ends were removed; it has the instant of the next line."""
    return draft(Deed(parse(at), BEGUN_AGAIN, None, SYSTEM, None, {}, {"status": FAILED}), {})


def append(conn: Connection, drafts: Iterable[AuditDraft]) -> int:
    """Append lines to the chain, in the caller's transaction.

    Returns:
        How many.
    """
    ends, drafts = audit_rows.ends(conn), list(drafts)
    if ends is not None:
        last_seq, last_hash = ends["last_seq"], ends["last_hash"]
    else:
        last_seq, last_hash = audit_rows.newest(conn) or (0, FIRST_HASH)
        if drafts and audit_rows.is_lost(conn):
            drafts.insert(0, _begun_again(drafts[0]["at"]))
    lines: list[Any] = list(chained(drafts, last_seq, last_hash))
    if lines:
        rows: list[AuditRow] = lines
        audit_rows.append(conn, rows)
    return len(lines)
