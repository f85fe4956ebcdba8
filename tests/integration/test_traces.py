"""``--verbose`` and ``--debug``: steps and requests on stderr, never a secret, and standard output as ever."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from corral.faces.cli.terminal.output import guarded
from tests.support.coordinated import Coordinated

SECRET = "sk-ant-api03-0123456789abcdefghijklmnop"
OF_ENVIRONMENT = "orchid-meadow-lantern-7"


@pytest.fixture
def idle(coordinate: Callable[..., Coordinated]) -> Coordinated:
    house = coordinate(config="supervisor: {max_agents: 0}")
    house.run("daemon", "start")
    return house


@pytest.mark.req("FR-CLI-007")
def test_verbose_shows_the_steps_and_the_requests_wherever_it_stands(idle: Coordinated) -> None:
    plain = idle.run("task", "list")
    assert plain.stderr == ""
    for args in (("-v", "task", "list"), ("task", "list", "--verbose"), ("--verbose", "task", "list", "-v")):
        done = idle.run(*args)
        assert done.stdout == plain.stdout
        steps = done.stderr.splitlines()
        assert all(line.startswith("corral: ") for line in steps)
        assert sum("GET /api/v1/tasks" in line and ": 200 in " in line for line in steps) == 1
        assert any(str(idle.root) in line for line in steps)
        assert not any(line.startswith("corral:   <") for line in steps)
    idle.run("daemon", "stop")
    assert "starting the daemon of" in idle.run("task", "submit", "-t", "x", "-c", "true", "-v").stderr


@pytest.mark.req("FR-CLI-007")
def test_debug_shows_what_was_asked_and_answered_without_any_secret(idle: Coordinated) -> None:
    submit = ("task", "submit", "--title", "x", "--command", f"echo {SECRET} {OF_ENVIRONMENT}")
    more = ("--metadata", json.dumps({"password": "open sesame"}), "--debug", "--json")
    done = idle.run(*submit, *more, SOME_TOKEN=OF_ENVIRONMENT)
    task = json.loads(done.stdout)
    assert 'corral:   >   "title": "x",' in done.stderr.splitlines()
    assert f'corral:   <   "task_id": "{task["task_id"]}",' in done.stderr.splitlines()
    assert "[redacted]" in done.stderr
    shown = idle.run("task", "detail", task["task_id"], "--debug", SOME_TOKEN=OF_ENVIRONMENT)
    for errors in (done.stderr, shown.stderr):
        assert not any(word in errors for word in (SECRET, OF_ENVIRONMENT, "open sesame"))
    hostile = idle.json("task", "submit", "--title", "\x1b[31mred", "--command", "true")["task_id"]
    assert "\x1b" not in idle.run("task", "detail", hostile, "--debug").stderr


@pytest.mark.req("FR-CLI-006", "FR-CLI-007")
def test_a_stack_is_shown_to_those_who_ask(idle: Coordinated, capsys: pytest.CaptureFixture[str]) -> None:
    for args in (("task", "detail", "none"), ("task", "lst")):
        assert "Traceback" not in idle.run(*args, check=False).stderr
    assert "Traceback" in idle.run("task", "detail", "none", "--debug", check=False).stderr

    def breaks() -> int:
        return len(None)  # type: ignore[arg-type]

    assert guarded(breaks, as_json=False, debug=lambda: False) == 1
    errors = capsys.readouterr().err
    assert (
        errors.startswith("error: Unexpected error: TypeError: ") and "--debug" in errors and "Traceback" not in errors
    )
    assert guarded(breaks, as_json=False, debug=lambda: True) == 1
    assert "in breaks\n" in capsys.readouterr().err


def test_only_errors_are_json_where_json_is_asked_for(idle: Coordinated) -> None:
    done = idle.run("task", "detail", "none", "--json", "-v", check=False)
    *steps, error = done.stderr.splitlines()
    assert all(step.startswith("corral: ") for step in steps)
    assert json.loads(error)["error"]["name"] == "not_found"
