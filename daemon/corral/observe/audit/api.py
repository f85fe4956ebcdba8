"""The audit: what is answered."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from corral.core.answers import Instant


class AuditLine(TypedDict):
    """A deed; ``hash`` covers the other fields, ``previous_hash`` among them.

    ``parameters`` and ``result`` have the fields of their action, without secrets and of bounded size; ``result.status``:
    ``ok``, ``failed``, ``denied`` or ``called``.
    """

    seq: int
    timestamp: Instant
    agent_id: str
    session_id: str | None
    task_id: str | None
    action: str
    parameters: dict[str, Any]
    result: dict[str, Any]
    previous_hash: str
    hash: str


class AuditProblem(TypedDict):
    """What is wrong at a line."""

    seq: int
    problem: str


class AuditVerification(TypedDict):
    """Whether the chain of the lines is whole; ``problems``: the first ones.

    ``removed_until``: the last line that retention removed, 0: none. ``first_seq`` and ``last_seq`` are 0 where there is no line.
    """

    valid: bool
    lines: int
    first_seq: int
    last_seq: int
    removed_until: int
    problems: list[AuditProblem]


AuditShown = list[AuditLine] | AuditVerification
"""Lines, or whether their chain is whole."""
