"""The team in a running daemon: taken over when its file changes, and found by role and by capability."""

from __future__ import annotations

import pytest

from tests.coordinated import Coordinated, eventually
from tests.integration.mcp.client import Agent, play

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
    assert refused.returncode == 2 and "agents[1].role: is required" in refused.stderr
    assert "teams.yaml" in house.run("status").stdout
    listed = house.run("team", "list")
    assert "Boulder" in listed.stdout and "agents[1].role" in listed.stderr

    file.write_text(TEAM.replace("Boulder", "Pebble"))
    eventually(lambda: names(house) == ["Sisyphus", "Pebble"])
    assert house.ask("GET", "/teams")["error"] is None
    assert house.json("team", "validate") == {"valid": True, "errors": []}
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
        (found,) = (await boss.call("discover_agents", capability="python"))["agents"]
        assert found["agent_id"] == "Boulder"

    play(house, scene, agents=2, profile="full")
