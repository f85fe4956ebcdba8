"""Rows of sessions, of their names, and of the locks that they hold or wait for."""

from typing import TypedDict

from corral.store.rows import Id, Instant, Name, State, Word


class SessionState(TypedDict):
    """The status that a session is shown with."""

    status: State
    stalled_since_at: Instant | None


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

    session_id: Name
    parent_session_id: Name | None
    agent_type: Word
    client_pid: int | None
    client_started: float | None
    last_heartbeat: Instant
    transcript_path: str | None
    waiting_for: str | None
    entrypoint: Word | None


class SessionRow(SessionLife):
    """A session."""

    agent_name: Name
    agent: Name | None
    unguarded_since_at: Instant | None
    waiting_since_at: Instant | None
    waiting_path: str | None
    capabilities: list[str]
    current_task: str | None
    task_id: Id | None
    worktree: str | None
    cwd: str | None
    branch: str | None
    last_words: str | None
    started_at: Instant
    ended_at: Instant | None
    end_reason: Word | None
    heir_session_id: Name | None


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

    name: Name
    session_id: Name


class NameRow(FurtherName):
    """A name of a session; ``folded`` is the name in lower case."""

    folded: Name
    program: str | None
    model: str | None
    task_description: str | None
    registered_at: Instant


class StoredKey(TypedDict):
    """A lock key, as it is stored."""

    file_path: str
    match_key: str
    is_pattern: bool


class LockTerms(TypedDict):
    """The terms that all locks of one request share."""

    checkout: str
    session_id: Name
    exclusive: bool
    automatic: bool
    reason: str | None
    task_id: Id | None
    ttl_s: float
    acquired_at: Instant
    expires_at: Instant


class LockRow(StoredKey, LockTerms):
    """A lock."""

    lock_id: Id


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
    wait_id: Id
    session_id: Name
    keys: list[StoredKey]
    exclusive: bool
    ttl_s: float
    reason: str | None
    created_at: Instant
    expires_at: Instant


class WaitingSession(LockWaitRow, Kin):
    """A waiting session with its own columns."""

    agent_name: str
    current_task: str | None
