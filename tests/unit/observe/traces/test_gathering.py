"""A part of a task's life as a span: its identifiers, attributes by OpenTelemetry's names, errors, links, and no secret."""

from __future__ import annotations

from typing import Any

from corral.core.events import EventKind as Kind
from corral.observe.traces import spans
from corral.observe.traces.gathering import About, as_spans, message
from corral.observe.traces.spans import Part, Span

KEY = "sk-ant-api03-abcdefghijklmnop0123"
TASK: Any = {"task_id": "t1", "seq": 7, "title": f"Fix {KEY}", "task_type": "task", "priority": 5, "template": None}
TASK |= {"parent_task_id": None, "thread_id": "th", "created_at": "2026-11-24T22:00:00.000Z"}


def at(second: int) -> str:
    return f"2026-11-24T22:00:{second:02}.000Z"


def event(kind: str, second: int, merge_id: str | None = None, **data: Any) -> Any:
    about = {"task_id": "t1", "session_id": "s", "merge_id": merge_id}
    return {"event_id": second, "at": at(second), "kind": str(kind), **about, "data": data}


def one(part: Part, about: About) -> Span:
    (span,) = as_spans(part, about)
    return span


def attempt_row(runner: str, **more: Any) -> Any:
    usage = {"input_tokens": 10, "output_tokens": 5, "cost_usd": 0.25, "turns": 2}
    row = {"number": 2, "session_id": "s", "agent": "builder", "runner": runner, "model": "a-model", "usage": usage}
    row |= {"host": None, "branch": "corral/x", "head_sha": "ab", "memory_mb": 40, "outcome": "completed"}
    return {**row, "error_code": None, "error_message": None, "claimed_at": at(5), "ended_at": at(9), **more}


def test_the_whole_of_a_task_and_of_one_that_lives_again() -> None:
    end = event(Kind.TASK_DEAD, 9, error_code="exit", error_message=f"said {KEY}" + "x" * 600)
    about = About(TASK, message_ids=["m1", "m2"])
    whole = one(Part("task", at(0), end, None), about)
    assert (whole.name, whole.parent_id, whole.is_error) == ("task", None, True)
    assert (whole.trace_id, whole.span_id) == spans.of_task("t1") and len(whole.trace_id) == 32
    assert (whole.end - whole.start).total_seconds() == 9
    assert whole.links == [spans.of_message("m1"), spans.of_message("m2")]
    assert whole.attributes["corral.task.title"] == "Fix [redacted]" and whole.attributes["error.type"] == "exit"
    assert whole.attributes["corral.task.outcome"] == "dead" and "corral.task.template" not in whole.attributes
    assert KEY not in repr(whole) and len(str(whole.attributes["error.message"])) < 520
    assert whole == one(Part("task", at(0), end, None), about), "told again, it is the same"
    again = one(Part("task", at(12), event(Kind.MERGE_LANDED, 20, "m", reason=None, landed_sha="cd"), 12), about)
    assert (again.parent_id, again.is_error) == (whole.span_id, False) and again.span_id != whole.span_id
    assert again.attributes["corral.task.is_reopened"] is True
    wait = one(Part("wait", at(12), event(Kind.TASK_CLAIMED, 15, attempt=1, token=3), 12, 3), About(TASK))
    assert (wait.parent_id, wait.is_error) == (again.span_id, None)


def test_an_attempt_of_a_model_and_of_a_command() -> None:
    end = event(Kind.TASK_COMPLETED, 9, attempt=1, head_sha="ab")
    part = Part("attempt", at(5), end, None, 2, (event(Kind.TASK_STARTED, 6, pid=42),))
    span = one(part, About(TASK, attempt=attempt_row("claude"), message_ids=["m"]))
    assert span.parent_id == spans.of_task("t1").span_id and span.is_error is False
    expected = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.agent.name": "builder",
        "gen_ai.request.model": "a-model",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "corral.usage.cost_usd": 0.25,
        "corral.attempt.number": 2,
        "vcs.ref.head.name": "corral/x",
        "session.id": "s",
    }
    assert expected.items() <= span.attributes.items() and "error.type" not in span.attributes
    assert [(mark.name, mark.attributes) for mark in span.marks] == [("task.started", {"corral.pid": 42})]
    plain = one(part, About(TASK, attempt=attempt_row("command")))
    assert not [name for name in plain.attributes if name.startswith("gen_ai.")]
    gone = one(Part("attempt", at(5), event(Kind.TASK_RETRIED, 9, error_code="exit"), None, 2), About(TASK))
    assert gone.is_error is True and gone.attributes["error.type"] == "exit", "without its row the event tells"


def test_a_landing_and_its_verification_and_one_that_another_proved() -> None:
    merge: Any = {"title": "Fix", "branch": "corral/x", "head_sha": "ab", "target": "main", "receipt_id": "r"}
    merge |= {"created_at": at(10)}
    receipt: Any = {"receipt_id": "r", "status": "passed", "commands": ["pytest"], "tests": 3, "duration_s": 4.0}
    receipt |= {"created_at": at(18), "reason": None, "tree": "aa", "exit_code": 0}
    part = Part("landing", at(10), event(Kind.MERGE_LANDED, 20, "m", reason=None, landed_sha="cd"), None)
    landing, verification = as_spans(part, About(TASK, merge=merge, receipt=receipt))
    assert (landing.is_error, verification.is_error, verification.parent_id) == (False, False, landing.span_id)
    assert (verification.end - verification.start).total_seconds() == 4
    assert verification.attributes["corral.verification.tests"] == 3
    assert landing.attributes["vcs.change.state"] == "merged" and landing.attributes["corral.merge.landed_sha"] == "cd"
    assert landing.attributes["vcs.ref.base.name"] == "main"
    before: Any = {**receipt, "created_at": at(5)}
    earlier = one(part, About(TASK, merge=merge, receipt=before))
    assert earlier.attributes["corral.receipt.status"] == "passed", "it did not run within this landing"
    failed = Part("landing", at(10), event(Kind.MERGE_FAILED, 20, "m", reason="red", landed_sha=None), None)
    red = {**receipt, "status": "failed", "exit_code": 1}
    landing, verification = as_spans(failed, About(TASK, merge=merge, receipt=red))  # type: ignore[arg-type]
    assert landing.is_error and verification.is_error and landing.attributes["error.type"] == "merge_failed"
    assert (verification.attributes["error.type"], verification.attributes["process.exit.code"]) == (
        "verification_failed",
        1,
    )
    assert one(failed, About(TASK)).attributes["corral.merge.reason"] == "red"


def test_a_message_has_a_trace_of_its_own_and_links_to_its_tasks() -> None:
    sent = event(Kind.MESSAGE_SENT, 3, message_id="m1", seq=4, thread_id="th", bounced=[])
    span = message(sent, {"corral.agent.name": "Ada"}, ["t1", "t2"])
    assert (span.trace_id, span.span_id) == spans.of_message("m1") and span.is_message
    assert span.links == [spans.of_task("t1"), spans.of_task("t2")]
    assert span.attributes["messaging.message.conversation_id"] == "th"
