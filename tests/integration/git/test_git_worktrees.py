"""Worktrees: made whole or not at all, repaired, removed only on proof."""

from __future__ import annotations

import shutil
from datetime import datetime, timezone
from pathlib import Path

import pytest

from corral.errors import Conflict, GitFailed, InvalidInput, NotFound, Unsupported, WorkAtRisk
from corral.git import salvage, status, worktrees
from corral.git.command import Git, open_checkout, open_repository
from tests.conftest import commit, git

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)


@pytest.fixture
def me(repo: Path) -> Git:
    return open_repository(repo / ".git")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "wts" / "w 1 ü"


def head(repo: Path) -> str:
    return git(repo, "rev-parse", "HEAD")


def add(me: Git, repo: Path, place: Path) -> Path:
    worktrees.add(me, place, "corral/w1", head(repo))
    return place


def branches(repo: Path) -> list[str]:
    return git(repo, "for-each-ref", "--format=%(refname:short)", "refs/heads").splitlines()


def nothing_stays(repo: Path, place: Path) -> None:
    assert not place.exists() and branches(repo) == ["main"]
    assert len(git(repo, "worktree", "list").splitlines()) == 1
    assert not list((repo / ".git/worktrees").glob("*")) if (repo / ".git/worktrees").exists() else True


def test_a_new_worktree_is_whole(me: Git, repo: Path, place: Path) -> None:
    config = (repo / ".git/config").read_bytes()
    add(me, repo, place)
    assert git(place, "status", "--porcelain", "--branch") == "## corral/w1"
    assert (place / "src/a.py").read_text() == "a = 1\n"
    assert (repo / ".git/config").read_bytes() == config
    entry = worktrees.entries(me)[1]
    assert (entry.path, entry.branch, entry.locked, entry.head) == (place, "refs/heads/corral/w1", None, head(repo))
    assert worktrees.checkout_of(me, "refs/heads/corral/w1") == place
    assert worktrees.checkout_of(me, "refs/heads/main") == repo
    assert worktrees.checkout_of(me, "refs/heads/none") is None


def test_a_detached_worktree(me: Git, repo: Path, place: Path) -> None:
    worktrees.add_detached(me, place, head(repo))
    assert open_checkout(place).branch() is None and git(place, "status", "--porcelain") == ""
    assert branches(repo) == ["main"]


def test_in_a_bare_repository(repo: Path, tmp_path: Path, place: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repo), "b.git")
    bare = open_repository(tmp_path / "b.git")
    worktrees.add(bare, place, "x", head(repo))
    assert git(place, "status", "--porcelain") == "" and worktrees.entries(bare)[0].bare


@pytest.mark.parametrize("taken", ["branch", "folder", "file", "branch folder"])
def test_what_exists_is_not_touched(me: Git, repo: Path, place: Path, taken: str) -> None:
    if taken == "branch":
        git(repo, "branch", "corral/w1")
    elif taken == "branch folder":
        git(repo, "branch", "corral")
    elif taken == "folder":
        place.mkdir(parents=True)
        (place / "precious").write_text("x")
    else:
        place.parent.mkdir()
        place.write_text("x")
    before = branches(repo)
    with pytest.raises(Conflict):
        add(me, repo, place)
    assert branches(repo) == before
    assert taken in ("branch", "branch folder") or place.exists()


@pytest.mark.req("X6")
def test_hostile_arguments_make_nothing(me: Git, repo: Path, place: Path) -> None:
    for branch in ("--x", "a/--output=x", "a\nb"):
        with pytest.raises(InvalidInput):
            worktrees.add(me, place, branch, head(repo))
    with pytest.raises(InvalidInput):
        worktrees.add(me, place, "x", "HEAD")
    with pytest.raises(GitFailed):
        worktrees.add(me, place, "x", "f" * 40)
    nothing_stays(repo, place)


@pytest.mark.req("G2")
def test_a_filter_that_fails_leaves_nothing(me: Git, repo: Path, place: Path) -> None:
    commit(repo, {".gitattributes": "*.bin filter=lost\n", "z.bin": "x"})
    git(repo, "config", "filter.lost.smudge", "false")
    git(repo, "config", "filter.lost.required", "true")
    with pytest.raises(GitFailed):
        add(me, repo, place)
    nothing_stays(repo, place)


@pytest.mark.req("G2", "X9")
def test_a_failing_hook_is_not_run(me: Git, repo: Path, place: Path) -> None:
    hook = repo / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    add(me, repo, place)


@pytest.mark.req("G14")
def test_a_shared_core_worktree_is_refused(me: Git, repo: Path, place: Path) -> None:
    git(repo, "config", "extensions.worktreeConfig", "true")
    git(repo, "config", "core.worktree", str(repo))
    with pytest.raises(Unsupported, match="would work on"):
        add(me, repo, place)
    nothing_stays(repo, place)


@pytest.mark.req("G19")
def test_a_sparse_checkout_is_inherited(me: Git, repo: Path, place: Path) -> None:
    git(repo, "sparse-checkout", "set", "--no-cone", "/README.md")
    add(me, repo, place)
    assert (place / "README.md").exists() and not (place / "src").exists()
    assert git(place, "status", "--porcelain") == ""


# removal


def test_a_clean_worktree_goes_and_its_branch_stays(me: Git, repo: Path, place: Path) -> None:
    commit(add(me, repo, place), {"x": "1"})
    worktrees.remove(me, place)
    assert not place.exists() and branches(repo) == ["corral/w1", "main"]
    with pytest.raises(NotFound):
        worktrees.remove(me, place)
    with pytest.raises(NotFound):
        worktrees.remove(me, repo)


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
    assert worktrees.unpublished_submodules(open_checkout(place)) == []
    remove_salvaged(me, place)
    assert not place.exists() and not list((repo / ".git").glob("worktrees/*"))


@pytest.mark.req("G17")
def test_a_submodules_commit_that_only_this_worktree_has_is_named(me: Git, repo: Path, place: Path, lib: Path) -> None:
    add(me, repo, place)
    checkout = open_checkout(place)
    assert worktrees.unpublished_submodules(checkout) == []
    git(place, "submodule", "--quiet", "update", "--init")
    work = commit(place / "lib", {"l": "2"})
    assert worktrees.unpublished_submodules(checkout) == [], "no commit of the worktree names it"
    git(place, "commit", "-q", "-am", "use it")
    assert worktrees.unpublished_submodules(checkout) == ["lib"]
    git(place, "submodule", "--quiet", "deinit", "--force", "lib")
    assert worktrees.unpublished_submodules(checkout) == ["lib"], "its repository is still there"
    git(repo / "lib", "fetch", "-q", str(checkout.git_dir / "modules/lib"), work)
    assert worktrees.unpublished_submodules(checkout) == [], "the user's own submodule has it"


# repair


def repair(me: Git, place: Path) -> bool:
    return worktrees.repair(me, place, "corral/w1")


def test_a_healthy_worktree_is_left_as_it_is(me: Git, repo: Path, place: Path) -> None:
    (add(me, repo, place) / "new").write_text("x")
    assert repair(me, place)
    assert [c.path for c in status.changes(open_checkout(place))] == ["new"]


@pytest.mark.req("G2")
def test_an_initialising_worktree_is_finished(me: Git, repo: Path, place: Path) -> None:
    git(repo, "branch", "corral/w1")
    git(repo, "worktree", "add", "-q", "--no-checkout", "--lock", "--reason", "initializing", str(place), "corral/w1")
    (place / "src").mkdir()
    (place / "src/a.py").write_text("half")
    (open_checkout(place).git_dir / "index.lock").touch()
    assert repair(me, place)
    assert git(place, "status", "--porcelain") == "" and worktrees.entries(me)[1].locked is None


@pytest.mark.req("G3")
def test_a_deleted_folder_is_forgotten_and_nothing_else(me: Git, repo: Path, place: Path, tmp_path: Path) -> None:
    add(me, repo, place)
    other = tmp_path / "other"
    git(repo, "worktree", "add", "-q", "-b", "other", str(other))
    shutil.rmtree(place)
    shutil.rmtree(other)
    assert not repair(me, place)
    assert branches(repo) == ["main", "other"], "an empty branch goes"
    assert [e.path for e in worktrees.entries(me)[1:]] == [other], "somebody else's entry stays"
    add(me, repo, place)
    commit(place, {"x": "1"})
    shutil.rmtree(place)
    assert not repair(me, place)
    assert branches(repo) == ["corral/w1", "main", "other"], "a branch with commits stays"


@pytest.mark.req("G3")
def test_what_only_the_entry_held_is_salvaged(me: Git, repo: Path, place: Path) -> None:
    add(me, repo, place.with_name("w1"))
    place = place.with_name("w1")
    git(place, "checkout", "-q", "--detach")
    lost = commit(place, {"x": "1"})
    (place / "staged").write_text("staged")
    git(place, "add", "staged")
    shutil.rmtree(place)
    assert not repair(me, place)
    (kept,) = salvage.listing(me, "w1")
    assert git(repo, "show", f"{kept.sha}:staged") == "staged"
    git(repo, "merge-base", "--is-ancestor", lost, kept.sha)


@pytest.mark.req("G4")
@pytest.mark.parametrize("lost", ["entry", "link", "entry and link"])
def test_a_folder_without_its_entry_gets_one_and_no_file_changes(me: Git, repo: Path, place: Path, lost: str) -> None:
    commit(add(me, repo, place), {"x": "1"})
    (place / "src/a.py").write_text("dirty\n")
    (place / "new").write_text("new")
    if "entry" in lost:
        shutil.rmtree(open_checkout(place).git_dir)
    if "link" in lost:
        (place / ".git").unlink()
    for _ in range(2):
        assert repair(me, place)
    assert {(c.path, c.code) for c in status.changes(open_checkout(place))} == {("src/a.py", ".M"), ("new", "??")}
    assert (place / "src/a.py").read_text() == "dirty\n"
    assert [p.name for p in place.parent.iterdir()] == [place.name]
    assert [e.path for e in worktrees.entries(me)] == [repo, place]


@pytest.mark.req("G4")
def test_a_folder_that_git_knows_nothing_of_is_never_removed(me: Git, place: Path) -> None:
    place.mkdir(parents=True)
    (place / "precious").write_text("x")
    with pytest.raises(WorkAtRisk):
        repair(me, place)
    assert (place / "precious").exists()


def test_an_orphan_branch_and_an_empty_folder_go(me: Git, repo: Path, place: Path) -> None:
    git(repo, "branch", "corral/w1")
    place.mkdir(parents=True)
    assert not repair(me, place)
    nothing_stays(repo, place)
    assert not repair(me, place)
