"""What commands ask for is told by the requests themselves: options that stand for a field have no text of their own."""

from __future__ import annotations

import ast
from pathlib import Path

import corral
from corral.faces.cli.asking import declared
from tests.request_fields import FILE, asked, text

PACKAGE = Path(corral.__file__).parent
BY_HAND: dict[str, str] = {
    "coordination/sessions/cli.py register": "a second call, where a program or a model is named",
}
"""Commands that make a request of their own parameters, and why."""


def test_what_commands_know_of_requests_is_what_the_daemon_validates_by() -> None:
    assert FILE.read_text(encoding="utf-8") == text(), "python -m tests.request_fields"


def test_an_option_that_is_a_field_of_a_request_has_its_text_from_there() -> None:
    commands = dict(asked())
    assert len(commands) > 50
    for name, asks in commands.items():
        for field in asks.fields:
            about = declared()[asks.operation]["takes"][field.name]
            assert about["about"].endswith("."), (name, field.name, "it has no description")
            assert "help" not in field.more, (name, field.name, "it has a text of its own")
            assert not field.off or about["type"] == "boolean", (name, field.name)


def test_no_command_makes_a_request_of_its_options_by_hand() -> None:
    by_hand = set()
    for file in [*PACKAGE.rglob("cli.py"), *PACKAGE.rglob("cli/**/*.py")]:
        for function in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(function, ast.FunctionDef) and function.decorator_list and _bodies(function):
                by_hand.add(f"{file.relative_to(PACKAGE)} {function.name}")
    assert by_hand == {*BY_HAND}


def _bodies(function: ast.FunctionDef) -> list[ast.Dict]:
    """The dictionaries of a request that have a parameter of the function as it is."""
    options = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    if not any(call.func.attr in ("request", "listing") for call in calls if isinstance(call.func, ast.Attribute)):
        return []
    return [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Dict)
        and any(isinstance(value, ast.Name) and value.id in options for value in node.values)
    ]
