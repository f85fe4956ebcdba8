"""Rows of merge requests, receipts, landing intents and paused targets."""

from typing import Any, TypedDict

from corral.store.rows import Id, Instant, Name, Sentence, Sha, State


class MergeRow(TypedDict):
    """A merge request; each of ``conflicts`` is ``{path, kind}``."""

    seq: int
    merge_id: Id
    task_id: Id | None
    session_id: Name | None
    title: str
    priority: int
    branch: str
    target: str
    base_sha: Sha | None
    head_sha: Sha
    state: State
    reason: Sentence | None
    conflicts: list[dict[str, str]] | None
    candidate_sha: Sha | None
    candidate_tree: Sha | None
    # What the candidate is built upon: the target's tip, or the candidate of a request before it.
    tip_sha: Sha | None
    # A candidate of another request, upon which this one could not be merged; it may be upon the tip.
    clashes_on_sha: Sha | None
    # Since when it is judged alone: a chain of candidates was red where it began.
    suspect_at: Instant | None
    receipt_id: Id | None
    # The receipt by which its check (landing.check) stands; NULL: it has to run. It may be deleted before the request.
    check_receipt_id: Id | None
    landed_sha: Sha | None
    # The commit that the target moved to with it; where that is another one, its receipt covers this.
    landed_tip_sha: Sha | None
    # The shape of the candidate; only `merge` and `fast-forward` have the head in their history.
    style: State | None
    approved_sha: Sha | None
    tries: int
    not_before_at: Instant | None
    created_at: Instant
    updated_at: Instant
    finished_at: Instant | None
    # The newer request of the same branch; of an open one: it is landing, and beyond recall.
    replaced_by: Id | None
    dismissed_at: Instant | None
    # The request whose work this one takes back.
    reverts: Id | None
    # Since when it counts in its target's order: a person sent it to the back.
    skipped_at: Instant | None
    # The head that a person lets land without a verification, and in a sentence who and why.
    bypassed_sha: Sha | None
    bypass_reason: str | None


class StackedMerge(TypedDict):
    """An open request whose branch was begun on the work of these tasks, each by its id with the head that it had."""

    merge_id: str
    stacked_on: dict[str, str] | None


class BegunAt(TypedDict):
    """Where the branch of an attempt began."""

    base_sha: str | None


class WaitedFor(TypedDict):
    """An open request, and a task that its own one waits for."""

    merge_id: str
    depends_on: str


class ReceiptRow(TypedDict):
    """The result of a verification of exactly one tree; ``failed_tests`` is null where it is not known what would have failed."""

    receipt_id: Id
    tree: Sha
    fingerprint: Sha
    status: State
    commands: list[str]
    exit_code: int | None
    tests: int | None
    duration_s: float
    log: str | None
    reason: Sentence | None
    created_at: Instant
    # What it is of; NULL where nothing ran, and before these were recorded.
    merge_id: Id | None
    commit_sha: Sha | None
    role: State | None
    inputs: dict[str, Any] | None
    # Of a red one: the tests that failed, as far as its output tells; NULL where not everything ran.
    failed_tests: list[str] | None


class FlakeValues(TypedDict):
    """A test that failed and then passed on one tree; ``test`` is null where the runner did not tell which it was."""

    target: str
    test: str | None
    merge_id: Id
    commit_sha: Sha
    tree: Sha
    red_log: str | None
    green_log: str | None
    at: Instant


class FlakeRow(FlakeValues):
    """The same, as it is stored."""

    flake_id: int


class Intent(TypedDict):
    """A landing: the target moves from one commit to another, which lands these requests.

    With a ``remote`` the target moves there first, from ``remote_sha``.
    """

    target: str
    old_sha: Sha
    new_sha: Sha
    merge_ids: list[str]
    remote: str | None
    remote_sha: Sha | None
    pushed_at: Instant | None


class IntentRow(Intent):
    """A landing that was begun."""

    failed_at: Instant | None
    created_at: Instant


class RemoteRow(TypedDict):
    """What is known of a target on its remote; ``reason``: why the remote did not do what it was asked for last."""

    target: str
    remote: str
    seen_at: Instant | None
    # Where its target was when that was last built upon: what it has lost since is not brought back.
    known_sha: Sha | None
    # Commits that the target here has and there has not.
    ahead: int
    tries: int
    reason: Sentence | None
    since_at: Instant | None
    look_at: Instant | None
    # What has landed there and not here yet, and why not.
    behind_sha: Sha | None
    behind_reason: Sentence | None


class BranchPushRow(TypedDict):
    """The branch of a request that is to be published once the request has landed."""

    merge_id: Id
    remote: str
    tries: int
    reason: Sentence | None
    look_at: Instant


class LandedBranch(BranchPushRow):
    """One whose request has landed."""

    branch: str
    head_sha: str
    title: str


class VerificationRunRow(TypedDict):
    """A verification that runs, or ran; ``members`` are the requests whose work it judges."""

    run_id: int
    merge_id: Id
    target: str
    commit_sha: Sha
    candidate_sha: Sha
    tree: Sha
    fingerprint: Sha
    slot: int
    is_alone: int
    # The requests whose work is in the tree beside what the target has, in the chain's order.
    members: list[str]
    started_at: Instant
    ended_at: Instant | None
    receipt_id: Id | None
    # It met a port that a run beside it may have had: those that begin after this run_id go one at a time for a while.
    apart_after: int | None


class RanVerification(TypedDict):
    """A verification that runs, or ran: in which slot, when, for which request; ``status`` null: no receipt came of it.

    ``title`` is that of the request; null where there is none, since the target's tip was verified.
    """

    run_id: int
    merge_id: str
    target: str
    title: str | None
    slot: int
    members: list[str]
    started_at: str
    ended_at: str | None
    status: str | None


class FreezeRow(TypedDict):
    """A target on which nothing lands until a person thaws it, and which person froze it."""

    target: str
    reason: str
    by: str
    since_at: Instant


class DirectTipRow(TypedDict):
    """A tip that a target did not get from a verification, as long as it is not known to be green.

    ``base_sha``: the last tip before it of which nothing of that kind is known; ``whose``: its commits, in words; ``reason``: set
    once it was red.
    """

    target: str
    base_sha: Sha
    tip_sha: Sha
    whose: str
    seen_at: Instant
    # Verifications in a row that ended without a verdict, and when the next one may begin.
    tries: int
    look_at: Instant | None
    reason: Sentence | None


class TargetPauseRow(TypedDict):
    """A target whose verifications or landings fail, and when it is looked at again."""

    target: str
    reason: Sentence
    failures: int
    since_at: Instant
    look_at: Instant


class TargetRow(TypedDict):
    """What is learned of a target; ``batch``: requests in one chain, at most."""

    target: str
    batch: int
