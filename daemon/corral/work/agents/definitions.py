"""Versions of an agent's definition: those that it has worked with, and what its file says now; going back to one."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from corral.config.agents import PROJECT, AgentDefinition
from corral.config.links import refuse_links
from corral.config.load import read_file
from corral.config.roster import Roster
from corral.coordination.locks import table
from corral.coordination.locks.reserving import parse
from corral.coordination.services import Services
from corral.core.errors import Conflict, CorralError, InvalidInput, NotFound
from corral.core.redaction import redact
from corral.git.history import last_written
from corral.store.rows.agents import AgentVersionRow
from corral.work.agents import versions
from corral.work.agents.api import AgentVersion, AgentVersionText, Deployed, VersionDiff
from corral.work.agents.store import versions as rows


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
        return versions.shown(row, current=self.current, used=row is not self.unused)


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
        rows_of_agent = rows.of_agent(conn, known_as)
    if refusal is not None and not rows_of_agent:
        raise refusal
    if definition is None:
        return History(known_as, rows_of_agent, None, None)
    origin = versions.origin_of(services.git, services.project.root, definition)
    if any(row["content_hash"] == origin.content_hash for row in rows_of_agent):
        return History(known_as, rows_of_agent, origin.content_hash, None)
    unused = versions.proposed(rows_of_agent, origin, services.now())
    return History(known_as, [*rows_of_agent, unused], origin.content_hash, unused)


def stored(services: Services, name: str, version: str) -> AgentVersionRow:
    """The stored version with that number or hash; the content of the file is stored, if it is that version.

    Raises:
        NotFound: There is no such agent, or no such version.
    """
    known = history(services, name)
    row = versions.named(known.versions, known.agent, version)
    if row is known.unused:
        services.db.write(
            lambda conn: rows.add(conn, row) if rows.by_hash(conn, known.agent, row["content_hash"]) is None else None
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
    row = versions.named(known.versions, known.agent, version)
    return {"agent": known.agent, **known.shown(row), "content": redact(row["content"])}


def diff(services: Services, name: str, before: str, after: str) -> VersionDiff:
    """The difference between two versions."""
    known = history(services, name)
    old, new = (versions.named(known.versions, known.agent, version) for version in (before, after))
    patch = versions.patch(old, new)
    return {"agent": known.agent, "before": old["version"], "after": new["version"], "patch": patch}


def rollback(services: Services, name: str, version: str) -> Deployed:
    """Write the text of a version into the project's file, as a change that the user sees in git and commits.

    Raises:
        NotFound: There is no such agent or version.
        InvalidInput: The project has no file for this agent.
        Conflict: The file has text that is in no commit and no version, and would be lost.
    """
    known = history(services, name)
    row = versions.named(known.versions, known.agent, version)
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
            if (content := read_file(file)) is None or versions.text_of(content) != definition.content:
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
    conflicts = services.db.read(lambda conn: table.standing(conn, parse(services, [path]), nobody, now))[0][
        "conflicts"
    ]
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
