"""The authors of files that changed while no daemon ran: a session with evidence, else nobody.

Evidence is, in this order: the session's own transcript tells of an edit of that very file; the worktree was made for that
session alone; the file changed while a shell command of that session ran in the checkout, and no other session's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from corral.coordination.edits import verdicts
from corral.coordination.edits.verdicts import Policy, Target
from corral.coordination.locks import table as lock_table
from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.locks.table import Holder
from corral.coordination.sessions.registry import IDLE_LOCKS_S, kin_of
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.events import EventKind
from corral.core.instants import after, iso
from corral.core.states import SessionStatus
from corral.store import events
from corral.store.rows.sessions import HeldLock, SessionRow

if TYPE_CHECKING:
    from corral.core.event_payloads import ChangeAttributed

EDIT_TOOL, SHELL_COMMAND, OWN_WORKTREE = "edit tool", "shell command", "own worktree"
"""The kinds of evidence, as events name them."""


@dataclass(frozen=True)
class Edit:
    """An edit tool of a session wrote a file."""

    session_id: str
    target: Target
    at: datetime


@dataclass(frozen=True)
class Command:
    """A shell command of a session ran in a checkout, and may have written.

    Attributes:
        claims: Whether it is evidence; else it only keeps another command from being one.
    """

    session_id: str
    checkout: str
    began: datetime
    ended: datetime
    claims: bool = True


@dataclass(frozen=True)
class Evidence:
    """The evidence about the time in which no daemon ran.

    Attributes:
        unknown_commands: Whether some session may have run commands that are not among these.
        owners: By checkout, the session that it was made for, and that works there alone.
        silent_since: By session, the last sign of it that was heard.
    """

    edits: tuple[Edit, ...] = ()
    commands: tuple[Command, ...] = ()
    unknown_commands: bool = False
    owners: Mapping[str, str] = field(default_factory=dict)
    silent_since: Mapping[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """A session that wrote a file, and the evidence for it."""

    session_id: str
    target: Target
    evidence: str


def claims(target: Target, changed_at: datetime | None, evidence: Evidence) -> list[Claim]:
    """The authors of a file, in the order of their writes; empty without evidence.

    Args:
        target: A file that differs from HEAD.
        changed_at: When it was last written; None if it is there no more.
    """
    edits = sorted((edit for edit in evidence.edits if edit.target == target), key=lambda edit: edit.at)
    if edits:
        return [Claim(session_id, target, EDIT_TOOL) for session_id in dict.fromkeys(edit.session_id for edit in edits)]
    if changed_at is None:
        return []
    owner = evidence.owners.get(target.checkout)
    if owner is not None and evidence.silent_since[owner] <= changed_at:
        return [Claim(owner, target, OWN_WORKTREE)]
    ran = [command for command in evidence.commands if command.began <= changed_at <= command.ended]
    if evidence.unknown_commands or len({command.session_id for command in ran}) != 1:
        return []
    claiming = [command for command in ran if command.claims and command.checkout == target.checkout]
    return [Claim(claiming[0].session_id, target, SHELL_COMMAND)] if claiming else []


def settle(conn: Connection, to_settle: Iterable[Claim], policy: Policy, now: datetime) -> None:
    """Give each session the lock that its edit would have taken; where another session holds it, notify both."""
    for claim in to_settle:
        row = session_rows.get(conn, claim.session_id)
        if row is None or row["status"] == SessionStatus.DISCONNECTED:
            continue
        holder = Holder(session_id=claim.session_id, task_id=row["task_id"], kin=kin_of(row))
        key, checkout = claim.target.key, claim.target.checkout
        other = verdicts.holder_of(conn, key, holder, checkout, now)
        data: ChangeAttributed = {"paths": [key.file_path], "checkout": checkout, "evidence": claim.evidence}
        if other is not None:
            data["holder"] = other["agent_name"]
        events.record(conn, iso(now), EventKind.CHANGE_ATTRIBUTED(data), session_id=claim.session_id)
        if other is not None:
            _tell(conn, row, other, claim, now)
            continue
        lock_table.hold(conn, [key], holder, checkout, now, ttl_s=policy.ttl_s)
        if row["status"] == SessionStatus.IDLE:
            lock_rows.shorten(conn, claim.session_id, after(now, IDLE_LOCKS_S))


def _tell(conn: Connection, writer: SessionRow, other: HeldLock, claim: Claim, now: datetime) -> None:
    path = claim.target.key.file_path
    text = (
        f"You changed {path} while Corral's daemon was away; {other['agent_name']} holds it now{verdicts.for_task(other)}, "
        f"{verdicts.until(other, now)}. Read the file again, and leave it to its holder unless you are certain."
    )
    session_rows.notify(conn, writer["session_id"], text, iso(now))
    text = f"{writer['agent_name']} changed {path}, which you hold, while Corral's daemon was away. "
    session_rows.notify(conn, other["session_id"], text + "Read the file again before you edit it.", iso(now))


def is_locked(conn: Connection, target: Target, now: datetime) -> bool:
    """Whether a lock explains why a file differs from HEAD: somebody holds it there, or reserved it."""
    return verdicts.holder_of(conn, target.key, Holder(session_id=""), target.checkout, now) is not None
