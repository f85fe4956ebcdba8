"""What is remembered of sessions."""

from __future__ import annotations

from corral.coordination.edits.runtime_state import RuntimeState


def test_a_tool_call_without_an_id_makes_nobody_the_session_of_all_others() -> None:
    runtime = RuntimeState()
    runtime.announced("one", "")
    assert runtime.actor_of("") is None
    runtime.announced("one", "toolu_1")
    assert runtime.actor_of("toolu_1") == "one"
