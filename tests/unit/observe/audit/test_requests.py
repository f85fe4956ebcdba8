"""What the audit keeps of a request and its answer: who is meant and what came of it, no content."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.errors import NotFound
from corral.observe.audit.requests import outcome


@pytest.mark.req("FR-MONITOR-004")
@pytest.mark.parametrize(
    ("answered", "kept"),
    [
        (
            {"task_id": "t", "status": "pending", "error": None, "replayed": False},
            {"task_id": "t", "status": "pending"},
        ),
        ({"success": True, "locks": [{"path": "a.py", "lock_id": "l"}]}, {"success": True, "locks": ["l"]}),
        ({"body": "for your eyes only", "message_id": "m", "recipients": []}, {"message_id": "m"}),
        ([{"task_id": "a", "title": "A"}, {"task_id": "b"}], ["a", "b"]),
        ({"paths": ["a", "b"], "nested": {"agent_id": "x", "more": {}}}, {"paths": ["a", "b"], "nested": ["x"]}),
    ],
)
def test_of_an_answer_its_values_and_ids_are_kept(answered: Any, kept: Any) -> None:
    assert outcome(answered) == {"status": "ok", "answer": kept}


def test_an_answer_without_any_and_an_error() -> None:
    assert outcome(None) == outcome([]) == outcome({"body": "x"}) == {"status": "ok"}
    assert outcome(NotFound("There is no such task."))["error"]["message"] == "There is no such task."
    assert outcome(ValueError("a secret")) == {"status": "failed", "error": {"name": "ValueError"}}
