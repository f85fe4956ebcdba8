"""Commands that ask for one operation: their options are what the request's fields say, and the request is what was typed."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from corral.core.errors import InvalidInput
from corral.faces.cli.asking import Field, Request
from corral.faces.cli.help import page_of, reached
from corral.faces.cli.parsing import Argument, Group, Option, UsageError, run
from corral.faces.cli.terminal.options import span


def program() -> Group:
    group = Group("A program.")

    @group.ask(
        "POST /tasks",
        Field("title", "--title", "-t", "TEXT", also=" (default: none)", required=False),
        Field("runner", "--runner"),
        "own",
        Field("priority", "--priority", show_default=False),
        Field("metadata", "--metadata", "JSON"),
        Field("wait_for", "--wait-for", "ID"),
        Field("limits.max_turns", "--max-turns"),
        Field("limits.max_tokens", "--max-tokens"),
    )
    def submit(
        request: Request,
        first: Annotated[str, Argument(metavar="FIRST", help="An argument of its own.")],
        own: Annotated[bool, Option("--own", help="An option of its own.")] = False,
    ) -> Any:
        return {**request}, request["task_type"], first, own

    @group.ask("POST /locks/acquire", Field("exclusive", "--shared", off="Share it."), Field("wait_s", "--wait"))
    def acquire(request: Request) -> Any:
        return {**request}

    @group.ask("POST /tasks/{task_id}/complete", Field("success", "--failed", off="It failed."))
    def complete(request: Request) -> Any:
        return {**request}

    @group.ask("GET /audit", Field("since_s", "--since", "SPAN", read=span))
    def audit(request: Request) -> Any:
        return {**request}

    @group.ask("GET /handoffs", Field("limit", "--limit", default=7))
    def handoffs(request: Request) -> Any:
        return {**request}

    return group


@pytest.mark.parametrize(
    ("words", "request_"),
    [
        ("submit a", {}),
        ("submit a --title x --priority 3", {"title": "x", "priority": 3}),
        ("submit a --wait-for b --wait-for c", {"wait_for": ["b", "c"]}),
        ('submit a --metadata {"k":1}', {"metadata": {"k": 1}}),
        ("submit a --max-turns 2 --max-tokens 3", {"limits": {"max_turns": 2, "max_tokens": 3}}),
        ("submit a --runner claude", {"runner": "claude"}),
    ],
)
def test_a_request_has_what_was_typed_and_leaves_the_rest_to_the_daemon(words: str, request_: dict[str, Any]) -> None:
    assert run(program(), "test", words.split()) == (request_, "task", "a", False)


@pytest.mark.parametrize(
    ("words", "request_"),
    [
        ("acquire", {}),
        ("acquire --shared", {"exclusive": False}),
        ("complete", {"success": True}),
        ("complete --failed", {"success": False}),
        ("audit --since 2h", {"since_s": 7200.0}),
        ("handoffs", {"limit": 7}),
    ],
)
def test_a_flag_can_turn_a_field_round_and_a_command_read_it_its_way(words: str, request_: dict[str, Any]) -> None:
    assert run(program(), "test", words.split()) == request_


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("acquire --wait -1", "Invalid value for '--wait': Input should be greater than or equal to 0"),
        ("acquire --wait 3601", "Invalid value for '--wait': Input should be less than or equal to 3600.0"),
        ("submit a --max-turns 0", "Invalid value for '--max-turns': Input should be greater than or equal to 1"),
        ("submit a --runner perl", "Invalid value for '--runner': 'perl' is not one of"),
        ("audit --since soon", "--since 'soon': 'soon' is no span of time."),
        ("submit a --metadata [", "--metadata is not JSON."),
    ],
)
def test_limits_are_those_of_the_field_and_a_refusal_names_the_option(words: str, message: str) -> None:
    with pytest.raises((UsageError, InvalidInput)) as refused:
        run(program(), "test", words.split())
    assert vars(refused.value)["message"].startswith(message)


def test_help_is_what_the_request_says_of_its_fields_in_the_declared_order() -> None:
    context = reached(program(), ["submit"])
    assert context is not None
    page = " ".join(page_of(context).split())
    places = [page.index(flag) for flag in ("-t, --title", "--runner", "--own", "--priority", "--metadata")]
    assert places == sorted(places)
    assert "-t, --title TEXT Title; also the commit's subject (default: none). --runner" in page
    assert "A task that must land first; in a batch also by its name; repeatable." in page
    acquire = reached(program(), ["acquire"])
    assert (
        acquire is not None and "[default: 0.0; 0<=x<=3600.0]" in page_of(acquire) and "Share it." in page_of(acquire)
    )
