"""The team in a running daemon: taken over when its file changes, and found by role and by capability."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.mcp.client import Agent, play
from tests.support.coordinated import Coordinated, eventually, told

TEAM = """\
agents:
  - {name: Sisyphus, role: coordinator, capabilities: [planning], description: Hands out the work.}
  - {name: Boulder, role: builder, capabilities: [python], description: Does it.}
"""


def names(house: Coordinated) -> list[str]:
    return [agent["name"] for agent in house.ask("GET", "/teams")["agents"]]


@pytest.mark.req("TEAM-1", "TEAM-2")
def test_a_changed_file_is_taken_over_and_a_broken_one_told_and_not_taken(house: Coordinated) -> None:
    file = house.root / ".corral" / "teams.yaml"
    assert house.run("team", "validate", check=False).returncode == 3
    assert "no team" in house.run("team", "list").stdout
    file.write_text(TEAM)
    eventually(lambda: names(house) == ["Sisyphus", "Boulder"])
    assert "coordinator" in house.run("team", "list").stdout

    file.write_text(TEAM.replace("role: builder", "rule: builder"))
    eventually(lambda: house.ask("GET", "/teams")["error"])
    assert names(house) == ["Sisyphus", "Boulder"]
    checked = house.ask("GET", "/teams/validation")
    assert checked["valid"] is False
    assert {"field": "agents[1].role", "reason": "is required"} in checked["errors"]
    refused = house.run("team", "validate", check=False)
    assert refused.returncode == 2 and refused.stderr.count("agents[1].role: is required") == 1
    assert "teams.yaml" in house.run("status").stdout
    listed = house.run("team", "list")
    assert "Boulder" in listed.stdout and "agents[1].role" in listed.stderr

    file.write_text(TEAM.replace("Boulder", "Pebble"))
    eventually(lambda: names(house) == ["Sisyphus", "Pebble"])
    assert house.ask("GET", "/teams")["error"] is None
    assert house.json("team", "validate") == {"valid": True, "errors": [], "warnings": []}
    file.unlink()
    eventually(lambda: names(house) == [])


@pytest.mark.req("TEAM-1")
def test_a_role_is_a_recipient_and_the_teams_capabilities_are_found(house: Coordinated) -> None:
    (house.root / ".corral" / "teams.yaml").write_text(TEAM)
    eventually(lambda: names(house))

    async def scene(boss: Agent, worker: Agent) -> None:
        for agent, name in ((boss, "Sisyphus"), (worker, "Boulder")):
            assert (await agent.call("register_session", agent_name=name))["agent_name"] == name
        sent = await boss.call(
            "send_message",
            project_key=str(house.root),
            sender_name="Sisyphus",
            to=["builder"],
            subject="Begin",
            body_md="Now.",
        )
        assert "mcp_error" not in sent
        inbox = await worker.call("fetch_inbox", project_key=str(house.root), agent_name="Boulder")
        messages = inbox if isinstance(inbox, list) else inbox.get("messages", inbox.get("result"))
        assert [message["subject"] for message in messages] == ["Begin"]
        (builder,) = (await boss.call("discover_agents", capability="python"))["agents"]
        assert builder["agent_id"] == "Boulder"
        asked = {"task_type": "build", "description": "Build it.", "agent_requirements": {"capabilities": ["Python"]}}
        task_id = (await boss.call("submit_work", **asked))["task_id"]
        assert (await boss.call("get_work"))["success"] is False
        assert (await worker.call("get_work"))["task_id"] == task_id

    play(house, scene, agents=2, profile="full")


@pytest.mark.req("TEAM-1")
def test_mail_to_a_member_or_its_role_reaches_the_workers_that_do_its_tasks(house: Coordinated) -> None:
    (house.root / ".corral" / "teams.yaml").write_text(TEAM)
    eventually(lambda: names(house))
    gate = house.root.parent / "gate"

    def write(to: str, subject: str) -> list[str]:
        sent = house.json("message", "send", to, subject, "Now.")
        assert sent["bounced"] == []
        return sorted(recipient["session_id"] for recipient in sent["recipients"])

    def begin(title: str, ends: str) -> dict[str, Any]:
        command = f"while ! [ -e {gate} ]; do sleep 0.05; done; {ends}"
        submitted = house.json(
            "task", "submit", "--title", title, "--agent", "boulder", "--command", command, "--retries", "0"
        )
        mine = submitted["task_id"]
        sessions = eventually(lambda: [row for row in house.ask("GET", "/sessions") if row["task_id"] == mine])
        return dict(sessions[0])

    def hears(worker: dict[str, Any]) -> list[str]:
        answer = house.hook("PostToolBatch", worker["session_id"], Path(worker["worktree"]))
        return [part.partition('"')[0] for part in told(answer).split(' subject="')[1:]]

    (seat,) = write("Boulder", "Before")
    well = begin("Well", "true")
    assert hears(well) == ["Before"] and well["names"] == ["Boulder"]
    ill = begin("Ill", "false")
    both = sorted(session["session_id"] for session in (well, ill))
    assert (write("boulder", "By name"), write("builder", "By role")) == (both, both)
    assert write(ill["agent_name"], "To itself") == [ill["session_id"]]
    assert house.json("session", "show", "Boulder")["session_id"] in both
    assert hears(ill) == ["By name", "By role", "To itself"]
    gate.touch()
    assert house.run("wait", well["task_id"], ill["task_id"], check=False).returncode == 1
    lost = eventually(lambda: [row for row in house.json("message", "inbox") if row["kind"] == "message.bounced"])
    assert [row["subject"] for row in lost] == ["Not delivered: To itself"]
    assert write("Boulder", "After") == [seat]
    gate.unlink()
    assert hears(begin("Again", "true")) == ["By name", "By role", "After"]
    gate.touch()


@pytest.mark.req("TEAM-1", "TEAM-2")
def test_runner_and_model_are_shown_and_who_could_not_start_here(house: Coordinated) -> None:
    team = """\
agents:
  - {name: Boulder, role: builder, capabilities: [python], description: Does it., runner: opencode, model: m/x}
  - {name: Hill, role: builder, capabilities: [], description: Does it too., runner: opencod}
  - {name: Sand, role: tester, capabilities: [], description: Runs commands., runner: command}
"""
    (house.root / ".corral" / "teams.yaml").write_text(team)
    eventually(lambda: len(names(house)) == 3)
    assert "`corral init --with-opencode` writes the agent" in house.run("team", "list").stdout
    house.run("init", "--yes", "--with-opencode")
    listed = house.run("team", "list").stdout
    (boulder,) = (line for line in listed.splitlines() if line.startswith("Boulder  "))
    assert boulder.split()[:5] == ["Boulder", "builder", "opencode", "m/x", "python"]
    missing = "Boulder cannot start here: The program 'opencode' was not found."
    unknown = "there is no runner 'opencod'; there are: command, claude, anthropic, opencode"
    assert missing in listed and unknown in listed and "Sand cannot" not in listed
    rows = house.json("team", "list")["agents"]
    assert [(row["runner"], row["role"], row["problem"] is None) for row in rows] == [
        ("opencode", "builder", False), ("opencod", "builder", False), ("command", "tester", True),
    ]  # fmt: skip

    answer = house.json("team", "validate")
    assert (answer["valid"], [warning["field"] for warning in answer["warnings"]]) == (True, ["agents[0]", "agents[1]"])
    words = house.run("team", "validate").stdout
    assert missing in words and unknown in words
    assert "The team is valid: Boulder (opencode m/x), Hill (opencod), Sand (command)." in words


def test_everybody_whom_a_task_can_name_is_listed_and_shown(house: Coordinated) -> None:
    house.run("init", "--yes", "--with-opencode")
    folder = house.root / ".claude" / "agents"
    (folder / "scribe.md").write_text("---\nname: scribe\ndescription: Use it.\nmodel: haiku\n---\nWrite.\n")
    (folder / "broken.md").write_text("---\nname: broken\n---\nWrite.\n")
    (folder / "README.md").write_text("Our agents.\n")
    rows = {row["name"]: row for row in house.json("agent", "list")}
    assert list(rows) == [
        "OpenCode-Builder",
        "broken",
        "scribe",
        "implementer",
        "orchestrator",
        "researcher",
        "resolver",
        "reviewer",
    ]
    assert (rows["scribe"]["source"], rows["scribe"]["runner"], rows["scribe"]["model"]) == (
        "project",
        "claude",
        "haiku",
    )
    assert "description: is required" in rows["broken"]["problem"]
    listed = house.run("agent", "list").stdout
    assert "broken cannot start here" in listed and "google/gemini-3-flash" in listed
    shown = house.run("agent", "show", "opencode-builder").stdout
    assert "opencode run --model google/gemini-3-flash --auto" in shown and "'opencode' was not found" in shown
    unknown = house.run("agent", "show", "nobody", check=False)
    assert unknown.returncode == 3 and "scribe" in unknown.stderr
