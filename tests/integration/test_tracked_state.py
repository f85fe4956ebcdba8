"""A clone whose commits hold a database, a socket or settings of somebody else is refused, whatever git can still answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.core.errors import GitFailed, Unsupported
from corral.daemon.binding import refuse_what_a_clone_brought
from corral.git.process.command import Git, open_checkout
from tests.conftest import commit, commit_all, git
from tests.integration.git.test_git_wrapper import shim
from tests.support.coordinated import Coordinated

IN_TREE = {".corral/config.yaml": "landing: {}\n", ".corral/agents/one.md": "x\n", "src/corral.db": "x\n"}


@pytest.fixture
def checkout(repo: Path) -> Git:
    commit(repo, IN_TREE)
    return open_checkout(repo)


def bring(repo: Path) -> None:
    (repo / ".corral" / "corral.db").write_text("x\n")
    commit_all(repo, "brought", ".corral/corral.db", force=True)


@pytest.mark.req("X7")
def test_a_git_that_was_killed_once_is_asked_again(
    checkout: Git, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = tmp_path / "killed"
    once = (
        f'case " $* " in *" ls-files "*) [ -e {killed} ] || {{ touch {killed}; kill -9 $$; }};; esac; exec "$REAL" "$@"'
    )
    shim(tmp_path / "bin", monkeypatch, once)
    refuse_what_a_clone_brought(checkout)
    assert killed.exists()
    (repo / ".corral" / "corral.db").write_text("x\n")
    git(repo, "add", "--force", ".corral/corral.db")
    killed.unlink()
    with pytest.raises(Unsupported, match=r"corral\.db"):
        refuse_what_a_clone_brought(checkout)
    assert killed.exists(), "what is only in the index was seen by the second look"


def test_an_older_branch_takes_nothing_of_this_clone_into_its_commits(house: Coordinated) -> None:
    git(house.root, "branch", "older")
    git(house.root, "add", "--all")
    git(house.root, "commit", "-q", "-m", "shared")
    house.carry_out("a task", "echo x > x.txt")
    git(house.root, "switch", "-q", "older")
    assert not (house.root / ".corral" / ".gitignore").exists() and (house.root / ".corral" / "run" / "token").exists()
    git(house.root, "add", "--all")
    assert git(house.root, "status", "--porcelain") == ""
    git(house.root, "switch", "-q", "main")


@pytest.mark.req("X7")
def test_a_damaged_index_keeps_no_daemon_from_starting_and_hides_nothing(checkout: Git, repo: Path) -> None:
    index = repo / ".git" / "index"
    whole = index.read_bytes()
    index.write_bytes(b"damaged")
    refuse_what_a_clone_brought(checkout)
    index.write_bytes(whole)
    bring(repo)
    index.write_bytes(b"damaged")
    with pytest.raises(Unsupported, match=r"\.corral/corral\.db"):
        refuse_what_a_clone_brought(checkout)
    (repo / ".git" / "HEAD").write_text("ref: refs/heads/none\n")
    with pytest.raises(GitFailed, match="index file"):
        refuse_what_a_clone_brought(checkout)
