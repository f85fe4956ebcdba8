"""A batch as the documents describe it, by the real client: registered, delegated in one response, told of each piece."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import git
from tests.e2e.stage import Step, bash, script, text, together, tool
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e
BATCH = "batch-7"


def corral(name: str, /, **arguments: Any) -> Step:
    return tool(f"mcp__plugin_corral_corral__{name}", **arguments)


@pytest.mark.req("REGISTER-1", "MESSAGE-1")
def test_sisyphus_registers_as_coordinator_and_is_told_of_every_piece_of_its_batch(team: Team) -> None:
    team.env["CORRAL_MCP_PROFILE"] = "full"
    sisyphus = team.member("--agent", "corral:orchestrator")
    told = sisyphus.do(
        corral("ensure_project", human_key="$CWD"),
        corral(
            "register_agent", project_key="$CWD", program="claude-code", model="m", name="Sisyphus",
            task_description="Orchestrator - Batch 7",
        ),
    )  # fmt: skip
    assert f'"human_key":"{team.repo}"' in told and '"task_description":"Orchestrator - Batch 7"' in told
    shown = team.house.json("session", "show", "Sisyphus")
    assert (shown["session_id"], shown["current_task"]) == (sisyphus.session_id, "Orchestrator - Batch 7")
    coder = team.member()
    told = coder.do(
        corral("discover_agents"), corral("send_message", to=["Sisyphus"], subject="Where do I begin?", body_md="x")
    )
    assert '"current_task":"Orchestrator - Batch 7"' in told, "the others know who coordinates, and what"

    pieces = ("one.txt", "two.txt")
    told = sisyphus.do(
        together(
            *(
                corral(
                    "submit_work", task_type="build", description=f"Make {piece}", command=f"echo x > {piece}",
                    thread_id=BATCH,
                )
                for piece in pieces
            )
        )
    )  # fmt: skip
    assert "Where do I begin?" in told, "the name is an address"
    tasks = {row["title"].removeprefix("Make "): row["task_id"] for row in team.house.json("task", "list")}
    team.house.run("wait", *tasks.values(), "--timeout", "60", timeout_s=90)

    def letters() -> list[dict[str, Any]]:
        inbox = team.house.ask("GET", "/messages", query={"session_id": sisyphus.session_id, "limit": 100})
        return [row for row in inbox if row["kind"] == "task.completed"]

    team.until(lambda: len(letters()) == len(pieces))
    told = sisyphus.do(bash("true"))
    for piece in pieces:
        head = git(team.repo, "log", "--no-merges", "--format=%H", f"--grep=Corral-Task: {tasks[piece]}", "main")
        assert re.search(rf"Task complete: Make {piece}", told)
        for fact in (f"Task ID: {tasks[piece]}", f"Commit SHA: {head}", f"- {piece}"):
            assert f"| {fact}" in told, told
    assert len(re.findall(r"\| Duration \(s\): [0-9.]+", told)) == len(pieces)
    assert {(row["importance"], row["thread_id"]) for row in letters()} == {("normal", BATCH)}


@pytest.mark.req("DELEGATE-1")
def test_all_delegations_of_one_response_run_at_once_each_in_a_worktree_of_its_own(team: Team, tmp_path: Path) -> None:
    team.house.run("init", "--yes", "--with-opencode", "--no-check")
    git(team.repo, "add", ".claude", ".corral")
    git(team.repo, "commit", "-q", "-m", "Coordinate")
    (meeting := tmp_path / "meeting").mkdir()

    def delegate(mine: str, other: str) -> Step:
        met = f"[ -e {meeting}/{other} ] && echo met && break"
        steps = [
            bash(f"touch {meeting}/{mine}; for n in $(seq 300); do {met}; sleep 0.1; done"),
            tool("Write", file_path="same.md", content=f"{mine}\n"),
            bash("git add same.md && git commit -q -m Same -- same.md; git rev-parse HEAD --show-toplevel"),
            text(f"Built {mine}."),
        ]
        prompt = script(*steps, say=f"Build {mine}. Follow the skill /task-execution.")
        return tool("Agent", description=mine, prompt=prompt, subagent_type="OpenCode-Builder", run_in_background=False)

    run = team.run(
        tool("Skill", skill="corral:delegating-a-batch"),
        together(delegate("one", "two"), delegate("two", "one")),
        flags=("--allowedTools", "Agent"),
    )
    assert run.exit_code == 0
    chief = next(r for r in team.stage.requests if r.step and "together" in r.step)
    asked = "\n".join([*chief.texts, *chief.result_texts])
    for words in (
        "Hand all of them over in one response",
        "all calls in the same message",
        'task(subagent_type="OpenCode-Builder", …)',
        "Follow the skill `/task-execution`; work only in your own isolated worktree.",
    ):
        assert words in " ".join(asked.split()), "what the model was told before it delegated"
    places = set()
    for name in ("one", "two"):
        last = next(r for r in team.stage.requests if r.step == {"text": f"Built {name}."})
        met, written, (*_, head, place) = last.result_texts[0], last.result_texts[1], last.result_texts[2].split()
        assert met.strip() == "met", "the other one was at work meanwhile"
        assert git(team.repo, "show", f"{head}:same.md") == name, written
        assert "in your own isolated worktree" in "\n".join(last.texts)
        assert "sonnet" in last.body["model"]
        places.add(place)
    assert len(places) == 2 and str(team.repo) not in places
    assert not (team.repo / "same.md").exists()
