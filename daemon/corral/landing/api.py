"""Merge requests and what becomes of them: what is asked for, and what is answered."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from corral.coordination.sessions.api import Acting, SessionId
from corral.core.answers import Instant, checked, one_of
from corral.core.outcomes import MERGE_WORDS
from corral.core.states import ReceiptStatus
from corral.work.merges.wire import MergeRun, PathConflict, Standing, StateOfMerge
from corral.work.tasks.api import TaskOutcome

MergeWord = Annotated[str, checked(*MERGE_WORDS)]
_SESSION = Field(None, max_length=128, description="The agent session that asks, if one does.")
_TASK = Field(None, max_length=64, description="The task whose worker asks, if one does.")


class Submission(Acting):
    """A branch for its target."""

    branch: str = Field(min_length=1, max_length=1024, description="Branch to land.", examples=["login"])
    target: str | None = Field(
        None,
        min_length=1,
        max_length=1024,
        description="Land on this branch (default: landing.target).",
        examples=["main"],
    )
    title: str | None = Field(None, max_length=500, description="Message of the merge commit.", examples=["Login"])
    session_id: SessionId | None = Field(None, description="The agent session that asks, if one does.")
    task_id: str | None = Field(
        None,
        min_length=1,
        max_length=64,
        description="Task whose work it is (default: known from the branch or the session).",
    )


class Again(BaseModel):
    """How to try again."""

    follow_branch: bool = Field(
        False, description="Use the branch's current head instead of the pinned one.", examples=[True]
    )


class Undo(Acting):
    """Who takes the work of a request back."""

    session_id: SessionId | None = None


class Order(Acting):
    """A person's order to the queue; a worker or a session that says who it is is refused."""

    session_id: str | None = _SESSION
    task_id: str | None = _TASK


class Bypass(Order):
    """A person's order to land a request without a verification."""

    head_sha: str = Field(
        pattern="^([0-9a-f]{40}|[0-9a-f]{64})$",
        description="The head that was seen.",
        examples=["97bc574f091bbff740d9acf629369800bd065d9c"],
    )
    reason: str = Field(
        min_length=1,
        max_length=500,
        description="Why it lands without a verification; stands on its receipt.",
        examples=["The test machine is down."],
    )


class Target(Order):
    """A target, by its short name."""

    target: str = Field(min_length=1, max_length=1024, description="A branch on which work lands.", examples=["main"])


class Freeze(Target):
    """A target on which nothing may land for now, and why."""

    reason: str = Field(
        min_length=1,
        max_length=500,
        description="Why nothing may land; everybody who waits is told.",
        examples=["A release is being made."],
    )


class Approval(Acting):
    """A person's yes to what they have seen; a worker or a session that says who it is is refused."""

    head_sha: str = Field(
        pattern="^([0-9a-f]{40}|[0-9a-f]{64})$",
        description="The head that was seen.",
        examples=["97bc574f091bbff740d9acf629369800bd065d9c"],
    )
    session_id: str | None = _SESSION
    task_id: str | None = _TASK


class Acceptance(Acting):
    """A person's yes to what a target lost; a worker or a session that says who it is is refused."""

    target: str = Field(min_length=1, max_length=1024, description="A branch that was rewound.", examples=["main"])
    lost: list[str] = Field(
        min_length=1,
        max_length=100,
        description="The lost tips that were seen.",
        examples=[["97bc574f091bbff740d9acf629369800bd065d9c"]],
    )
    session_id: str | None = _SESSION
    task_id: str | None = _TASK


class Review(TypedDict):
    """The changes that an approval would let in, and the ``reason`` why they need one; ``paths``: those that need it."""

    merge_id: str
    head_sha: str
    reason: str
    paths: list[str]
    diff: str
    truncated: bool


class Dismissed(TypedDict):
    """What nothing more is done about: a request, a task, or a task with its request."""

    merge_id: str | None
    task_id: str | None
    outcome: Literal["dismissed"]


class MergeLog(TypedDict):
    """The output of a verification; ``complete``: nothing more will come; ``run``: null while there is none."""

    text: str
    complete: bool
    run: MergeRun | None


class MergeLogPart(MergeLog):
    """A part of a run's log. To go on, ask for the number of ``run`` and ``next_offset``, in bytes."""

    next_offset: int


class FlakeOccurrence(TypedDict):
    """A test failed and then passed on one tree; the logs of both, relative to the project's root if inside it."""

    at: Instant
    merge_id: str
    commit_sha: str
    red_log: str | None
    green_log: str | None


class FlakyTest(TypedDict):
    """A test that failed and then passed on one tree; ``test``: null where the runner did not tell which it was.

    ``occurrences``: the newest of the ``times`` in the last 90 days.
    """

    target: str
    test: str | None
    times: int
    first_at: Instant
    last_at: Instant
    occurrences: list[FlakeOccurrence]


class Dependent(TypedDict):
    """A task that waited for the work of another one, or for a task that did; ``number``: that of the task."""

    task_id: str
    number: int
    title: str
    outcome: TaskOutcome


class Reverted(TypedDict):
    """A queued revert: its request, the one that it ``reverts``, and where it does not merge with the target as that is now."""

    merge_id: str
    branch: str
    target: str
    state: StateOfMerge
    reverts: str
    conflicts: list[PathConflict]
    dependents: list[Dependent]


class Frozen(TypedDict):
    """A frozen target; ``landing``: the requests whose landing had begun already, and that may still land."""

    target: str
    reason: str
    by: str
    since_at: Instant
    landing: list[str]


class Thawed(TypedDict):
    """A target that goes on; ``verifies``: it is red by itself, and is verified once more."""

    target: str
    was_frozen: bool
    verifies: bool


class StoppedTarget(TypedDict):
    """A target on which nothing lands at present, and why."""

    target: str
    reason: str


class LostRequest(TypedDict):
    """A landed request that its target has no more."""

    merge_id: str
    task_id: str | None
    title: str


class LostTip(TypedDict):
    """A tip that a target lost; ``tip``: where the target is, null: it is gone; ``at``: when that was noticed."""

    target: str
    lost_sha: str
    tip: str | None
    at: Instant
    what: str
    remedy: str
    requests: list[LostRequest]


class RewindAccepted(TypedDict):
    """What a target lost, and what a person has accepted."""

    target: str
    accepted: list[LostTip]


class ReceiptChecked(TypedDict):
    """The ``receipt`` of a landed commit, a git note, and what of it does not fit the repository.

    ``is_proven``: it fits, and the commit was verified (``passed``), or is below one that was (``covered``).
    """

    commit: str
    tree: str
    status: str
    is_proven: bool
    problems: list[str]
    receipt: dict[str, object]


class Opened(TypedDict):
    """The worktree of a merge request. ``merging``: the target's merge is begun in it; ``conflicts``: the paths to resolve."""

    merge_id: str
    name: str
    path: str
    branch: str
    target: str
    merging: bool
    conflicts: list[str]


VerdictOfCandidate = Annotated[str, one_of("not built", "not verified", "running", *ReceiptStatus.values())]


class CandidateInGraph(TypedDict):
    """A request in the queue, and the commit that was built for it.

    ``candidate_sha`` null: none is built; ``on_sha``: the commit it is built upon, the target's tip or another candidate.
    ``verdict``: what is known of it; ``is_alone``: it is judged by itself, since what was verified with it was red.
    """

    merge_id: str
    title: str
    state: StateOfMerge
    standing: Standing
    candidate_sha: str | None
    on_sha: str | None
    verdict: VerdictOfCandidate
    is_alone: bool


class GraphOfTarget(TypedDict):
    """The candidates for a target in landing order; ``tip``: what the first ones are built upon, null while none is."""

    target: str
    tip: str | None
    candidates: list[CandidateInGraph]


class Risk(TypedDict):
    """Work that is neither landed nor salvaged: a task, a merge request, a worktree or a folder, and why it counts."""

    what: str
    why: str


class WorktreesRetired(TypedDict):
    """``at_risk``: the worktrees that had to stay; ``left``: the folders that stay, as something else is in them."""

    at_risk: list[Risk]
    left: list[str]
