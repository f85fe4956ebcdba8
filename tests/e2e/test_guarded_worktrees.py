"""With the real client: what it loses in a worktree by itself is saved, where Corral made the worktree and where it did not."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.git.checkouts import private
from corral.git.process.command import open_repository
from tests.conftest import commit, commit_all, git
from tests.e2e.stage import bash, tool
from tests.e2e.team import Team
from tests.e2e.test_worktrees_of_sessions import ISOLATED, delegation, worktrees

pytestmark = pytest.mark.e2e
MAKE = bash("printf 'rows\\r\\n' > my.db && echo KEY=1 > .env && git status --short && pwd")


@pytest.fixture
def shared(team: Team) -> Team:
    """A repository whose team has committed what ``corral init`` wrote, and ignores some files."""
    ignore = "*.db\n.env\n.corral/\n.claude/worktrees/\n"
    commit(team.repo, {".gitignore": ignore, "f.txt": "1\n"})
    commit_all(team.repo, "Coordinate with Corral", ".claude")
    return team


def plain(team: Team, name: str) -> Path:
    """A worktree as the client makes it where Corral is not there."""
    place = team.repo / ".claude" / "worktrees" / name
    git(team.repo, "worktree", "add", "-q", "-b", f"worktree-{name}", str(place))
    return place


def copies(team: Team, name: str) -> list[private.Saved]:
    return private.listing(open_repository(team.repo / ".git"), name)


def check_recovered(team: Team, name: str) -> None:
    """Every byte is back."""
    place = Path(team.house.json("worktree", "recover", name)["path"])
    assert (place / "my.db").read_bytes() == b"rows\r\n"
    assert (place / ".env").read_text() == "KEY=1\n"


def test_exit_worktree_loses_no_ignored_file(shared: Team) -> None:
    leave = tool("ExitWorktree", action="remove", discard_changes=True)
    shared.run(tool("EnterWorktree", name="e1"), MAKE, leave, flags=("--allowedTools", "EnterWorktree,ExitWorktree"))
    assert "e1" not in worktrees(shared)
    check_recovered(shared, "e1")


def test_the_end_of_an_isolated_agent_loses_no_ignored_file(shared: Team) -> None:
    shared.run(delegation(MAKE), flags=("--agents", ISOLATED, "--allowedTools", "Agent"))
    (child,) = [row for row in shared.sessions() if row["parent_session_id"]]
    name = f"agent-{child['session_id']}"
    shared.until(lambda: name not in worktrees(shared))
    check_recovered(shared, name)


def test_a_worktree_that_nobody_announces_is_saved_when_its_session_ends(shared: Team) -> None:
    """What `claude rm` and the client's sweep do raises no event; they act on a worktree whose last turn is over."""
    place = plain(shared, "r1")
    shared.run(MAKE, cwd=place)
    shared.until(lambda: copies(shared, "r1"))
    git(shared.repo, "worktree", "remove", "--force", str(place))
    check_recovered(shared, "r1")


def test_a_reset_under_a_live_session_is_told_and_leaves_everything(shared: Team) -> None:
    """As a client without Corral does to a worktree whose name it takes, and the desktop's pool to any."""
    place = plain(shared, "n2")
    old = git(shared.repo, "rev-parse", "HEAD")
    live = shared.member(cwd=place)
    live.do(MAKE)
    shared.until(lambda: copies(shared, "n2"))
    new = commit(shared.repo, {"f.txt": "2\n"})
    git(place, "reset", "-q", "--hard", new)
    heard = ""
    for _ in range(20):
        heard += live.do(bash("true"))
        if "HEAD of your worktree" in heard:
            break
    assert f"moved from {old[:12]} to {new[:12]}" in heard
    check_recovered(shared, "n2")
