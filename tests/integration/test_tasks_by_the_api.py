"""Tasks that the Messages API carries out, from submission to the target, with the real daemon and a scripted API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import git
from tests.e2e.stage import Stage, script, text, tool
from tests.support.coordinated import Coordinated, eventually
from tests.support.files import put

KEY = "sk-ant-test-0123456789-not-a-real-key"


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


def test_a_task_of_the_messages_api_lands_and_an_agent_can_have_this_runner(keyed: Stage, house: Coordinated) -> None:
    prompt = script(tool("write_file", file_path="hello.txt", content="hello\n"), text("Said hello."))
    words = ("--runner", "anthropic", "--title", "Say hello", "--prompt", prompt, "--max-turns", "5")
    shown = landed(house, str(house.json("task", "submit", *words)["task_id"]))
    assert git(house.root, "show", "main:hello.txt") == "hello"
    assert (shown["runner"], shown["usage"]["turns"]) == ("anthropic", 2)
    assert keyed.requests[0].body["model"] == "claude-sonnet-5-5"

    put(
        house.root / ".claude/agents/scribe.md",
        "---\nname: Scribe\ndescription: Writes.\nrunner: anthropic\nmodel: opus\ntools: Write\n---\n\nWrite it well.\n",
    )
    house.trust()
    prompt = script(tool("write_file", file_path="bye.txt", content="bye\n"), text("Done."))
    landed(
        house,
        str(house.json("task", "submit", "--agent", "Scribe", "--title", "Say bye", "--prompt", prompt)["task_id"]),
    )
    request = keyed.requests[-1]
    assert (request.body["model"], request.tools) == ("claude-opus-5-5", ["write_file"])
    assert request.body["system"][0]["text"].startswith("Write it well.")


def test_without_a_key_a_task_is_refused_when_it_is_submitted(house: Coordinated) -> None:
    refused = house.run("task", "submit", "--runner", "anthropic", "--title", "x", "--prompt", "x", check=False)
    assert refused.returncode != 0
    assert "ANTHROPIC_API_KEY is not set" in refused.stderr and "corral config set-key" in refused.stderr
    wrong = house.run("task", "submit", "--runner", "anthropic", "--title", "x", "--command", "true", check=False)
    assert "the runner anthropic needs a prompt" in wrong.stderr


@pytest.mark.req("SUP-FR5")
def test_what_a_task_requires_finds_its_agent_whose_tools_and_limits_hold(keyed: Stage, house: Coordinated) -> None:
    prompt = script(tool("write_file", file_path="x.txt", content="x"), text("It is so."))
    words = ("--runner", "anthropic", "--title", "Why?", "--prompt", prompt, "--requires", "Research")
    task_id = str(house.json("task", "submit", *words)["task_id"])
    assert house.json("wait", task_id, "--timeout", "60")["done"]
    first, second = keyed.requests
    assert set(first.tools) == {"read_file", "list_files", "search", "run_command"}
    assert "You answer one question." in str(first.body["system"])
    assert "There is no tool write_file" in str(second.results), "and none is lent for the asking"
    assert house.json("task", "detail", task_id)["attempt_history"][0]["agent"] == "researcher"

    put(
        house.root / ".claude" / "agents" / "brief.md",
        "---\nname: brief\ndescription: d\nrunner: anthropic\nmodel: haiku\nlimits: {max_turns: 1}\n---\nBe brief.\n",
    )
    words = ("--agent", "brief", "--title", "Too long", "--prompt", prompt, "--retries", "0")
    task_id = str(house.json("task", "submit", *words)["task_id"])
    house.run("wait", task_id, "--timeout", "60", check=False)
    assert house.json("task", "detail", task_id)["error_code"] == "max_turns"
    assert "haiku" in keyed.requests[-1].body["model"]


@pytest.mark.req("FR-CONFIG-004")
def test_the_doctor_looks_for_the_key_where_the_runner_is_used_and_never_prints_it(
    house: Coordinated, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> list[tuple[str, str]]:
        done = house.run("doctor", "--json", check=False)
        assert KEY not in done.stdout + done.stderr
        return [
            (check["status"], check["message"]) for check in json.loads(done.stdout) if check["check"] == "anthropic"
        ]

    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    assert told() == [], "nothing uses it"
    file = put(
        house.root / ".claude" / "agents" / "brief.md",
        "---\nname: brief\ndescription: d\nrunner: anthropic\n---\nBe brief.\n",
    )
    ((status, message),) = told()
    assert status == "error" and "needs an API key" in message and "used by brief" in message
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    house.run("daemon", "restart")
    assert told() == [("ok", "the daemon has a key; used by brief")]
    file.unlink()
    house.configure("runners: {anthropic: {model: opus}}\n")
    assert eventually(told) == [("ok", "the daemon has a key; used by runners.anthropic.model")]
