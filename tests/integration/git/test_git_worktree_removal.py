"""Worktrees are removed only on proof that nothing in them is lost."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from corral.core.errors import Conflict, NotFound, WorkAtRisk
from corral.git.checkouts import salvage, submodules, worktrees
from corral.git.process.command import Git, open_checkout
from tests.conftest import commit, git
from tests.integration.git.places import AT, add, branches, nothing_stays

# removal


def test_a_clean_worktree_goes_and_its_branch_stays(me: Git, repo: Path, place: Path) -> None:
    commit(add(me, repo, place), {"x": "1"})
    worktrees.remove(me, place)
    assert not place.exists() and branches(repo) == ["corral/w1", "main"]
    with pytest.raises(NotFound):
        worktrees.remove(me, place)
    with pytest.raises(NotFound):
        worktrees.remove(me, repo)


def test_a_worktree_that_somebody_locked_stays_with_the_command_that_unlocks_it(
    me: Git, repo: Path, place: Path
) -> None:
    add(me, repo, place)
    git(repo, "worktree", "lock", str(place))
    with pytest.raises(Conflict) as refused:
        worktrees.remove(me, place)
    assert place.exists()
    git(repo, *shlex.split(refused.value.remedy.partition("git ")[2]))
    worktrees.remove(me, place)
    assert not place.exists()


@pytest.mark.req("G12")
@pytest.mark.parametrize(
    "work", ["modified", "staged", "untracked", "deleted", "detached", "nested", "hidden untracked"]
)
def test_a_worktree_with_work_of_its_own_stays(me: Git, repo: Path, place: Path, work: str) -> None:
    add(me, repo, place)
    if work == "modified":
        (place / "src/a.py").write_text("x")
    if work == "staged":
        (place / "src/a.py").write_text("x")
        git(place, "add", "-A")
    if work in ("untracked", "hidden untracked"):
        (place / "deep").mkdir()
        (place / "deep/new").write_text("x")
    if work == "hidden untracked":
        git(repo, "config", "status.showUntrackedFiles", "no")
    if work == "deleted":
        (place / "src/a.py").unlink()
    if work == "detached":
        git(place, "checkout", "-q", "--detach")
        commit(place, {"x": "1"})
    if work == "nested":
        git(place, "init", "-q", "inner")
        commit(place / "inner", {"x": "1"})
    with pytest.raises(WorkAtRisk):
        worktrees.remove(me, place)
    assert place.exists() and open_checkout(place).head()


@pytest.mark.req("G12")
def test_a_salvaged_worktree_goes_with_its_branch(me: Git, repo: Path, place: Path) -> None:
    commit(add(me, repo, place), {"x": "1"})
    (place / "new").write_text("work")
    (place / "node_modules").mkdir()
    (place / "node_modules/x").write_text("x")
    saved = salvage.snapshot(open_checkout(place), "w1", AT, reason="test", exclude=["node_modules"])
    assert saved and saved.files == ["new"]
    (place / "late").write_text("written after")
    with pytest.raises(WorkAtRisk):
        worktrees.remove_salvaged(me, place, saved)
    (place / "late").unlink()
    worktrees.remove_salvaged(me, place, saved)
    nothing_stays(repo, place)
    assert git(repo, "show", f"{saved.sha}:new") == "work" and git(repo, "show", f"{saved.sha}:x") == "1"


@pytest.mark.req("G12")
def test_a_nested_repository_is_never_removed_with_its_host(me: Git, repo: Path, place: Path) -> None:
    add(me, repo, place)
    git(place, "init", "-q", "inner")
    saved = salvage.snapshot(open_checkout(place), "w1", AT, reason="test", always=True)
    assert saved
    with pytest.raises(WorkAtRisk) as caught:
        worktrees.remove_salvaged(me, place, saved)
    assert caught.value.details["nested"] == ["inner/"] and (place / "inner").exists()


@pytest.fixture
def lib(repo: Path, sealed: Path, tmp_path: Path) -> Path:
    """The upstream of a submodule ``lib`` of the repository."""
    git(tmp_path, "config", "--global", "protocol.file.allow", "always")
    git(tmp_path, "init", "-q", "lib")
    commit(tmp_path / "lib", {"l": "1"})
    git(repo, "submodule", "--quiet", "add", f"file://{tmp_path}/lib", "lib")
    git(repo, "commit", "-q", "-m", "submodule")
    return tmp_path / "lib"


@pytest.mark.req("G17")
def test_initialised_submodules_keep_a_worktree(me: Git, repo: Path, place: Path, lib: Path) -> None:
    add(me, repo, place)
    git(place, "submodule", "--quiet", "update", "--init")
    with pytest.raises(WorkAtRisk):
        worktrees.remove(me, place)
    assert (place / "lib/l").exists()


def remove_salvaged(me: Git, place: Path) -> None:
    saved = salvage.snapshot(open_checkout(place), "w1", AT, reason="test", always=True)
    assert saved
    worktrees.remove_salvaged(me, place, saved)


@pytest.mark.req("G12", "G17")
@pytest.mark.parametrize("ignore", ["none", "all"])
@pytest.mark.parametrize(
    "work", ["changed", "untracked", "committed", "on a branch", "stashed", "deep", "its own .git"]
)
def test_work_in_a_submodule_keeps_a_salvaged_worktree(
    me: Git, repo: Path, place: Path, lib: Path, work: str, ignore: str
) -> None:
    git(repo, "config", "submodule.lib.ignore", ignore)
    if work == "deep":
        git(lib, "init", "-q", "../deep")
        commit(lib.parent / "deep", {"d": "1"})
        git(lib, "submodule", "--quiet", "add", f"file://{lib.parent}/deep", "de/ep")
        git(lib, "commit", "-q", "-m", "deep")
        git(repo, "submodule", "--quiet", "update", "--remote")
        git(repo, "commit", "-q", "-am", "with deep")
    add(me, repo, place)
    git(place, "submodule", "--quiet", "update", "--init", "--recursive")
    inside = place / "lib"
    if work == "its own .git":
        git(place, "clone", "-q", str(lib), "own")
        git(place, "add", "own")
        inside = place / "own"
    if work == "deep":
        inside = place / "lib/de/ep"
    (inside / ("new" if work == "untracked" else "l")).write_text("precious")
    if work == "stashed":
        git(inside, "stash")
    elif work not in ("changed", "untracked"):
        git(inside, "checkout", "-q", "-B", "side")
        commit(inside, {"l": "precious"})
    if work == "on a branch":
        git(inside, "fetch", "-q", ".", "side")
        git(inside, "checkout", "-q", "--detach", "origin/main")
    commit(place, {"other": "1"})
    with pytest.raises(WorkAtRisk) as caught:
        remove_salvaged(me, place)
    assert str(inside.relative_to(place)) in caught.value.details["submodules"]
    assert place.exists() and git(inside, "status") and open_checkout(place).head()


@pytest.mark.req("G17")
@pytest.mark.parametrize("made", ["pristine", "pushed", "shallow", "off every branch", "deinitialised"])
def test_a_submodule_whose_upstream_has_all_of_it_goes_with_its_worktree(
    me: Git, repo: Path, place: Path, lib: Path, made: str
) -> None:
    if made == "off every branch":
        git(lib, "config", "uploadpack.allowAnySHA1InWant", "true")
        git(lib, "checkout", "-q", "--detach")
        pinned = commit(lib, {"l": "2"})
        git(repo / "lib", "fetch", "-q", "origin", pinned)
        git(repo / "lib", "checkout", "-q", pinned)
        git(repo, "commit", "-q", "-am", "pinned")
        git(lib, "checkout", "-q", "main")
    elif made == "shallow":
        git(lib, "config", "uploadpack.allowReachableSHA1InWant", "true")
        commit(lib, {"l": "2"})
    add(me, repo, place)
    git(place, "submodule", "--quiet", "update", "--init", *(["--depth=1"] if made == "shallow" else []))
    if made == "pushed":
        commit(place / "lib", {"l": "2"})
        git(place / "lib", "push", "-q", "origin", "HEAD:refs/heads/side")
    if made == "deinitialised":
        git(place, "submodule", "--quiet", "deinit", "lib")
    assert submodules.unpublished_submodules(open_checkout(place)) == []
    remove_salvaged(me, place)
    assert not place.exists() and not list((repo / ".git").glob("worktrees/*"))


@pytest.mark.req("G17")
def test_a_submodules_commit_that_only_this_worktree_has_is_named(me: Git, repo: Path, place: Path, lib: Path) -> None:
    add(me, repo, place)
    checkout = open_checkout(place)
    assert submodules.unpublished_submodules(checkout) == []
    git(place, "submodule", "--quiet", "update", "--init")
    work = commit(place / "lib", {"l": "2"})
    assert submodules.unpublished_submodules(checkout) == [], "no commit of the worktree names it"
    git(place, "commit", "-q", "-am", "use it")
    assert submodules.unpublished_submodules(checkout) == ["lib"]
    git(place, "submodule", "--quiet", "deinit", "--force", "lib")
    assert submodules.unpublished_submodules(checkout) == ["lib"], "its repository is still there"
    git(repo / "lib", "fetch", "-q", str(checkout.git_dir / "modules/lib"), work)
    assert submodules.unpublished_submodules(checkout) == [], "the user's own submodule has it"
