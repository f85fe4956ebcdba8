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
import threading
from collections.abc import Collection

from corral.git.checkouts.status import Signature

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
        claims: Whether the command is evidence; if not, it only keeps another command from being evidence.
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


# -- Sessions and files of the time in which no daemon ran. Every method is a dictionary operation; thread-safe

Files = Mapping[str, tuple[str, Signature]]
"""match_key to the path of a file, and how it was when it was looked at."""
MOST_LOOKS = 5
"""Looks at a session's changes after its first sign."""


class Unannounced:
    """The sessions that could not ask for a while, and the files that somebody changed meanwhile.

    Args:
        silent_since: By session, its last sign before the daemon started.
        away_since: When the daemon before this one was last at work; None if that is not known.
        back_at: When this daemon started.

    Attributes:
        first_look: Set when the look at the start is over.
        is_shown: Whether :meth:`show` was called.
    """

    def __init__(self, silent_since: Mapping[str, datetime], away_since: datetime | None, back_at: datetime) -> None:
        self.silent_since = dict(silent_since)
        self.away_since = away_since
        self.back_at = back_at
        self.first_look = threading.Event()
        self.is_shown = False
        self._lock = threading.Lock()
        self._heard: dict[str, datetime] = {}
        self._looks_left = dict.fromkeys(silent_since, MOST_LOOKS)
        self._again: set[str] = set()
        self._due = bool(silent_since)
        if not silent_since:
            self.first_look.set()
        self._seen: set[tuple[str, Target]] = set()
        self._files: dict[str, dict[str, tuple[str, Signature]]] = {}

    # -- sessions

    def note_session(self, session_id: str, at: datetime) -> bool:
        """Note a sign of a session; returns whether its earlier changes are still to be examined."""
        if session_id not in self._looks_left:
            return False
        with self._lock:
            self._heard.setdefault(session_id, at)
            self._due = session_id in self._looks_left
            return self._due

    def heard_at(self, session_id: str) -> datetime | None:
        """When a session first gave a sign again."""
        with self._lock:
            return self._heard.get(session_id)

    def take_due(self) -> frozenset[str] | None:
        """The sessions that were heard, if there is something to examine; a session that is heard from now on is due again."""
        with self._lock:
            due, self._due = self._due, False
            return frozenset(self._heard.keys() & self._looks_left.keys()) if due else None

    def put_back(self) -> None:
        """A look failed: it is due again."""
        with self._lock:
            self._due = True

    def look_again(self, session_id: str) -> None:
        """A change of a session is not over: look again with its next event."""
        with self._lock:
            self._again.add(session_id)

    def looked_at(self, heard: Iterable[str]) -> None:
        """The changes of these sessions before they were heard have been examined."""
        with self._lock:
            for session_id in heard:
                self._looks_left[session_id] -= 1
                if session_id not in self._again or not self._looks_left[session_id]:
                    del self._looks_left[session_id]
            self._again.clear()

    # -- files

    def is_news(self, claim: Claim) -> bool:
        """Whether a claim was not settled before."""
        with self._lock:
            return (claim.session_id, claim.target) not in self._seen

    def settled(self, claims: Iterable[Claim]) -> None:
        """Note that these claims are settled; their files have an author."""
        with self._lock:
            for claim in claims:
                self._seen.add((claim.session_id, claim.target))
                self._files.get(claim.target.checkout, {}).pop(claim.target.key.match_key, None)

    def show(self, files: Mapping[str, Files]) -> None:
        """Set the files without an author, by checkout; once."""
        with self._lock:
            self._files = {top: dict(by_key) for top, by_key in files.items()}
            self.is_shown = True

    def keep_only(self, checkout: str, match_keys: Collection[str]) -> None:
        """Forget the other files of a checkout."""
        with self._lock:
            files = {key: file for key, file in self._files.pop(checkout, {}).items() if key in match_keys}
            if files:
                self._files[checkout] = files

    def files(self) -> dict[str, dict[str, tuple[str, Signature]]]:
        """By checkout, the files that still have no author."""
        with self._lock:
            return {top: dict(files) for top, files in self._files.items()}

    def path_of(self, target: Target) -> str | None:
        """The path of a file without an author; None if it has one."""
        with self._lock:
            file = self._files.get(target.checkout, {}).get(target.key.match_key)
            return file[0] if file is not None else None
