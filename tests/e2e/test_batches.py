"""A batch as the documents describe it, by the real client: delegated in one response."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import commit_all, git
from tests.e2e.stage import Step, bash, script, text, together, tool
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e


def corral(name: str, /, **arguments: Any) -> Step:
    return tool(f"mcp__plugin_corral_corral__{name}", **arguments)


@pytest.mark.req("DELEGATE-1")
def test_all_delegations_of_one_response_run_at_once_each_in_a_worktree_of_its_own(team: Team, tmp_path: Path) -> None:
    team.house.run("init", "--yes", "--with-opencode", "--no-check")
    commit_all(team.repo, "Coordinate", ".claude", ".corral")
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
