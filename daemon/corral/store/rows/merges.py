"""Rows of merge requests, receipts, landing intents and paused targets."""

from __future__ import annotations

from typing import Any, TypedDict


class MergeRow(TypedDict):
    """A merge request; each of ``conflicts`` is ``{path, kind}``."""

    seq: int
    merge_id: str
    task_id: str | None
    session_id: str | None
    title: str
    priority: int
    branch: str
    target: str
    base_sha: str | None
    head_sha: str
    state: str
    reason: str | None
    conflicts: list[dict[str, str]] | None
    candidate_sha: str | None
    candidate_tree: str | None
    tip_sha: str | None
    clashes_on_sha: str | None
    suspect_at: str | None
    receipt_id: str | None
    check_receipt_id: str | None
    landed_sha: str | None
    landed_tip_sha: str | None
    style: str | None
    approved_sha: str | None
    tries: int
    not_before_at: str | None
    created_at: str
    updated_at: str
    finished_at: str | None
    replaced_by: str | None
    dismissed_at: str | None
    reverts: str | None
    skipped_at: str | None
    bypassed_sha: str | None
    bypass_reason: str | None


class StackedMerge(TypedDict):
    """An open request whose branch was begun on the work of these tasks, each by its id with the head that it had."""

    merge_id: str
    stacked_on: dict[str, str] | None


class WaitedFor(TypedDict):
    """An open request, and a task that its own one waits for."""

    merge_id: str
    depends_on: str


class ReceiptRow(TypedDict):
    """The result of a verification of exactly one tree; ``failed_tests`` is null where it is not known what would have failed."""

    receipt_id: str
    tree: str
    fingerprint: str
    status: str
    commands: list[str]
    exit_code: int | None
    tests: int | None
    duration_s: float
    log: str | None
    reason: str | None
    created_at: str
    merge_id: str | None
    commit_sha: str | None
    role: str | None
    inputs: dict[str, Any] | None
    failed_tests: list[str] | None


class FlakeValues(TypedDict):
    """A test that failed and then passed on one tree; ``test`` is null where the runner did not tell which it was."""

    target: str
    test: str | None
    merge_id: str
    commit_sha: str
    tree: str
    red_log: str | None
    green_log: str | None
    at: str


class FlakeRow(FlakeValues):
    """The same, as it is stored."""

    flake_id: int


class Intent(TypedDict):
    """A landing: the target moves from one commit to another, which lands these requests.

    With a ``remote`` the target moves there first, from ``remote_sha``.
    """

    target: str
    old_sha: str
    new_sha: str
    merge_ids: list[str]
    remote: str | None
    remote_sha: str | None
    pushed_at: str | None


class IntentRow(Intent):
    """A landing that was begun."""

    failed_at: str | None
    created_at: str


class RemoteRow(TypedDict):
    """What is known of a target on its remote; ``reason``: why the remote did not do what it was asked for last."""

    target: str
    remote: str
    seen_at: str | None
    known_sha: str | None
    ahead: int
    tries: int
    reason: str | None
    since_at: str | None
    look_at: str | None
    behind_sha: str | None
    behind_reason: str | None


class BranchPushRow(TypedDict):
    """The branch of a request that is to be published once the request has landed."""

    merge_id: str
    remote: str
    tries: int
    reason: str | None
    look_at: str


class LandedBranch(BranchPushRow):
    """One whose request has landed."""

    branch: str
    head_sha: str
    title: str


class VerificationRunRow(TypedDict):
    """A verification that runs, or ran; ``members`` are the requests whose work it judges."""

    run_id: int
    merge_id: str
    target: str
    commit_sha: str
    candidate_sha: str
    tree: str
    fingerprint: str
    slot: int
    is_alone: int
    members: list[str]
    started_at: str
    ended_at: str | None
    receipt_id: str | None
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
    since_at: str


class DirectTipRow(TypedDict):
    """A tip that a target did not get from a verification, as long as it is not known to be green.

    ``base_sha``: the last tip before it of which nothing of that kind is known; ``whose``: its commits, in words; ``reason``: set
    once it was red.
    """

    target: str
    base_sha: str
    tip_sha: str
    whose: str
    seen_at: str
    tries: int
    look_at: str | None
    reason: str | None


class TargetPauseRow(TypedDict):
    """A target whose verifications or landings fail, and when it is looked at again."""

    target: str
    reason: str
    failures: int
    since_at: str
    look_at: str
