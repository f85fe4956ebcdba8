"""What happens to one edit: before it the lock is taken or the edit refused; after a shell command its traces are found.

Every text here is read by a model: it names the repository-relative path, the holder, the holder's task and the time, and
says what to do instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from corral.coordination import locks
from corral.coordination.keys import LockKey
from corral.coordination.locks import Holder
from corral.coordination.shell import Danger
from corral.models.instants import iso, parse
from corral.models.visible import embedded
from corral.store import events
from corral.store import locks as lock_rows
from corral.store import sessions as session_rows

Row = dict[str, Any]


@dataclass(frozen=True)
class Policy:
    """``locks.enforcement`` (``enforce | warn | off``) and ``locks.ttl_s`` of the settings."""

    enforcement: str
    ttl_s: float


@dataclass(frozen=True)
class Target:
    """What an edit writes to: a key, in a checkout (its top folder's path)."""

    key: LockKey
    checkout: str


@dataclass(frozen=True)
class Verdict:
    """Whether an edit may go on, and what the model is told."""

    denial: str | None = None
    remarks: tuple[str, ...] = ()


def before_edit(conn: Connection, holder: Holder, target: Target, policy: Policy, now: datetime) -> Verdict:
    """Take the lock for an edit, or refuse the edit.

    In the same checkout whatever another session holds refuses it. What is held in another checkout refuses it only if it
    was reserved on purpose and exclusively; else it is a remark.
    """
    if policy.enforcement == "off":
        return Verdict()
    found = locks.overlapping(conn, target.key, holder, now)
    blocking = [row for row in found if _blocks(row, target.checkout)]
    if blocking and policy.enforcement == "enforce":
        row = blocking[-1]
        told = locks.conflict(row, target.key, now)
        events.record(conn, iso(now), "edit.denied", session_id=holder.session_id, data=told)
        return Verdict(denial=_denial(row, target.key, now))
    locks.hold(conn, [target.key], holder, target.checkout, now, ttl_s=policy.ttl_s)
    return Verdict(remarks=tuple(_remark(row, target, now) for row in found[-3:]))


def _blocks(row: Row, checkout: str) -> bool:
    if row["checkout"] == checkout:
        return True
    return not row["automatic"] and bool(row["exclusive"])


def until(row: Row, now: datetime) -> str:
    """``until 14:05 UTC (52 min)``: when a lock expires, for people and models."""
    expires = parse(row["expires_at"])
    minutes = max(1, round((expires - now).total_seconds() / 60))
    return f"until {expires:%H:%M} UTC ({minutes} min)"


def _task(row: Row) -> str:
    doing = row["current_task"] or row["reason"]
    return f' for "{embedded(str(doing))}"' if doing else ""


def _denial(row: Row, key: LockKey, now: datetime) -> str:
    held = "" if row["file_path"] == key.file_path else f" (as part of {embedded(row['file_path'])})"
    kind = "is editing it" if row["automatic"] else "has reserved it"
    return (
        f"{key.file_path} is held by {row['agent_name']}{held}, who {kind}{_task(row)}, {until(row, now)}. "
        "The edit was not made. Work on something else first and try again later, or leave this file out and say so in your "
        f"report; do not write it another way. `corral lock check {key.file_path}` tells when it is free."
    )


def _remark(row: Row, target: Target, now: datetime) -> str:
    where = "in this checkout" if row["checkout"] == target.checkout else "in another worktree"
    return (
        f"Note: {row['agent_name']} also works on {embedded(row['file_path'])} {where}{_task(row)}, {until(row, now)}. "
        "Keep your change small; the merge will be checked."
    )


def refuse_danger(
    conn: Connection, holder: Holder, danger: Danger, checkout: str, salvage_ref: str | None, now: datetime
) -> Verdict:
    """Refuse a command that would sweep up other sessions' work in this checkout; allow it if nobody else is at work."""
    others = lock_rows.others_in_checkout(conn, checkout, [holder.session_id, *holder.kin], iso(now))
    if not others:
        return Verdict()
    names = sorted({row["agent_name"] for row in others})
    files = sorted({row["file_path"] for row in others})
    shown = ", ".join(embedded(file) for file in files[:5]) + (f" and {len(files) - 5} more" if len(files) > 5 else "")
    events.record(
        conn,
        iso(now),
        "command.denied",
        session_id=holder.session_id,
        data={"kind": danger.kind, "holders": names, "files": files[:50], "salvage_ref": salvage_ref},
    )
    saved = f" The state was saved as {salvage_ref} to be safe." if salvage_ref else ""
    return Verdict(
        denial=(
            f"`{danger.kind}` would touch work of {', '.join(names)} in this checkout ({shown}). "
            f"The command was not run.{saved} Instead: {danger.alternative}"
        )
    )


def after_shell(
    conn: Connection,
    holder: Holder,
    name: str,
    checkout: str,
    changed: Iterable[LockKey],
    edited_by: Mapping[str, str],
    policy: Policy,
    now: datetime,
) -> list[str]:
    """Attribute the files that a shell command changed: lock what is free, tell both sides about what is not.

    Args:
        name: The session's readable name.
        changed: Keys of the files that differ since the command began.
        edited_by: match_key to the session whose edit tool wrote the file meanwhile: such files are not the command's.

    Returns:
        Remarks for the session that ran the command.
    """
    if policy.enforcement == "off":
        return []
    remarks, free = list[str](), list[LockKey]()
    for key in changed:
        if edited_by.get(key.match_key, holder.session_id) != holder.session_id:
            continue
        hits = [row for row in locks.overlapping(conn, key, holder, now) if _blocks(row, checkout)]
        if not hits:
            free.append(key)
            continue
        row = hits[-1]
        events.record(
            conn,
            iso(now),
            "lock.violated",
            session_id=holder.session_id,
            data={"path": key.file_path, "holder": row["agent_name"], "checkout": checkout},
        )
        remarks.append(
            f"Your shell command changed {key.file_path}, which {row['agent_name']} holds{_task(row)}, {until(row, now)}. "
            "Undo your change to that file unless you are certain, and leave the file to its holder."
        )
        session_rows.notify(
            conn,
            row["session_id"],
            f"{name} changed {key.file_path} by a shell command while you hold it. Read the file again before you edit it.",
            iso(now),
        )
    locks.hold(conn, free, holder, checkout, now, ttl_s=policy.ttl_s)
    return remarks
