"""The view, the one answer from which every face is made; and the status line of a session.

``version`` grows when a field changes its meaning or goes; fields may be added at any time.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from corral.core.answers import Error, Instant, one_of
from corral.core.identifiers import LONGEST_SESSION_ID

VERSION = 1


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True)


class NeedView(_Shape):
    """A condition that needs a person: since when, and what to type.

    Attributes:
        name: Its kind in a word or two, for people; of a task or merge request that has ended its outcome.
        what: What happened, to which thing, and why.
        title: The title of the task or merge request that it is about, where there is one.
        reason: Why, without that title.
        ids: The rows that it is about, such as ``merge_id``: which there are, depends on its ``kind``.
        number: How many things it stands for: of many of a kind the last entry stands for all the others.
    """

    kind: str
    name: str
    what: str
    title: str | None
    reason: str
    since: Instant | None
    remedy: str
    ids: dict[str, str]
    number: int


class WorkView(_Shape):
    """An attempt that runs.

    Attributes:
        agent: The name of the session that does it, or its id.
        kind: The agent that was asked for, else its runner.
        step: Its last progress, or None.
        tokens: Of this attempt, input and output.
        age_s: Since it was claimed.
    """

    task_id: str
    number: int
    title: str
    agent: str
    session_id: str
    kind: str
    model: str | None
    state: Annotated[str, one_of("spawning", "running", "terminating")]
    step: str | None
    tokens: int
    cost_usd: float
    memory_mb: int | None
    attempt: int
    claimed_at: Instant
    age_s: float


class LandingView(_Shape):
    """A merge request that is to land, and how it stands (:class:`~corral.work.merges.wire.Standing`)."""

    merge_id: str
    task_id: str | None
    title: str
    branch: str
    target: str
    position: int
    state: Annotated[str, one_of("queued", "verifying", "held")]
    waits_for: str
    waits_since: Instant
    slot: int | None
    expected_s: float | None
    needs_approval: bool
    priority: int
    created_at: Instant


class SessionView(_Shape):
    """A session that is not disconnected; ``waiting_for`` is what its person is asked."""

    session_id: str
    agent_name: str
    status: Annotated[str, one_of("active", "idle", "stalled")]
    current_task: str | None
    waiting_for: str | None
    waiting_since: Instant | None
    unguarded: bool


class HappenedView(_Shape):
    """An event; ``kind`` says what ``data`` has.

    ``title`` is that of its task or merge request, or else the name of its session or target; ``number`` that of its task.
    """

    event_id: int
    at: Instant
    kind: str
    task_id: str | None
    session_id: str | None
    merge_id: str | None
    data: dict[str, Any]
    number: int | None
    title: str | None


class Used(_Shape):
    """How much is used of a limit; None: there is no limit."""

    used: int | float
    allowed: int | float | None


class ResourcesView(_Shape):
    """The use of the machine, and of the models in the last 24 hours.

    Attributes:
        agents: Workers, without those that lead others of them.
        memory_mb: Of all workers, MiB.
        free_memory_mb: That the machine has left, MiB.
        free_disk_mb: On the volume of the repository, MiB; None if it cannot be asked.
        tokens_per_day: Input and output.
    """

    agents: Used
    memory_mb: Used
    free_memory_mb: float
    free_disk_mb: float | None
    tokens_per_day: Used
    cost_usd_per_day: Used


class DelayedView(_Shape):
    """A task that a fault of the machine holds back."""

    task_id: str
    title: str
    delay: str


class DaemonView(_Shape):
    """The process that answers."""

    pid: int
    version: str
    started_at: Instant


class PausedView(_Shape):
    """Since when nothing is claimed or landed, because a person said so."""

    reason: str | None
    since_at: Instant


class View(_Shape):
    """Everything that a face shows at once, of one moment.

    Attributes:
        seq: The ``event_id`` of the last event in it: ``GET /events?after=SEQ`` has all that came later.
        needs_you_number: How many things need a person, those that one entry of ``needs_you`` stands for among them.
        open: Tasks and merge requests that are not settled, by outcome.
        verified: Whether a verification command is configured.
        tasks: How many there are, by status; likewise ``merges``, by state.
        bell: Whether a terminal that shows the view rings its bell for a new need, at this hour.
    """

    needs_you: list[NeedView]
    version: int = VERSION
    seq: int
    composed_at: Instant
    needs_you_number: int
    at_work: list[WorkView]
    at_work_left_out: int
    queue: list[LandingView]
    queue_left_out: int
    resources: ResourcesView
    open: dict[str, int]
    tasks: dict[str, int]
    merges: dict[str, int]
    delayed: list[DelayedView]
    paused: PausedView | None
    sessions: list[SessionView]
    sessions_left_out: int
    locks: int
    recent: list[HappenedView]
    project: str
    target: str
    daemon: DaemonView
    verified: bool
    bell: bool
    config_error: Error | None
    config_warnings: list[str] = Field(default_factory=list)


class ClientStatus(BaseModel):
    """The status that Claude Code gives to its status line, as far as it matters here."""

    session_id: str | None = Field(None, max_length=LONGEST_SESSION_ID, examples=["s-1"])


class StatusLine(BaseModel):
    """One line of visible characters."""

    line: str


class ShownScreen(BaseModel):
    """What a mod shows already: the screen is answered once it differs."""

    session_id: str = Field(max_length=LONGEST_SESSION_ID, examples=["s-1"])
    shown: str = Field("", max_length=64)
    wait_s: float = Field(0.0, ge=0, le=300)


class ScreenNeed(_Shape):
    """What waits for a person; ``merge_id``: of a request that they may approve."""

    what: str
    remedy: str
    merge_id: str | None


Standing = Literal["green", "red", "not verified"]


class SessionScreen(_Shape):
    """What a session's mod draws: lines of visible characters.

    Attributes:
        standing: Of the target: green only if what it has was verified.
        band: That, what the session holds, what waits for it; one line.
        shown: The digest of all this.
    """

    standing: Standing
    band: str
    queue: list[str]
    locks: list[str]
    mail: list[str]
    needs: list[ScreenNeed]
    shown: str
