"""Tasks that the real client carries out as the supervisor's worker, from submission to the verified target."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import git
from tests.e2e.client import run_client
from tests.e2e.stage import bash, bash_until, script, text, tool
from tests.e2e.team import Team

pytestmark = pytest.mark.e2e
StartTeam = Callable[..., Team]


@pytest.fixture
def crew(start_team: StartTeam, claude: Path) -> Callable[..., Team]:
    """A repository whose workers are the real client: ``crew(verify=…, tasks={…})``."""

    def start(*, verify: tuple[str, ...] = ("true",), **sections: Any) -> Team:
        settings = {"runners": {"claude": {"command": str(claude)}}, "supervisor": {"max_agents": 4}, **sections}
        return start_team(verify=verify, config=yaml.safe_dump(settings))

    return start


def submit(team: Team, title: str, *steps: dict[str, Any], flags: tuple[str, ...] = ()) -> str:
    prompt = script(*steps, text(f"{title}: done."))
    return str(team.house.json("task", "submit", "--title", title, "--prompt", prompt, *flags)["task_id"])


def detail(team: Team, task_id: str) -> dict[str, Any]:
    task: dict[str, Any] = team.house.json("task", "detail", task_id)
    return task


def test_four_workers_land_four_branches_on_a_verified_target(crew: Callable[..., Team], claude: Path) -> None:
    team = crew(verify=("test -f README.md && ls part-*.txt",))
    meeting = team.repo.parent / "meeting"
    meeting.mkdir()
    everybody = bash_until(f"[ $(ls {meeting} | wc -l) = 4 ]", first=f"touch {meeting}/$$")
    ids = [
        submit(
            team,
            f"Part {number}",
            tool("Write", file_path=f"$CWD/part-{number}.txt", content=f"{number}\n"),
            everybody,
            *([bash(f"git add part-{number}.txt && git commit -qm 'Part {number} by hand'")] if number % 2 else []),
        )
        for number in range(4)
    ]
    assert team.house.json("wait", *ids, "--timeout", "120", timeout_s=150)["done"]
    assert (
        git(team.repo, "ls-tree", "--name-only", "main", "--", *(f"part-{n}.txt" for n in range(4))).count("part") == 4
    )
    for number, task_id in enumerate(ids):
        shown = detail(team, task_id)
        merge = shown["merge"]
        assert (shown["status"], merge["state"]) == ("completed", "landed")
        assert merge["receipt"]["status"] in ("passed", "covered")
        assert shown["usage"]["turns"] == 4 if number % 2 else 3
        assert shown["usage"]["input_tokens"] == 100 * shown["usage"]["turns"]
        assert shown["usage"]["output_tokens"] > 0
        git(team.repo, "merge-base", "--is-ancestor", merge["landed_sha"], "main")
    log = team.house.run("task", "logs", ids[0]).stdout.splitlines()
    assert (
        any(line.startswith("> Write ") for line in log)
        and "Part 0: done." in log
        and log[-1].startswith("-- turn ended")
    )
    assert not any(line.startswith("{") for line in log)
    assert json.loads(team.house.run("task", "logs", ids[0], "--raw").stdout.splitlines()[0])["type"]
    again = team.house.json("attach", ids[0])
    assert again["created"] and (Path(again["worktree"]) / "part-0.txt").exists()
    resumed = run_client(
        claude, Path(again["worktree"]), script(text("More.")), team.env, "--resume", again["session_id"]
    )
    assert resumed.result["session_id"] == again["session_id"] and resumed.result["result"] == "More."
    assert "part-0.txt" in str(team.stage.requests[-1].body["messages"]), "its model knows what it did before"
    workers = [row for row in team.sessions() if row["task_id"] in ids]
    assert sorted(row["current_task"] for row in workers) == [f"Part {number}" for number in range(4)]
    assert len({row["worktree"] for row in workers}) == 4


def test_what_a_worker_writes_by_bash_into_the_main_checkout_is_found_saved_told_and_does_not_land(
    crew: Callable[..., Team],
) -> None:
    team = crew()
    person = team.member()
    person.do(tool("Write", file_path="$CWD/README.md.draft", content="a person's\n"))
    task_id = submit(
        team,
        "Stray",
        bash(f"echo stray > {team.repo}/stray.txt; echo stray >> {team.repo}/README.md.draft"),
        tool("Write", file_path="$CWD/own.txt", content="own\n"),
    )
    assert team.house.json("wait", task_id, "--timeout", "100", timeout_s=120)["done"]
    text = "\n".join(
        json.dumps(request.body["messages"]) for request in team.stage.requests if "Stray: done." in str(request.body)
    )
    assert "in another checkout" in text
    assert f"changed README.md.draft, which {person.name} holds" in text
    saved = git(team.repo, "for-each-ref", "--format=%(refname)", "refs/corral/salvage").splitlines()
    strays = [ref for ref in saved if "stray.txt" in git(team.repo, "ls-tree", "--name-only", ref).split()]
    assert any(ref in text for ref in strays), "others have the held files as they were before"
    assert git(team.repo, "ls-tree", "--name-only", "main").split() == ["README.md", "own.txt", "src"]
    assert (team.repo / "stray.txt").exists()
    (worker,) = [row for row in team.sessions() if row["task_id"] == task_id]
    assert f"{worker['agent_name']} changed README.md.draft by a shell command while you hold it" in person.do(
        bash("true")
    )
