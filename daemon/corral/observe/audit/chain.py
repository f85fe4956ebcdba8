"""A line of the audit: its content without secrets and of bounded size, its hash, and what is wrong with a chain of lines.

Each line carries the hash of the one before it, and its own hash covers that one too: to change, remove or insert a
line breaks the chain there, unless all later lines are written again, and the record of the newest line with them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from corral.core.bounds import Bounds
from corral.core.redaction import may_hold_secret
from corral.observe.audit.api import AuditProblem

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
_BOUNDS = Bounds(text=SHORT, items=20, depth=4)
_TIGHT = Bounds(text=100, items=10, depth=2)
_dumped = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
"""JSON that is the same again once it was read: sorted, ASCII, without blanks."""


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
    return hashlib.sha256(_dumped([line[name] for name in HASHED]).encode()).hexdigest()


def chained(drafts: Iterable[Mapping[str, Any]], last_seq: int, last_hash: str) -> Iterator[dict[str, Any]]:
    """Chain drafts to the line with this number and hash."""
    for seq, draft in enumerate(drafts, last_seq + 1):
        line = {**draft, "seq": seq, "previous_hash": last_hash}
        last_hash = digest(line)
        yield {**line, "hash": last_hash}


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
