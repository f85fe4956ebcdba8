"""Rows of loops and of their iterations."""

from typing import Any, TypedDict

from corral.store.rows import Id, Instant, Name, Sha, State


class LoopRow(TypedDict):
    """A loop; its task has the same id, and no row refers to that: retention deletes it, and the history stays.

    ``base_sha`` is where the first iteration started; iterations up to ``counted_from`` count for no limit.
    """

    task_id: Id
    title: str
    spec: dict[str, Any]
    target: str | None
    base_sha: Sha | None
    counted_from: int
    created_at: Instant


class IterationRow(TypedDict):
    """An iteration that was completed: a checkpoint.

    ``record`` is JSON text, so that a damaged one can be skipped: the evaluations, the result of the work, its usage, and its
    instructions.
    """

    task_id: Id
    iteration: int
    attempt: int
    session_id: Name
    base_sha: Sha
    head_sha: Sha
    verdict: State
    is_success: bool
    record: str
    duration_s: float
    started_at: Instant
    ended_at: Instant
