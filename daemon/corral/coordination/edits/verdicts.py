"""The verdict on one edit: before it the lock is taken or the edit denied; after a shell command its changes are attributed.

Every text here is read by a model: it names the repository-relative path, the holder, the holder's task and the time, and
says what to do instead.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from corral.coordination.locks import table as lock_table
from corral.coordination.locks.keys import LockKey
from corral.coordination.locks.queue import conflict
from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.locks.table import Holder
from corral.coordination.sessions.store import sessions as session_rows
from corral.coordination.shell.danger import Danger
from corral.core.events import EventKind
from corral.core.instants import iso, parse
from corral.core.states import SessionStatus
from corral.core.visible import embedded
from corral.store import events
from corral.store.rows.sessions import HeldLock

_READ = " Read the file again before you edit it."


@dataclass(frozen=True)
class Policy:
    """``locks.enforcement`` (``enforce | warn | off``) and ``locks.ttl_s`` of the settings."""

    enforcement: str
    ttl_s: float


@dataclass(frozen=True)
class Target:
    """The target of an edit: a key, in a checkout (its top folder's path)."""

    key: LockKey
    checkout: str


@dataclass(frozen=True)
class Verdict:
    """Whether an edit may go on, and the text for the model."""

    denial: str | None = None
    remarks: tuple[str, ...] = ()


def before_edit(conn: Connection, holder: Holder, target: Target, policy: Policy, now: datetime) -> Verdict:
    """Take the lock for an edit, or refuse the edit.

    In the same checkout any lock of another session denies it. A lock in another checkout denies it only if it
    was reserved on purpose and exclusively; else it is a remark.
    """
    if policy.enforcement == "off":
        return Verdict()
    rows = lock_table.overlapping(conn, target.key, holder, now)
    blocking = [row for row in rows if _blocks(row, target.checkout)]
    if blocking and policy.enforcement == "enforce":
        blocker = conflict(blocking[-1], target.key, now)
        events.record(conn, iso(now), EventKind.EDIT_DENIED(blocker), session_id=holder.session_id)
        return Verdict(denial=_refusal(conn, blocking[-1], target.key, now))
    remarks = [_remark(row, target, now) for row in rows[-3:]]
    if not lock_table.hold(conn, [target.key], holder, target.checkout, now, ttl_s=policy.ttl_s):
        remarks.append(
            f"Corral did not lock {embedded(target.key.file_path)} for you: you hold {lock_table.MOST_OF_A_SESSION} locks "
            "already. Release what you no longer need with release_lock."
        )
    return Verdict(remarks=tuple(remarks))


def refusal(conn: Connection, holder: Holder, target: Target, policy: Policy, now: datetime) -> str | None:
    """Why an edit is refused, while nothing can be written; None: it is not refused, or reads alone cannot decide it."""
    if policy.enforcement != "enforce":
        return None
    row = holder_of(conn, target.key, holder, target.checkout, now)
    return _refusal(conn, row, target.key, now) if row is not None else None


def _refusal(conn: Connection, row: HeldLock, key: LockKey, now: datetime) -> str:
    return _denial(row, key, now) + _idle(conn, row)


def _blocks(row: HeldLock, checkout: str) -> bool:
    if row["checkout"] == checkout:
        return True
    return not row["automatic"] and bool(row["exclusive"])


def until(row: HeldLock, now: datetime) -> str:
    """``until 14:05 UTC (52 min)``: when a lock expires, for people and models."""
    expires = parse(row["expires_at"])
    minutes = max(1, round((expires - now).total_seconds() / 60))
    return f"until {expires:%H:%M} UTC ({minutes} min)"


def for_task(row: HeldLock) -> str:
    """`` for "…"``: what the holder of a lock does with it; empty where that is not known."""
    doing = row["current_task"] or row["reason"]
    return f' for "{embedded(str(doing))}"' if doing else ""


def _denial(row: HeldLock, key: LockKey, now: datetime) -> str:
    part = "" if row["file_path"] == key.file_path else f" (as part of {embedded(row['file_path'])})"
    kind = "is editing it" if row["automatic"] else "has reserved it"
    if row["stalled_since_at"] is not None:
        return (
            f"{key.file_path} is held by {row['agent_name']}{part}{for_task(row)}, whose session is stalled: no sign of it since "
            f"{parse(row['stalled_since_at']):%H:%M} UTC. The edit was not made. Look whether what is in the file is worth "
            f"keeping; `corral lock force-release {shlex.quote(row['file_path'])}` takes the lock from it."
        )
    return (
        f"{key.file_path} is held by {row['agent_name']}{part}, who {kind}{for_task(row)}, {until(row, now)}. "
        "The edit was not made. Work on something else first and try again later, or leave this file out and say so in your "
        f"report; do not write it another way. `corral lock check {shlex.quote(key.file_path)}` tells when it is free."
    )


def _idle(conn: Connection, row: HeldLock) -> str:
    """Since when the holder is idle, and how a person takes the lock; empty while it is active."""
    session = session_rows.get(conn, row["session_id"])
    if session is None or session["status"] != SessionStatus.IDLE:
        return ""
    since = f"{parse(session['last_heartbeat']):%H:%M}"
    take = shlex.join(["corral", "lock", "force-release", row["file_path"], "--yes"])
    return f" {row['agent_name']} has been idle since {since} UTC; a person may take the lock: `{take}`."


def _remark(row: HeldLock, target: Target, now: datetime) -> str:
    where = "in this checkout" if row["checkout"] == target.checkout else "in another worktree"
    return (
        f"Note: {row['agent_name']} also works on {embedded(row['file_path'])} {where}{for_task(row)}, {until(row, now)}. "
        "Keep your change small; the merge will be checked."
    )


def refuse_danger(
    conn: Connection, holder: Holder, danger: Danger, checkout: str, salvage_ref: str | None, now: datetime
) -> Verdict:
    """Refuse a command that would sweep up other sessions' work in this checkout; allow it if no other session is active."""
    others = lock_rows.others_in_checkout(conn, checkout, [holder.session_id, *holder.kin], iso(now))
    if not others:
        return Verdict()
    names = sorted({row["agent_name"] for row in others})
    files = sorted({row["file_path"] for row in others})
    more = f" and {len(files) - 5} more" if len(files) > 5 else ""
    denied = EventKind.COMMAND_DENIED(
        {"kind": danger.kind, "holders": names, "files": files[:50], "salvage_ref": salvage_ref}
    )
    events.record(conn, iso(now), denied, session_id=holder.session_id)
    saved = f" The state was saved as {salvage_ref} to be safe." if salvage_ref else ""
    return Verdict(
        f"`{danger.kind}` would touch work of {', '.join(names)} in this checkout ({', '.join(map(embedded, files[:5]))}{more}). "
        f"The command was not run.{saved} Instead: {danger.alternative}"
    )


@dataclass(frozen=True)
class ShellChanges:
    """The differences in a checkout (its path) since a shell command began.

    Attributes:
        own: Keys of the files that only this command can have changed.
        shared: Of those that others' commands may have changed, with the sessions that ran them.
        edited_by: match_key to the session whose edit tool wrote the file meanwhile: such a file is not the command's.
        gone: The match keys of those that are there no more: no edit tool deletes.
        restore: match_key to the command that brings back what the file held before.
    """

    checkout: str
    own: tuple[LockKey, ...]
    shared: Mapping[LockKey, frozenset[str]]
    edited_by: Mapping[str, str]
    gone: frozenset[str]
    restore: Mapping[str, str]

    def is_of(self, key: LockKey, session_id: str) -> bool:
        """Whether the command of this session changed one of ``own``, and no edit tool of another session."""
        return key.match_key in self.gone or self.edited_by.get(key.match_key, session_id) == session_id


def after_shell(
    conn: Connection, holder: Holder, name: str, changes: ShellChanges, policy: Policy, now: datetime
) -> list[str]:
    """Attribute the files that a shell command changed: lock what is free, tell both sides about what is not.

    A file that others may have changed as well is nobody's: no lock, and a neutral notice to the sessions concerned.

    Args:
        name: The session's readable name.

    Returns:
        Remarks for the session that ran the command.
    """
    if policy.enforcement == "off":
        return []
    remarks, free = list[str](), list[LockKey]()
    for key in changes.own:
        if not changes.is_of(key, holder.session_id):
            continue
        is_gone = key.match_key in changes.gone
        row = holder_of(conn, key, holder, changes.checkout, now)
        if row is None:
            free.append(key)
            continue
        did = "deleted" if is_gone else "changed"
        restoring, target = _restoring(changes, key, "Its content before"), Target(key, changes.checkout)
        wrong = _violated(conn, holder, row, target, now)
        remarks.append(f"Your shell command {did} {key.file_path}, {wrong}{restoring}")
        notice = f"{name} {did} {key.file_path} by a shell command while you hold it.{restoring or _READ}"
        session_rows.notify(conn, row["session_id"], notice, iso(now))
    lock_table.hold(conn, free, holder, changes.checkout, now, ttl_s=policy.ttl_s)
    return [*remarks, *_ambiguous(conn, holder, name, changes, now)]


def after_edit(conn: Connection, holder: Holder, target: Target, policy: Policy, now: datetime) -> str | None:
    """Tell both sides that a session edited what another one holds: no hook asked first, or the answer reached nobody."""
    row = holder_of(conn, target.key, holder, target.checkout, now) if policy.enforcement != "off" else None
    me = session_rows.get(conn, holder.session_id)
    if row is None or me is None:
        return None
    path = target.key.file_path
    session_rows.notify(
        conn, row["session_id"], f"{me['agent_name']} edited {path} while you hold it.{_READ}", iso(now)
    )
    return f"Your edit changed {path}, {_violated(conn, holder, row, target, now)}"


def _violated(conn: Connection, holder: Holder, row: HeldLock, target: Target, now: datetime) -> str:
    """Record that a session changed what another one holds; returns the end of the remark about it."""
    violated = EventKind.LOCK_VIOLATED(
        {"path": target.key.file_path, "holder": row["agent_name"], "checkout": target.checkout}
    )
    events.record(conn, iso(now), violated, session_id=holder.session_id)
    return (
        f"which {row['agent_name']} holds{for_task(row)}, {until(row, now)}. "
        "Undo your change to that file unless you are certain, and leave the file to its holder."
    )


def holder_of(conn: Connection, key: LockKey, holder: Holder, checkout: str, now: datetime) -> HeldLock | None:
    """The lock of another session that refuses an edit in a checkout; None if it is free."""
    hits = [row for row in lock_table.overlapping(conn, key, holder, now) if _blocks(row, checkout)]
    return hits[-1] if hits else None


def _restoring(changes: ShellChanges, key: LockKey, subject: str) -> str:
    command = changes.restore.get(key.match_key)
    return f" {subject} was saved; this brings it back: `{command}`" if command else ""


def _ambiguous(conn: Connection, holder: Holder, name: str, changes: ShellChanges, now: datetime) -> list[str]:
    """Report the files that one of several commands changed, without knowing which; a line, or none."""
    shared = {
        key: session_ids
        for key, session_ids in changes.shared.items()
        if changes.edited_by.get(key.match_key) is None or key.match_key in changes.gone
    }
    if not shared:
        return []
    rows = (session_rows.get(conn, other) for other in sorted(set().union(*shared.values())))
    others = ", ".join(row["agent_name"] for row in rows if row is not None) or "another session"
    paths = [key.file_path for key in shared][:50]
    event = EventKind.CHANGE_UNATTRIBUTED({"paths": paths, "others": others, "checkout": changes.checkout})
    events.record(conn, iso(now), event, session_id=holder.session_id)
    lines = list[str]()
    for key, session_ids in shared.items():
        row = holder_of(conn, key, holder, changes.checkout, now)
        holder_note = f" (held by {row['agent_name']})" if row is not None else ""
        lines.append(f"{key.file_path}{holder_note}{_restoring(changes, key, 'what it held before')}")
        if row is not None and row["session_id"] not in session_ids:
            text = f"{key.file_path}, which you hold, changed while shell commands of {name} and {others} ran; "
            text += "which of them did it is not known."
            text += _restoring(changes, key, "Its content before") or _READ
            session_rows.notify(conn, row["session_id"], text, iso(now))
    more = f"; and {len(lines) - 5} more" if len(lines) > 5 else ""
    return [
        f"These files changed while your shell command and one of {others} ran: {'; '.join(lines[:5])}{more}. Which of you did "
        "it is not known, and nobody was given a lock. If it was not you, leave them alone."
    ]
