"""Tasks that name an agent, carried out by the real client: its definition holds, wherever that is from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import worktrees_of
from tests.e2e.stage import Request, Step, bash, script, text, tool
from tests.e2e.team import Team
from tests.support.files import put

pytestmark = pytest.mark.e2e
WORKER_PROMPT = "You work on one task of a batch"


@pytest.fixture
def crew(start_team: Callable[..., Team], claude: Path) -> Team:
    """A repository whose workers are the real client."""
    return start_team(config=yaml.safe_dump({"runners": {"claude": {"command": str(claude), "model": "opus"}}}))


def define(team: Team, name: str, front: str, body: str) -> None:
    put(
        team.repo / ".claude" / "agents" / f"{name}.md",
        f"---\nname: {name}\ndescription: Use when: there is need\n{front}\n---\n\n{body}\n",
    )
    team.house.trust()


def carried_out(team: Team, agent: str, *steps: Step) -> tuple[dict[str, Any], list[Request]]:
    """The task as it ended, and what its worker asked the model."""
    prompt = script(*steps, text("Done."), say=f"As {agent}.")
    task_id = team.house.json("task", "submit", "--title", "t", "--agent", agent, "--prompt", prompt)["task_id"]
    assert team.house.json("wait", task_id, "--timeout", "100", timeout_s=120)["done"]
    asked = [request for request in team.stage.requests if f"As {agent}." in json.dumps(request.body["messages"])]
    return team.house.json("task", "detail", task_id), asked


def system(request: Request) -> str:
    return json.dumps(request.body["system"])


def test_a_definition_that_is_in_no_commit_holds_in_the_worktree(crew: Team) -> None:
    """Its text, its model and its tools; that it asks for a worktree, and for every permission, changes nothing."""
    front = "tools: Read, Bash\nmodel: haiku\nisolation: worktree\npermissionMode: bypassPermissions"
    define(crew, "scribe", front, "You are the scribe.")
    stolen = crew.repo / "stolen.txt"
    task, asked = carried_out(
        crew,
        "scribe",
        tool("Write", file_path="$CWD/a.txt", content="x", if_denied=[bash("echo by bash > a.txt")]),
        tool("Write", file_path=str(stolen), content="x"),
    )
    assert (task["status"], task["merge"]["state"], task["result"]["model"]) == (
        "completed",
        "landed",
        asked[0].body["model"],
    )
    assert "haiku" in asked[0].body["model"]
    assert "You are the scribe." in system(asked[0]) and WORKER_PROMPT in system(asked[0])
    assert {"Read", "Bash"} <= set(asked[0].tools) and not {"Write", "Edit", "Agent"} & set(asked[0].tools)
    assert {Path(request.cwd).parent for request in asked} == {worktrees_of(crew.repo)}
    assert not stolen.exists()


@pytest.mark.req("DELEGATE-1")
def test_the_plugins_own_agents_have_its_tools_and_the_opencode_builder_a_claude_model(crew: Team) -> None:
    """Inside Claude Code it runs on the model that its definition names for that."""
    prompt = script(
        tool("mcp__plugin_corral_corral__discover_agents"),
        tool("Skill", skill="corral:task-execution"),
        tool("Write", file_path="$CWD/b.txt", content="x"),
        text("Done."),
        say="As a builder.",
    )
    crew.house.run("init", "--yes", "--with-opencode", "--no-check")
    flags = ("--agent", "OpenCode-Builder", "--runner", "claude")
    task_id = crew.house.json("task", "submit", "--title", "t", *flags, "--prompt", prompt)["task_id"]
    assert crew.house.json("wait", task_id, "--timeout", "100", timeout_s=120)["done"]
    asked = [request for request in crew.stage.requests if "As a builder." in json.dumps(request.body["messages"])]
    results = asked[-1].result_texts
    assert '"agents"' in results[0] and "task-execution" in results[1] and "b.txt" in results[2]
    assert "sonnet" in asked[0].body["model"]
    assert "in your own isolated worktree" in system(asked[0])
    assert crew.house.json("task", "detail", task_id)["merge"]["state"] == "landed"
    (worker,) = [row for row in crew.sessions() if row["task_id"] == task_id]
    assert worker["parent_session_id"] is None and worker["status"] == "disconnected"


@pytest.mark.req("TEAM-1")
def test_a_member_of_the_team_keeps_the_clients_own_prompt_and_is_told_what_the_team_says(crew: Team) -> None:
    member = {"name": "Boulder", "role": "builder", "capabilities": ["python"], "description": "Does it."}
    agents = {"agents": [{**member, "runner": "claude", "model": "sonnet", "instructions": "Speak of stones."}]}
    (crew.repo / ".corral" / "teams.yaml").write_text(yaml.safe_dump(agents))
    crew.until(lambda: "Boulder" in {agent["name"] for agent in crew.house.ask("GET", "/agents")})
    task, asked = carried_out(crew, "Boulder", tool("Write", file_path="$CWD/c.txt", content="x"))
    assert task["merge"]["state"] == "landed"
    assert "sonnet" in asked[0].body["model"] and {"Write", "Edit", "Agent"} <= set(asked[0].tools)
    assert "Speak of stones." in system(asked[0]) and WORKER_PROMPT in system(asked[0])
