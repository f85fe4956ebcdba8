"""Versions of an agent's definition: those that it has worked with, and what its file says now; going back to one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection

from corral.config.agents import PROJECT, AgentDefinition
from corral.config.links import refuse_links
from corral.config.load import read_file
from corral.config.roster import Roster
from corral.coordination.locks import table
from corral.coordination.locks.reserving import parse
from corral.coordination.services import Services
from corral.core.errors import Conflict, CorralError, InvalidInput, NotFound
from corral.core.instants import iso
from corral.core.redaction import redact
from corral.git.history import Written, last_written
from corral.git.process.command import Git
from corral.store.rows.agents import AgentVersionRow
from corral.work.agents.api import AgentVersion, AgentVersionText, Deployed, VersionDiff
from corral.work.agents.store import versions


@dataclass(frozen=True)
class History:
    """The versions of an agent, the oldest first.

    Attributes:
        current: The hash of what its file says now; None: it has none, or an invalid one.
        unused: That version, if no attempt has begun with it: it is the last one, and in no table.
    """

    agent: str
    versions: list[AgentVersionRow]
    current: str | None
    unused: AgentVersionRow | None

    def shown(self, row: AgentVersionRow) -> AgentVersion:
        """A version as a list shows it."""
        return shown(row, current=self.current, used=row is not self.unused)


def history(services: Services, name: str) -> History:
    """Read the versions of an agent; reading records none.

    Raises:
        NotFound: There is no such agent, and there never was one.
    """
    known_as, definition, refusal = name.strip().casefold(), None, None
    try:
        agent = services.roster().find(name)
        definition = agent.definition
        known_as = definition.name.casefold() if definition else agent.name.casefold()
    except CorralError as error:
        refusal = error
    with services.db.reading() as conn:
        rows_of_agent = versions.of_agent(conn, known_as)
    if refusal is not None and not rows_of_agent:
        raise refusal
    if definition is None:
        return History(known_as, rows_of_agent, None, None)
    origin = origin_of(services.git, services.project.root, definition)
    if any(row["content_hash"] == origin.content_hash for row in rows_of_agent):
        return History(known_as, rows_of_agent, origin.content_hash, None)
    unused = proposed(rows_of_agent, origin, services.now())
    return History(known_as, [*rows_of_agent, unused], origin.content_hash, unused)


def stored(services: Services, name: str, version: str) -> AgentVersionRow:
    """The stored version with that number or hash; the content of the file is stored, if it is that version.

    Raises:
        NotFound: There is no such agent, or no such version.
    """
    known = history(services, name)
    row = named(known.versions, known.agent, version)
    if row is known.unused:
        services.db.write(
            lambda conn: (
                versions.add(conn, row) if versions.by_hash(conn, known.agent, row["content_hash"]) is None else None
            )
        )
    return row


def known_name(services: Services, name: str) -> str:
    """The agent's name without case, as its versions have it."""
    return history(services, name).agent


def listing(services: Services, name: str) -> list[AgentVersion]:
    """The versions of an agent, the newest first."""
    known = history(services, name)
    return [known.shown(row) for row in reversed(known.versions)]


def show(services: Services, name: str, version: str) -> AgentVersionText:
    """A version with its text, without secrets."""
    known = history(services, name)
    row = named(known.versions, known.agent, version)
    return {"agent": known.agent, **known.shown(row), "content": redact(row["content"])}


def diff(services: Services, name: str, before: str, after: str) -> VersionDiff:
    """The difference between two versions."""
    known = history(services, name)
    old, new = (named(known.versions, known.agent, version) for version in (before, after))
    patch = patch_between(old, new)
    return {"agent": known.agent, "before": old["version"], "after": new["version"], "patch": patch}


def rollback(services: Services, name: str, version: str) -> Deployed:
    """Write the text of a version into the project's file, as a change that the user sees in git and commits.

    Raises:
        NotFound: There is no such agent or version.
        InvalidInput: The project has no file for this agent.
        Conflict: The file has text that is in no commit and no version, and would be lost.
    """
    known = history(services, name)
    row = named(known.versions, known.agent, version)
    definition = own_definition(services.roster(), name)
    file = definition.file
    assert file is not None
    root = services.project.root
    refuse_links(file, root)
    path = file.relative_to(root).as_posix()
    _refuse_locked(services, path)
    changed = row["content"] != definition.content
    if changed:
        is_committed = last_written(services.git, path, definition.content) is not None
        if not is_committed and (known.unused is not None or known.current is None):
            raise Conflict(
                f"{path} has changes that are in no commit and in no version.",
                cause="Going back to another version would lose them.",
                remedy=f"Commit {path}, or undo the changes, and try again.",
            )
        partial = file.with_name(f".{file.name}.corral-new")
        try:
            partial.write_text(row["content"], encoding="utf-8", newline="\n")
            partial.chmod(file.stat().st_mode & 0o777)
            if (content := read_file(file)) is None or text_of(content) != definition.content:
                raise Conflict(f"{path} is being edited.", cause="It changed a moment ago.", remedy="Try again.")
            partial.replace(file)
        finally:
            with suppress(FileNotFoundError):
                partial.unlink()
    return {"agent": known.agent, "version": row["version"], "file": str(file), "changed": changed}


def _refuse_locked(services: Services, path: str) -> None:
    """A file that another one edits here, or that somebody reserved on purpose, is not written over.

    Raises:
        LockHeld: Names who holds it.
    """
    nobody, now, root = table.Holder(""), services.now(), str(services.project.root)
    with services.db.reading() as conn:
        conflicts = table.standing(conn, parse(services, [path]), nobody, now)[0]["conflicts"]
    if locks := [
        conflict for conflict in conflicts if not conflict["automatic"] or conflict["checkout"] in (None, root)
    ]:
        raise table.held(locks)


def own_definition(roster: Roster, name: str) -> AgentDefinition:
    """The definition of an agent that is in a file of the project."""
    folded = name.strip().casefold()
    agent = next(
        (agent for agent in roster.definitions() if agent.name.casefold() == folded and agent.definition), None
    )
    if agent is None:
        raise NotFound(f"There is no agent definition {name[:80]!r}.", remedy="`corral agent list` lists the agents.")
    if agent.source != PROJECT or agent.definition is None:
        raise InvalidInput(
            f"The agent {agent.name} is not defined by a file of this project.",
            remedy="Copy its file into .claude/agents/ first: what is there wins over what is shipped.",
        )
    return agent.definition


# -- Versions of agent definitions: every text that an agent has worked with, kept under the hash of its content.
#
# A version is recorded in the transaction in which an attempt with it begins. Its number is the ``version`` of the
# definition's front matter if that is a new ``N.N.N``, else the next minor one; the first is 1.0.0.

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


def patch_between(before: AgentVersionRow, after: AgentVersionRow) -> str:
    """The difference between two versions as a unified diff, without secrets."""
    old, new = (redact(row["content"]).splitlines(keepends=True) for row in (before, after))
    was, now = (f"{row['agent']} {row['version']}" for row in (before, after))
    lines = difflib.unified_diff(old, new, was, now)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _summary(before: str, after: str) -> str:
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm=""))[2:]
    added, removed = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    return f"{added} line{'' if added == 1 else 's'} added, {removed} removed"
