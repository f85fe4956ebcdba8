"""Sessions: what is asked for, and what is answered."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import NotRequired, TypedDict

from corral.core.answers import Instant
from corral.core.identifiers import LONGEST_SESSION_ID, check_session_id
from corral.core.states import ShownStatus

DEFAULT_THRESHOLD_MINUTES, MAX_THRESHOLD_MINUTES = 15, 7 * 24 * 60
SessionId = Annotated[str, Field(max_length=LONGEST_SESSION_ID), AfterValidator(check_session_id)]
"""The id of a session where none is registered by it; where one is,
:func:`corral.coordination.sessions.registry.register` looks."""


class Acting(BaseModel):
    """What a session asks for; :mod:`corral.coordination.sessions.claims` checks that the caller may act for it.

    ``ACTS_AS``: the field that has its id. ``ONLY_ASKS``: it is answered for whomever it names, and never refused for that.
    """

    ACTS_AS: ClassVar[str] = "session_id"
    ONLY_ASKS: ClassVar[bool] = False
    agent_id: str | None = Field(
        default=None,
        max_length=128,
        description="The session that acts, by a name or its id; the caller must be allowed to act for it.",
    )

    @property
    def is_for_a_person(self) -> bool:
        """Whether only a person may ask for it."""
        return False

    def fields(self) -> dict[str, Any]:
        """What it asks for, without who does."""
        return self.model_dump(exclude={"agent_id", self.ACTS_AS})


class Caller(Acting):
    """The session that acts, and its name if it has several."""

    session_id: str | None = Field(None, max_length=128, examples=["s-1"])
    name: str | None = Field(None, max_length=128)


class Registration(BaseModel):
    """A session's description of itself."""

    session_id: str | None = Field(
        None, min_length=1, max_length=LONGEST_SESSION_ID, description="Its id (default: a new one).", examples=["s-1"]
    )
    agent_name: str | None = Field(
        None, max_length=64, description="Your name (default: generated).", examples=["GreenLake"]
    )
    agent_type: str | None = Field(None, max_length=64, description="Its kind, if that is new; at first `claude`.")
    capabilities: list[str] = Field(
        default_factory=list, max_length=64, description="A capability.", examples=[["python"]]
    )
    current_task: str | None = Field(
        None, max_length=2000, description="Your current task.", examples=["Fix the login"]
    )
    client_pid: int | None = Field(None, gt=1, description="The process of its client.")
    cwd: str | None = Field(None, description="The folder that it works in.")


class Cleanup(BaseModel):
    """The silence after which a session counts as dead."""

    stale_threshold_minutes: float = Field(
        DEFAULT_THRESHOLD_MINUTES,
        ge=1,
        le=MAX_THRESHOLD_MINUTES,
        description="End sessions that were silent for this long.",
        examples=[DEFAULT_THRESHOLD_MINUTES],
    )


class Naming(BaseModel):
    """A name that a session goes by, and its program. Fields that are left out stay as they were."""

    name: str | None = Field(
        None,
        min_length=1,
        max_length=64,
        description="The further name (default: the session's own).",
        examples=["Boulder"],
    )
    program: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Program that the agent runs under that name.",
        examples=["opencode-coder"],
    )
    model: str | None = Field(
        None, max_length=200, description="Model that the agent uses under that name.", examples=["claude-sonnet-4-5"]
    )
    task_description: str | None = Field(
        None, max_length=2000, description="Current task under that name.", examples=["Fix the login"]
    )
    new: bool = Field(False, description="Use the name if it is free, else generate one.")


class End(Acting):
    """The session that ends another; none named: the person at the keyboard."""

    ACTS_AS = "caller"
    caller: str | None = Field(None, max_length=128, examples=["s-1"])


class Session(TypedDict):
    """A session; ``agent_id`` is its name too.

    ``stalled``: it is active, and has given no sign for a while. ``waiting_for``: what it asks its person for; ``pid``: null
    where it has ended; ``unguarded``: none of its hooks is heard, so that its edits are not checked.
    """

    session_id: str
    agent_id: str
    agent_name: str
    agent_type: str
    status: ShownStatus
    current_task: str | None
    task_id: str | None
    worktree: str | None
    branch: str | None
    capabilities: list[str]
    waiting_for: str | None
    pid: int | None
    unguarded: bool
    parent_session_id: str | None
    started_at: Instant
    last_heartbeat: Instant
    ended_at: Instant | None
    end_reason: str | None


class ListedSession(Session):
    """A session with the names that it goes by beside its own, and the terminal in which its process runs."""

    terminal: str | None
    names: list[str]


class RegisteredName(TypedDict):
    """A name that a session registered, and what it is under that."""

    name: str
    program: str | None
    model: str | None
    task_description: str | None
    registered_at: Instant


class NamedSession(ListedSession):
    """A session with all the names that it registered."""

    registered: list[RegisteredName]


class RegisteredSession(Session):
    """A session that has registered; ``registration_token``: what proves it, where nothing else does. It is told once."""

    success: bool
    registration_token: NotRequired[str]


class ProgramRegistered(RegisteredSession, RegisteredName):
    """A session that has registered with its program."""


Registered = RegisteredSession | ProgramRegistered
"""A session that has registered; with the program, where that was told."""


class GoesBy(RegisteredName):
    """The name that a session has now."""

    success: bool
    session_id: str


class Alive(TypedDict):
    """The session whose heartbeat was recorded."""

    success: bool
    session_id: str


class Ended(TypedDict):
    """A session that is over; ``ended``: it was not before."""

    success: bool
    session_id: str
    ended: bool


class Cleaned(TypedDict):
    """How many sessions were given up, and how many locks came free with them."""

    success: bool
    agents_cleaned: int
    locks_released: int
