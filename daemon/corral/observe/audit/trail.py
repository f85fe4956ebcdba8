"""Deeds that are not in the audit yet. The edges note them; a job writes them a moment later, so that nobody waits for it."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection

from corral.core.bounds import Bounds
from corral.core.events import EventKind
from corral.core.instants import iso, parse
from corral.core.redaction import may_hold_secret
from corral.observe.audit import store as audit_rows
from corral.observe.audit.api import AuditProblem
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


class Deed(NamedTuple):
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
        try:
            while self._waiting and len(taken) < most:
                taken.append(self._waiting.popleft()())
        except BaseException:  # that one cannot be told; the others can
            self.put_back(taken)
            raise
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


def append(conn: Connection, drafts: Iterable[AuditDraft]) -> list[AuditRow]:
    """Append lines to the chain, in the caller's transaction; returns them."""
    ends, drafts = audit_rows.ends(conn), list(drafts)
    if ends is not None:
        last_seq, last_hash = ends["last_seq"], ends["last_hash"]
    else:
        last_seq, last_hash = audit_rows.newest(conn) or (0, FIRST_HASH)
        if drafts and audit_rows.is_lost(conn):
            drafts.insert(0, _begun_again(drafts[0]["at"]))
    lines = chained(drafts, last_seq, last_hash)
    if lines:
        audit_rows.append(conn, lines)
    return lines


# -- A line of the audit: its content without secrets and of bounded size, its hash, and what is wrong with a chain of
# lines.
#
# Each line carries the hash of the one before it, and its own hash covers that one too: to change, remove or insert a
# line breaks the chain there, unless all later lines are written again, and the record of the newest line with them.

FIRST_HASH = "0" * 64
"""The first line carries this as the hash of the one before."""
BEGUN_AGAIN = "audit.begun_again"
"""The action of a line that stands where the record of the newest line was removed."""
MOST_TEXT = 4000
"""Maximum length of the JSON text of a line's parameters, and of its result, characters."""
SHORT = 500
"""Maximum length of a JSON text that is kept as it is where it holds no secret; longer ones are looked at value by value."""
MOST_PROBLEMS = 20
"""Problems that a verification names."""
HASHED = ("seq", "at", "agent_id", "session_id", "task_id", "action", "parameters", "result", "previous_hash")
"""The values of a line that its hash covers, in this order."""
_hashed = itemgetter(*HASHED)
_BOUNDS = Bounds(text=SHORT, items=20, depth=4)
_TIGHT = Bounds(text=100, items=10, depth=2)
_dumped = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
"""JSON that is the same again once it was read: sorted, ASCII, without blanks."""
_quoted = json.encoder.encode_basestring_ascii


def json_text(value: Any) -> str:
    """A value as the JSON text that a line keeps: without secrets, at most :data:`MOST_TEXT` characters."""
    if (plain := _plain(value)) is not None:
        return plain
    for bounds in (_BOUNDS, _TIGHT):
        text = _dumped(bounds.value(value))
        if len(text) <= MOST_TEXT:
            return text
    return _dumped({"…": f"{len(text)} characters"})


def digest(line: Mapping[str, Any]) -> str:
    """The hash of a line: SHA-256, hexadecimal, of the JSON list of its values of :data:`HASHED`."""
    values = ",".join([json_scalar(value) for value in _hashed(line)])
    return hashlib.sha256(f"[{values}]".encode()).hexdigest()


def json_scalar(value: Any) -> str:
    """The JSON of a text, a whole number or None, in ASCII: an encoder of any value takes four times as long."""
    return _quoted(value) if isinstance(value, str) else "null" if value is None else str(value)


def chained(drafts: Iterable[AuditDraft], last_seq: int, last_hash: str) -> list[AuditRow]:
    """The lines that follow the one with this number and hash."""
    lines: list[AuditRow] = []
    for seq, draft in enumerate(drafts, last_seq + 1):
        line: AuditRow = {**draft, "seq": seq, "previous_hash": last_hash, "hash": ""}
        line["hash"] = last_hash = digest(line)
        lines.append(line)
    return lines


@dataclass
class Check:
    """A verification of the chain; feed it all lines in order, then end it.

    Args:
        seq: The number of the last line that retention removed; 0: none.
        hash: Its hash.

    Attributes:
        lines: How many it has seen.
        problems: The first lines at which the chain is broken.
        broken: How many there are in all.
    """

    seq: int
    hash: str
    lines: int = 0
    broken: int = 0
    problems: list[AuditProblem] = field(default_factory=list)

    def feed(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Check the next lines."""
        for line in lines:
            for problem in self._faults(line):
                self._add_problem(line["seq"], problem)
            self.seq, self.hash, self.lines = line["seq"], line["hash"], self.lines + 1

    def end(self, last_seq: int, last_hash: str) -> None:
        """Compare the last line with the recorded number and hash of the newest one."""
        if self.seq < last_seq:
            self._add_problem(self.seq + 1, f"{_lines(self.seq + 1, last_seq)} removed")
        elif self.seq > last_seq:
            self._add_problem(last_seq + 1, f"{_lines(last_seq + 1, self.seq)} inserted")
        elif self.hash != last_hash and not self.broken:
            self._add_problem(self.seq, "changed: it is not the line that was written last")

    def _faults(self, line: Mapping[str, Any]) -> Iterator[str]:
        if line["seq"] <= self.seq:
            yield "inserted: it has the number of a line that retention removed"
        elif line["seq"] > self.seq + 1:
            yield f"{_lines(self.seq + 1, line['seq'] - 1)} removed before it"
        elif line["previous_hash"] != self.hash:
            yield "it does not follow the line before it: one of the two was changed or inserted"
        if line["action"] == BEGUN_AGAIN:
            yield "lines before it, or the record of the newest one, were removed"
        if digest(line) != line["hash"]:
            yield "changed: its hash is not that of its content"

    def _add_problem(self, seq: int, problem: str) -> None:
        self.broken += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append({"seq": seq, "problem": problem})


def _plain(value: Any) -> str | None:
    """The JSON text of a value that needs no cut and no redaction, as nearly all do; None: it may need one."""
    try:
        text = _dumped(value)
    except (TypeError, ValueError, RecursionError):  # no JSON: its bounded copy is
        return None
    # A backslash: some character is written as another, so that a secret with it would not be recognised.
    return None if len(text) > SHORT or "\\" in text or may_hold_secret(text) else text


def _lines(first: int, last: int) -> str:
    return f"line {first} was" if first == last else f"lines {first} to {last} were"
