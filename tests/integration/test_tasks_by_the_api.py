"""Tasks that the Messages API carries out, from submission to the target, with the real daemon and a scripted API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import git
from tests.coordinated import Coordinated, eventually
from tests.e2e.stage import Stage, script, text, tool

KEY = "sk-ant-test-0123456789-not-a-real-key"


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


def landed(house: Coordinated, task_id: str) -> dict[str, Any]:
    """The task, once its merge is settled."""

    def settled() -> dict[str, Any] | None:
        shown: dict[str, Any] = house.ask("GET", f"/tasks/{task_id}/detail")
        state = (shown["merge"] or {}).get("state")
        return shown if state == "landed" or shown["status"] in ("failed", "cancelled") else None

    shown: dict[str, Any] = eventually(settled)
    assert shown["merge"] and shown["merge"]["state"] == "landed", shown
    return shown


@pytest.fixture
def keyed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """The scripted API, as a daemon started from now on knows it."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", stage.url)
    return stage


def test_a_task_of_the_messages_api_lands(keyed: Stage, house: Coordinated) -> None:
    prompt = script(tool("write_file", file_path="hello.txt", content="hello\n"), text("Said hello."))
    words = ("--runner", "anthropic", "--title", "Say hello", "--prompt", prompt, "--max-turns", "5")
    shown = landed(house, str(house.json("task", "submit", *words)["task_id"]))
    assert git(house.root, "show", "main:hello.txt") == "hello"
    assert (shown["runner"], shown["usage"]["turns"]) == ("anthropic", 2)
    assert keyed.requests[0].body["model"] == "claude-sonnet-5-5"


def test_an_agent_can_have_this_runner(keyed: Stage, house: Coordinated) -> None:
    file = house.root / ".claude/agents/scribe.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        "---\nname: Scribe\ndescription: Writes.\nrunner: anthropic\nmodel: opus\ntools: Write\n---\n\nWrite it well.\n"
    )
    house.trust()
    prompt = script(tool("write_file", file_path="hello.txt", content="hello\n"), text("Done."))
    landed(
        house,
        str(house.json("task", "submit", "--agent", "Scribe", "--title", "Say hello", "--prompt", prompt)["task_id"]),
    )
    request = keyed.requests[0]
    assert (request.body["model"], request.tools) == ("claude-opus-5-5", ["write_file"])
    assert request.body["system"][0]["text"].startswith("Write it well.")


def test_without_a_key_a_task_is_refused_when_it_is_submitted(house: Coordinated) -> None:
    refused = house.run("task", "submit", "--runner", "anthropic", "--title", "x", "--prompt", "x", check=False)
    assert refused.returncode != 0
    assert "ANTHROPIC_API_KEY is not set" in refused.stderr and "corral daemon restart" in refused.stderr
    wrong = house.run("task", "submit", "--runner", "anthropic", "--title", "x", "--command", "true", check=False)
    assert "the runner anthropic needs a prompt" in wrong.stderr
