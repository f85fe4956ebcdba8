"""Rows of sessions, of their names, and of the locks that they hold or wait for."""

from __future__ import annotations

from typing import TypedDict


class SessionState(TypedDict):
    """The status that a session is shown with."""

    status: str
    stalled_since_at: str | None


class Kin(TypedDict):
    """The columns that say for whom a session works."""

    agent_type: str
    parent_session_id: str | None


class SessionTouch(SessionState, Kin):
    """The columns that a hook event reads of its session."""

    session_id: str
    agent_name: str
    task_id: str | None


class SessionLife(SessionState):
    """The columns that decide whether a session is alive."""

    session_id: str
    parent_session_id: str | None
    agent_type: str
    client_pid: int | None
    client_started: float | None
    last_heartbeat: str
    transcript_path: str | None
    waiting_for: str | None
    entrypoint: str | None


class SessionRow(SessionLife):
    """A session."""

    agent_name: str
    agent: str | None
    unguarded_since_at: str | None
    waiting_since_at: str | None
    waiting_path: str | None
    capabilities: list[str]
    current_task: str | None
    task_id: str | None
    worktree: str | None
    cwd: str | None
    branch: str | None
    last_words: str | None
    started_at: str
    ended_at: str | None
    end_reason: str | None
    heir_session_id: str | None


class NamedSession(TypedDict):
    """A session that a name denotes."""

    session_id: str
    agent_name: str
    agent_type: str
    agent: str | None
    parent_session_id: str | None
    status: str
    started_at: str


class MeantSession(NamedSession):
    """A named session with the kind of name that matched (``own``, ``bound``, ``id``, ``at work``), and the bound name."""

    how: str
    bound: str | None


class CalledSession(NamedSession):
    """A named session; ``called``: the name as it was written."""

    called: str


class FurtherName(TypedDict):
    """A further name of a session besides its own."""

    session_id: str
    name: str


class NameRow(FurtherName):
    """A name of a session; ``folded`` is the name in lower case."""

    folded: str
    program: str | None
    model: str | None
    task_description: str | None
    registered_at: str


class StoredKey(TypedDict):
    """A lock key, as it is stored."""

    file_path: str
    match_key: str
    is_pattern: bool


class LockTerms(TypedDict):
    """The terms that all locks of one request share."""

    checkout: str
    session_id: str
    exclusive: bool
    automatic: bool
    reason: str | None
    task_id: str | None
    ttl_s: float
    acquired_at: str
    expires_at: str


class LockRow(LockTerms, StoredKey):
    """A lock."""

    lock_id: str


class NamedLock(LockRow):
    """A lock with its holder's name."""

    agent_name: str


class HeldLock(NamedLock):
    """A lock with what is known of its holder."""

    current_task: str | None
    stalled_since_at: str | None


class RenewedLock(HeldLock):
    """A held lock whose lifetime was extended."""

    old_expires_at: str


class LockOfHolder(HeldLock):
    """A held lock with the columns that show whether its holder is alive, and where."""

    status: str
    last_heartbeat: str
    worktree: str | None
    cwd: str | None


class LockWaitRow(TypedDict):
    """A session that waits for locks, in the order of ``seq``."""

    seq: int
    wait_id: str
    session_id: str
    keys: list[StoredKey]
    exclusive: bool
    ttl_s: float
    reason: str | None
    created_at: str
    expires_at: str


class WaitingSession(LockWaitRow, Kin):
    """A waiting session with its own columns."""

    agent_name: str
    current_task: str | None
