"""Who did what is on record: tool calls, requests and what became of them; in a chain that shows what was done to it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from corral.config.account import user_name
from tests.support.coordinated import Coordinated, denied, eventually

KEY = "sk-ant-api03-0123456789-abcdefghij"


@pytest.fixture
def house(coordinate: Callable[..., Coordinated]) -> Coordinated:
    return coordinate(config="tasks: {max_retries: 0}")


def lines(house: Coordinated, *args: str) -> list[dict[str, Any]]:
    return list(reversed(house.json("audit", *args)))


@pytest.mark.req("FR-MONITOR-004")
def test_what_agents_and_people_do_is_on_record_and_stays_whole(house: Coordinated) -> None:
    house.hook("SessionStart", "one", source="startup")
    house.hook("SessionStart", "two", source="startup")
    edit: dict[str, Any] = {
        "tool_name": "Edit",
        "tool_input": {"file_path": str(house.root / "a.txt"), "old_string": "x" * 300},
    }
    bash: dict[str, Any] = {
        "tool_name": "Bash",
        "tool_input": {"command": f"curl -H 'Authorization: Bearer {KEY}' example.org"},
    }
    house.hook("PreToolUse", "one", tool_use_id="u1", **edit)
    house.hook("PostToolUse", "one", tool_use_id="u1", **edit)
    house.hook("PostToolUse", "one", tool_use_id="u1", **edit)  # the plugin is loaded twice
    assert denied(house.hook("PreToolUse", "two", tool_use_id="u2", **edit))
    house.hook("PostToolUseFailure", "one", tool_use_id="u3", error="Exit code 3", **bash)
    read = {"tool_name": "Read", "tool_input": {"file_path": "/etc/hosts"}, "tool_response": "127.0.0.1 localhost"}
    calls = [{**read, "tool_use_id": "u4"}, {**bash, "tool_use_id": "u3"}]
    house.hook("PostToolBatch", "one", tool_calls=calls)
    task = house.carry_out("fails", f"TOKEN={KEY} exit 3", check=False)
    house.run("task", "cancel", task, check=False, CORRAL_SESSION_ID="two")
    assert "error" not in house.ask("POST", "/tasks/claim", {"session_id": "one"})
    house.ask("POST", "/locks/acquire", {"session_id": "one", "paths": ["b.txt"]})
    house.ask(
        "POST", "/messages", {"session_id": "one", "to": ["two"], "subject": "Hush", "body": "for your eyes only"}
    )
    (house.root / ".corral" / "local.yaml").write_text("locks: {ttl_s: 77}\n")
    eventually(lambda: lines(house, "--action", "config.change"))

    agent_name = house.ask("GET", "/sessions/one")["agent_name"]
    tools = [(line["agent_id"], line["action"], line["result"]) for line in lines(house, "--action", "tool")]
    denial = tools[1][2].pop("error")
    assert tools == [
        (agent_name, "tool.Edit", {"status": "ok"}),
        (house.ask("GET", "/sessions/two")["agent_name"], "tool.Edit", {"status": "denied"}),
        (agent_name, "tool.Bash", {"status": "failed", "error": "Exit code 3"}),
        (agent_name, "tool.Read", {"status": "called"}),
    ]
    assert agent_name in denial
    (letter,) = lines(house, "--action", "message.send")
    assert letter["parameters"]["body"] == "(18 characters)" and letter["parameters"]["subject"] == "Hush"
    assert "eyes only" not in str(lines(house))
    of_task = {line["action"]: line for line in lines(house, "--task", task[:8], "--since", "1h")}
    assert {"task.submit", "task.submitted", "task.claimed", "task.started", "task.dead", "task.cancel"} <= set(of_task)
    assert of_task["task.submit"]["agent_id"] == user_name() and of_task["task.dead"]["result"]["status"] == "failed"
    cancel = of_task["task.cancel"]
    assert (cancel["session_id"], cancel["result"]["error"]["name"]) == ("two", "conflict")
    wanted = {"timestamp", "agent_id", "task_id", "action", "parameters", "result"}
    assert all(wanted <= set(line) for line in lines(house))
    assert [line["action"] for line in lines(house, "--agent", agent_name.lower(), "--action", "task")] == [
        "task.claim"
    ]
    (change,) = lines(house, "--action", "config.change")
    assert change["parameters"] == {"locks.ttl_s": {"from": 3600, "to": 77}}
    (acquired,) = lines(house, "--action", "lock.acquire")
    assert set(acquired["parameters"]) >= {"session_id", "paths"} and "headers" not in acquired["parameters"]
    newest = house.json("audit", "--limit", "3")
    assert [line["seq"] for line in newest] == sorted((line["seq"] for line in newest), reverse=True)
    assert house.run("audit").stdout.count("tool.Edit") == 2
    house.run("audit", "--verify")

    house.stop()
    exported = house.root / ".corral" / "state" / "analytics" / "audit.jsonl"
    assert KEY not in exported.read_text() and '"tool.Bash"' in exported.read_text()
    with closing(sqlite3.connect(house.root / ".corral" / "corral.db")) as raw:
        raw.execute("DROP TRIGGER audit_lines_changed")
        raw.execute("UPDATE audit_lines SET agent_id = 'Somebody' WHERE seq = 2")
        raw.commit()
    broken = house.run("audit", "--verify", "--json", check=False)
    assert broken.returncode == 1
    assert [problem["seq"] for problem in json.loads(broken.stdout)["problems"]] == [2]
