"""Tasks that the real client carries out as the supervisor's worker, from submission to the verified target."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from corral.core.states import PHASES
from tests.conftest import git
from tests.e2e.client import run_client
from tests.e2e.stage import Stage, bash, bash_until, script, text, tool
from tests.e2e.team import Team
from tests.integration.planned import Plan
from tests.integration.test_phases import evidence

pytestmark = pytest.mark.e2e
StartTeam = Callable[..., Team]


@pytest.fixture
def crew(start_team: StartTeam, claude: Path) -> Callable[..., Team]:
    """A repository whose workers are the real client: ``crew(verify=…, tasks={…})``."""

    def start(*, verify: tuple[str, ...] = ("true",), **sections: Any) -> Team:
        told = {"runners": {"claude": {"command": str(claude)}}, "supervisor": {"max_agents": 4}, **sections}
        return start_team(verify=verify, config=yaml.safe_dump(told))

    return start


def submit(team: Team, title: str, *steps: dict[str, Any], flags: tuple[str, ...] = ()) -> str:
    prompt = script(*steps, text(f"{title}: done."))
    return str(team.house.json("task", "submit", "--title", title, "--prompt", prompt, *flags)["task_id"])


def detail(team: Team, task_id: str) -> dict[str, Any]:
    found: dict[str, Any] = team.house.json("task", "detail", task_id)
    return found


def recent(team: Team) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = team.house.ask("GET", "/status")["recent"]
    return found


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


@pytest.mark.slow("three workers in turn; test_combining has it without clients")
@pytest.mark.req("FR-SWARM-003")
def test_a_third_agent_makes_one_result_of_two_and_it_alone_lands(crew: Callable[..., Team]) -> None:
    team = crew()
    task_id = submit(
        team,
        "Page",
        tool("Write", file_path="$CWD/page.txt", content="a page\n"),
        flags=("--agents", "2", "--combine", "synthesize"),
    )
    assert team.house.json("wait", task_id, "--timeout", "150", timeout_s=170)["done"]
    shown = detail(team, task_id)
    assert (shown["status"], shown["merge"]["state"]) == ("completed", "landed")
    members = [detail(team, one) for one in shown["followers"]]
    assert [one["status"] for one in members] == ["completed"] * 2
    assert [one["merge"] for one in members] == [None, None], "what was combined is landed, not its parts"
    told = [text for request in team.stage.requests if "page.txt" in (text := json.dumps(request.body["messages"]))]
    kept = [one["result"]["contribution"] for one in members]
    assert any(all(f"branch {one['branch']}, commit {one['head_sha'][:12]}" in text for one in kept) for text in told)
    assert git(team.repo, "show", "main:page.txt") == "a page"
    workers = [row for row in team.sessions() if row["task_id"] in (task_id, *shown["followers"])]
    assert len({row["session_id"] for row in workers}) == 3


@pytest.mark.slow("it waits out a time limit of 20 s; test_runner_claude has a client that hangs")
@pytest.mark.faults
def test_a_worker_that_hangs_is_stopped_by_its_timeout_and_the_next_attempt_lands(crew: Callable[..., Team]) -> None:
    team = crew(tasks={"retry_initial_s": 0.1})
    marker = team.repo.parent / "tried"
    first_time_fails = f"test -e {marker} || {{ touch {marker}; false; }}"
    task_id = submit(
        team,
        "Hang once",
        bash(first_time_fails, if_denied=[tool("Write", file_path="$CWD/half.txt", content="half"), {"sleep": 600}]),
        tool("Write", file_path="$CWD/whole.txt", content="whole\n"),
        flags=("--timeout", "20"),
    )
    (retried,) = team.until(lambda: [event for event in recent(team) if event["kind"] == "task.retried"])
    assert (retried["task_id"], retried["data"]["error_code"]) == (task_id, "timeout")
    assert team.house.json("wait", task_id, "--timeout", "100", timeout_s=120)["done"]
    shown = detail(team, task_id)
    assert (shown["status"], shown["merge"]["state"]) == ("completed", "landed")
    assert shown["attempts"] == 2
    assert git(team.repo, "show", "main:whole.txt") == "whole"
    assert git(team.repo, "ls-tree", "main", "--", "half.txt") == ""
    (saved,) = git(team.repo, "for-each-ref", "--format=%(refname)", "refs/corral/salvage").splitlines()
    assert git(team.repo, "show", f"{saved}:half.txt") == "half"


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
    told = "\n".join(
        json.dumps(request.body["messages"]) for request in team.stage.requests if "Stray: done." in str(request.body)
    )
    assert "in another checkout" in told
    assert f"changed README.md.draft, which {person.name} holds" in told
    saved = git(team.repo, "for-each-ref", "--format=%(refname)", "refs/corral/salvage").splitlines()
    strays = [ref for ref in saved if "stray.txt" in git(team.repo, "ls-tree", "--name-only", ref).split()]
    assert strays and all(ref in told for ref in strays), "another has the held file as it was before"
    assert git(team.repo, "ls-tree", "--name-only", "main").split() == ["README.md", "own.txt", "src"]
    assert (team.repo / "stray.txt").exists()
    (worker,) = [row for row in team.sessions() if row["task_id"] == task_id]
    assert f"{worker['agent_name']} changed README.md.draft by a shell command while you hold it" in person.do(
        bash("true")
    )


@pytest.mark.slow("a supervisor's whole task; test_phases has it without a client")
@pytest.mark.req("SUP-AC2", "SUP-FR4", "SUP-AC6")
def test_a_task_of_the_roadmap_is_asked_for_its_phases_and_its_bundle_says_which_are_missing(
    crew: Callable[..., Team], stage: Stage
) -> None:
    team, folder = crew(), ".corral-evidence/page"
    written = [phase for phase in PHASES if phase not in ("PLAN", "MONITOR")]
    others = f"for phase in {' '.join(written)}; do echo $phase > {folder}/$phase.md; done"
    prompt = script(
        tool("Write", file_path=f"$CWD/{folder}/PLAN.md", content="First this, then that.\n"),
        bash(f"{others}; echo page > page.html; git add -A; git commit -qm 'Add the page'"),
        text("The page is there."),
    )
    plan = Plan(team.house, yaml.safe_dump([{"id": "page", "prompt": prompt}]))
    team.house.run("supervisor", "start")
    plan.until(page="done")
    asked = "\n".join(stage.requests[0].texts)
    assert all(f"- {phase}: {folder}/{phase}.md: {about}" in asked for phase, about in PHASES.items())
    kept = evidence(team.house, "page")
    assert (kept["asked"], kept["missing"]) == ([*PHASES], ["MONITOR"])
    assert "| phases | 7 of 8; missing: MONITOR |" in kept["summary"]
    assert {f"{phase}.md" for phase in PHASES} & kept["files"] == {f"{phase}.md" for phase in (*written, "PLAN")}
    assert git(team.repo, "show", f"main:{folder}/PLAN.md") == "First this, then that."
