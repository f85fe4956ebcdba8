"""Rows of loops and of their iterations."""

from __future__ import annotations

from typing import Any, TypedDict


class LoopRow(TypedDict):
    """A loop; its task has the same id."""

    task_id: str
    title: str
    spec: dict[str, Any]
    target: str | None
    base_sha: str | None
    counted_from: int
    created_at: str


class IterationRow(TypedDict):
    """An iteration that was completed; ``record`` is JSON text."""

    task_id: str
    iteration: int
    attempt: int
    session_id: str
    base_sha: str
    head_sha: str
    verdict: str
    is_success: bool
    record: str
    duration_s: float
    started_at: str
    ended_at: str
