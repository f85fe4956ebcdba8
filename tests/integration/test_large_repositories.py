"""Among hundreds of worktrees and thousands of refs and files, nothing costs more processes than in a small repository."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from corral.git.checkouts import listing, worktrees
from tests.conftest import git
from tests.integration.git.test_git_wrapper import shim
from tests.integration.landing_world import World

WORKTREES, REFS, FILES = 500, 10_000, 1_000


def grow(root: Path) -> None:
    """Add refs and worktrees, as git itself writes them."""
    head = git(root, "rev-parse", "HEAD")
    names = [f"refs/{kind}/{n:05}" for kind in ("corral/salvage/w", "heads/old", "tags/v") for n in range(REFS // 3)]
    (root / ".git/packed-refs").write_text(
        "# pack-refs with: peeled fully-peeled sorted \n" + "".join(f"{head} {name}\n" for name in sorted(names))
    )
    first = root.parent / "others" / "w0"
    git(root, "worktree", "add", "-q", "--no-checkout", "--detach", str(first))
    entry = root / ".git/worktrees/w0"
    files = {file.name: file.read_text() for file in entry.iterdir() if file.is_file() and file.name != "index"}
    for number in range(1, WORKTREES):
        name = f"w{number}"
        for folder in (first.with_name(name), entry.with_name(name)):
            folder.mkdir()
        for file, text in files.items():
            (entry.with_name(name) / file).write_text(text.replace(str(first), str(first.with_name(name))))
        (first.with_name(name) / ".git").write_text(f"gitdir: {entry.with_name(name)}\n")


def gits(world: World, place: Path, log: Path) -> list[str]:
    """The commands of git that it takes to land two branches, to make a worktree, and to remove it."""
    log.write_text("")
    for name in ("one", "two"):
        assert world.land(name)["state"] == "landed"
    repo = world.repo()
    worktrees.add(repo, place, "corral/made", world.tip())
    worktrees.remove(repo, place)
    assert listing.checkout_of(repo, "refs/heads/main") == world.root
    return log.read_text().split()


@pytest.mark.req("G30")
def test_a_landing_and_a_worktree_take_the_same_commands_of_git_however_much_there_is(
    make_repo: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []
    for name, files in (("small", 1), ("large", FILES)):
        root = make_repo(name, {f"d{n % 20}/f{n}": f"{n}\n" for n in range(files)})
        if name == "large":
            grow(root)
            assert len(git(root, "worktree", "list").splitlines()) == WORKTREES + 1
        world = World(root)
        for branch in ("one", "two"):
            world.branch(branch, {f"{branch}.txt": "x\n"})
        world.queue.recover(world.now())
        log = tmp_path / f"{name}.log"
        with monkeypatch.context() as patched:
            find = "for a; do case $a in -*|*=*|/*) ;; *) break;; esac; done"
            shim(tmp_path / "bin", patched, f'{find}; echo $a >> {log}; exec "$REAL" "$@"')
            counts.append(gits(world, tmp_path / f"{name}-made", log))
        world.close()
    assert counts[0] == counts[1]
