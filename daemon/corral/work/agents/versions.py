"""Versions of agent definitions: every text that an agent has worked with, kept under the hash of its content.

A version is recorded in the transaction in which an attempt with it begins. Its number is the ``version`` of the definition's
front matter if that is a new ``N.N.N``, else the next minor one; the first is 1.0.0.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection

from corral.config.agents import AgentDefinition
from corral.core.errors import InvalidInput, NotFound
from corral.core.instants import iso
from corral.core.redaction import redact
from corral.git.history import Written, last_written
from corral.git.process.command import Git
from corral.store.rows.agents import AgentVersionRow
from corral.work.agents.api import AgentVersion
from corral.work.agents.store import versions

FIRST = "1.0.0"
SHORTEST_HASH = 6
"""The fewest characters of a hash that name a version."""
_NUMBER = re.compile(r"v?((?:0|[1-9]\d{0,5})\.(?:0|[1-9]\d{0,5})\.(?:0|[1-9]\d{0,5}))")


@dataclass(frozen=True)
class Origin:
    """A definition as it was read from its file, and who wrote it."""

    definition: AgentDefinition
    written: Written | None

    @property
    def content_hash(self) -> str:
        """The identity of this version."""
        return self.definition.content_hash


def text_of(data: bytes) -> str | None:
    """The text of a definition's file, as it is compared: without a mark at its beginning, and with plain ends of lines."""
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        return None


def origin_of(git: Git, root: Path, definition: AgentDefinition) -> Origin:
    """Look up in git who wrote a definition; nobody, where its text is not the committed one.

    Args:
        root: The project's checkout.
    """
    file = definition.file
    if file is None or not file.is_relative_to(root):
        return Origin(definition, None)
    return Origin(definition, last_written(git, file.relative_to(root).as_posix(), definition.content))


def record(conn: Connection, origin: Origin, now: datetime) -> str:
    """Record the version that an attempt begins with, unless it is known; returns its hash."""
    agent, content_hash = origin.definition.name.casefold(), origin.content_hash
    if versions.by_hash(conn, agent, content_hash) is None:
        versions.add(conn, proposed(versions.of_agent(conn, agent), origin, now))
    return content_hash


def proposed(known: Sequence[AgentVersionRow], origin: Origin, now: datetime) -> AgentVersionRow:
    """The row that a new text gets after the versions that are known."""
    definition, written = origin.definition, origin.written
    before = known[-1] if known else None
    changelog = definition.changelog or (_summary(before["content"], definition.content) if before else None)
    return {
        "agent": definition.name.casefold(),
        "content_hash": origin.content_hash,
        "seq": before["seq"] + 1 if before else 1,
        "version": next_number([row["version"] for row in known], definition.version),
        "content": definition.content,
        "changelog": redact(changelog) if changelog else changelog,
        "author": written.author if written else None,
        "reason": redact(written.subject) if written else None,
        "created_at": iso(now),
    }


def next_number(taken: Sequence[str], declared: str | None) -> str:
    """The number of the next version.

    Args:
        taken: Those before, the oldest first.
        declared: The one of its front matter; only a new ``N.N.N`` counts.
    """
    match = _NUMBER.fullmatch((declared or "").strip())
    if match and match[1] not in taken:
        return match[1]
    if not taken:
        return FIRST
    major, minor, _ = max(tuple(int(part) for part in number.split(".")) for number in taken)
    return f"{major}.{minor + 1}.0"


def named(rows: Sequence[AgentVersionRow], agent: str, text: str) -> AgentVersionRow:
    """The version that a text names: its number, with or without ``v``, or the first characters of its hash.

    Raises:
        NotFound: None is named so; the message lists the others.
        InvalidInput: Several are.
    """
    name = text.strip().lower()
    number = _NUMBER.fullmatch(name)
    if number:
        matches = [row for row in rows if row["version"] == number[1]]
    else:
        matches = [row for row in rows if len(name) >= SHORTEST_HASH and row["content_hash"].startswith(name)]
    if len(matches) > 1:
        raise InvalidInput(f"Several versions of {agent} begin with {text[:80]!r}.", remedy="Give more of the hash.")
    if not matches:
        numbers = [row["version"] for row in rows]
        there, near = ", ".join(numbers[-20:]) or "none", difflib.get_close_matches(name.lstrip("v")[:80], numbers, 1)
        guess = f" Did you mean {near[0]}?" if near else ""
        raise NotFound(
            f"The agent {agent} has no version {text[:80]!r}; there are: {there}.{guess}",
            remedy=f"`corral agent versions {agent}` lists them.",
        )
    return matches[0]


def shown(row: AgentVersionRow, *, current: str | None, used: bool) -> AgentVersion:
    """A version as a list shows it, without secrets.

    Args:
        current: The hash of what the agent's file says now.
        used: Whether an attempt has begun with it.
    """
    return {
        "version": row["version"],
        "content_hash": row["content_hash"],
        "created_at": row["created_at"],
        "changelog": _redacted(row["changelog"]),
        "author": _redacted(row["author"]),
        "reason": _redacted(row["reason"]),
        "current": row["content_hash"] == current,
        "used": used,
    }


def _redacted(text: str | None) -> str | None:
    return redact(text) if text else None


def patch(before: AgentVersionRow, after: AgentVersionRow) -> str:
    """The difference between two versions as a unified diff, without secrets."""
    old, new = (redact(row["content"]).splitlines(keepends=True) for row in (before, after))
    was, now = (f"{row['agent']} {row['version']}" for row in (before, after))
    lines = difflib.unified_diff(old, new, was, now)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _summary(before: str, after: str) -> str:
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm=""))[2:]
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    return f"{added} lines added, {removed} removed"
