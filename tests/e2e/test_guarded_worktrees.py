"""With the real client: what it loses in a worktree by itself is saved, where Corral made the worktree and where it did not."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.git.checkouts import private
from corral.git.process.command import open_repository
from tests.conftest import commit, git
from tests.e2e.client import WORKER_FLAGS, Terminal, trust
from tests.e2e.stage import bash, script, text, tool
from tests.e2e.team import PLUGIN, Team
from tests.e2e.test_worktrees_of_sessions import ISOLATED, delegation, worktrees

pytestmark = pytest.mark.e2e
MAKE = bash("printf 'rows\\r\\n' > my.db && echo KEY=1 > .env && git status --short && pwd")


@pytest.fixture
def shared(team: Team) -> Team:
    """A repository whose team has committed what ``corral init`` wrote, and ignores some files."""
    ignore = "*.db\n.env\n.corral/\n.claude/worktrees/\n"
    commit(team.repo, {".gitignore": ignore, "f.txt": "1\n"})
    git(team.repo, "add", ".claude")
    git(team.repo, "commit", "-qm", "Coordinate with Corral")
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


@pytest.mark.slow("a third way out of a worktree, through a terminal")
def test_the_exit_of_a_terminal_loses_no_ignored_file(shared: Team, sealed: Path, claude: Path) -> None:
    trust(sealed, shared.repo)
    flags = (*PLUGIN, *WORKER_FLAGS, "--worktree", "brief")
    with Terminal(claude, shared.repo, shared.env, *flags) as terminal:
        terminal.wait("accept edits on", timeout_s=60)
        place = Path(worktrees(shared)["brief"]["path"])
        terminal.send(script(MAKE, text("bye")))
        terminal.wait((place / ".env").exists)
        shared.until(lambda: terminal.screen and shared.sessions()[0]["status"] == "idle")
        terminal.send("/exit")
        terminal.wait(lambda: terminal.process.poll() is not None or "2.Removeworktree" in terminal.screen)
        if terminal.process.poll() is None:
            terminal.type("2")
        terminal.wait(lambda: terminal.process.poll() is not None, timeout_s=60)
    shared.until(lambda: not place.exists())
    check_recovered(shared, "brief")


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


@pytest.mark.slow("two more clients; test_guardian has it without them")
def test_two_sessions_in_one_worktree_do_not_lose_what_the_other_wrote(shared: Team) -> None:
    place = plain(shared, "n1")
    first = shared.member(cwd=place)
    first.do(tool("Write", file_path="$CWD/shared.txt", content="of the first"))
    write = "printf second > shared.txt"
    second = shared.member("--worktree", "n1")
    second.do(bash("true"))
    other = second.do(bash("pwd"))
    shared.until(lambda: git(shared.repo, "for-each-ref", "refs/corral/salvage/n1"))
    (saved,) = git(shared.repo, "for-each-ref", "--format=%(refname)", "refs/corral/salvage/n1").splitlines()
    assert git(shared.repo, "show", f"{saved}:shared.txt") == "of the first"
    denied = second.do(tool("Write", file_path=str(place / "shared.txt"), content="of the second"))
    second.do(bash(f"cd {place} && {write}"))
    kept = git(shared.repo, "for-each-ref", "--format=%(refname)", "refs/corral/salvage").splitlines()
    held = [git(shared.repo, "show", f"{ref}:shared.txt") for ref in kept]
    assert (place / "shared.txt").read_text() in ("of the first", "second"), (other, denied)
    assert "of the first" in held
