"""Where the real client asks for a worktree, it gets one of Corral's, and nothing made in it is lost."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import commit_all, git, worktrees_of
from tests.e2e.client import Terminal, trust
from tests.e2e.stage import bash, script, text, tool
from tests.e2e.team import PLUGIN, Team, words_since_script

pytestmark = pytest.mark.e2e
ISOLATED = json.dumps({"iso": {"description": "Builds.", "prompt": "You build.", "isolation": "worktree"}})


@pytest.fixture
def shared(team: Team) -> Team:
    """A repository whose team has committed what ``corral init`` wrote."""
    commit_all(team.repo, "Coordinate with Corral", ".corral", ".claude")
    return team


def worktrees(team: Team) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in team.house.json("worktree", "list")}


def delegation(*steps: dict[str, Any]) -> dict[str, Any]:
    prompt = script(*steps, text("Built."), say="Build it.")
    return tool("Agent", description="build", prompt=prompt, subagent_type="iso", run_in_background=False)


def test_a_session_started_with_worktree_works_in_one_of_ours(shared: Team) -> None:
    run = shared.run(
        tool("Write", file_path="$CWD/mine.txt", content="x"),
        bash("git add mine.txt && git commit -qm Mine && git branch --show-current"),
        flags=("--worktree", "feature"),
    )
    place = worktrees_of(shared.repo) / "feature"
    assert run.init["cwd"] == str(place)
    row = worktrees(shared)["feature"]
    assert (row["path"], row["branch"], row["state"]) == (str(place), "corral/feature", "ready")
    assert git(shared.repo, "show", "corral/feature:mine.txt") == "x"
    assert not (shared.repo / "mine.txt").exists()
    assert not (shared.repo / ".claude" / "worktrees").exists()
    (session,) = shared.sessions()
    assert (session["worktree"], row["session_id"]) == (str(place), session["session_id"])


@pytest.mark.slow("a dialogue of the terminal")
def test_a_worktree_that_its_person_removes_at_the_exit_goes_and_what_was_uncommitted_is_saved(
    shared: Team, sealed: Path, claude: Path
) -> None:
    trust(sealed, shared.repo)
    flags = (*PLUGIN, "--permission-mode", "acceptEdits", "--worktree", "brief")
    with Terminal(claude, shared.repo, shared.env, *flags) as terminal:
        terminal.wait("accept edits on", timeout_s=60)
        place = Path(worktrees(shared)["brief"]["path"])
        terminal.send(script(tool("Write", file_path="$CWD/draft.txt", content="a draft"), text("bye")))
        terminal.wait((place / "draft.txt").exists)
        shared.until(lambda: terminal.screen and shared.sessions()[0]["status"] == "idle")
        terminal.send("/exit")
        terminal.wait("2. Remove worktree")
        terminal.type("2")
        terminal.wait(lambda: terminal.process.poll() is not None, timeout_s=60)
    assert not place.exists()
    assert "brief" not in worktrees(shared)
    saved = git(shared.repo, "for-each-ref", "--format=%(refname)", "refs/corral/salvage/brief").splitlines()
    assert saved and {git(shared.repo, "show", f"{ref}:draft.txt") for ref in saved} == {"a draft"}


def test_an_isolated_subagent_works_in_one_of_ours_and_its_parent_is_told_where_the_work_is(shared: Team) -> None:
    commit = bash("git add made.txt && git commit -qm Made && pwd")
    made, loose = (tool("Write", file_path=name, content=name) for name in ("made.txt", "loose.txt"))
    steps = (delegation(made, commit), delegation(made, commit, loose), bash("true"))
    run = shared.run(*steps, flags=("--agents", ISOLATED, "--allowedTools", "Agent"))
    children = [row for row in shared.sessions() if row["parent_session_id"] == run.result["session_id"]]
    assert [row["agent_type"] for row in children] == ["iso", "iso"]
    names = {f"agent-{row['session_id']}" for row in children}
    places = {
        line for request in shared.stage.requests for line in str(request.result_texts).split("'") if "agent-" in line
    }
    assert {str(worktrees_of(shared.repo) / name) for name in names} <= places
    shared.until(lambda: not names & set(worktrees(shared)))
    assert not (shared.repo / ".claude" / "worktrees").exists()
    assert list(worktrees_of(shared.repo).glob("agent-*")) == []
    words = words_since_script(shared.stage.requests[-1])
    (branch,) = re.findall(r"Its branch is (\S+)\.", words)
    (saved,) = re.findall(r"`corral worktree recover (\S+)`", words)
    assert {branch, f"corral/{saved}"} == {f"corral/{name}" for name in names}
    assert git(shared.repo, "show", f"{branch}:made.txt") == "made.txt"
    recovered = Path(shared.house.json("worktree", "recover", saved)["path"])
    assert (recovered / "made.txt").read_text() == "made.txt"
    assert (recovered / "loose.txt").read_text() == "loose.txt"
    assert git(shared.repo, "status", "--short") == ""


def test_two_requests_at_once_for_one_worktree_get_the_same(shared: Team) -> None:
    def ask(_: int) -> str:
        answer = shared.house.hook("WorktreeCreate", "one-session", name="twice")
        return str(answer["hookSpecificOutput"]["worktreePath"])

    with ThreadPoolExecutor(4) as pool:
        paths = set(pool.map(ask, range(4)))
    assert paths == {str(worktrees_of(shared.repo) / "twice")}
    assert git(shared.repo, "branch", "--list", "corral/*").split() == ["+", "corral/twice"]
