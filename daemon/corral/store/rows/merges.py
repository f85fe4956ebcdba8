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


class StackedMerge(TypedDict):
    """An open request whose branch was begun on the work of these tasks, each by its id with the head that it had."""

    merge_id: str
    stacked_on: dict[str, str] | None


class WaitedFor(TypedDict):
    """An open request, and a task that its own one waits for."""

    merge_id: str
    depends_on: str


class ReceiptRow(TypedDict):
    """The result of a verification of exactly one tree."""

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


class Intent(TypedDict):
    """A landing: the target moves from one commit to another, which lands these requests."""

    target: str
    old_sha: str
    new_sha: str
    merge_ids: list[str]


class IntentRow(Intent):
    """A landing that was begun."""

    failed_at: str | None
    created_at: str


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


class RanVerification(TypedDict):
    """A verification that runs, or ran: in which slot, when, for which request; ``status`` null: no receipt came of it."""

    run_id: int
    merge_id: str
    title: str
    slot: int
    members: list[str]
    started_at: str
    ended_at: str | None
    status: str | None


class TargetPauseRow(TypedDict):
    """A target whose verifications or landings fail, and when it is looked at again."""

    target: str
    reason: str
    failures: int
    since_at: str
    look_at: str
