"""Whatever state a user's checkout is in, a landing leaves of it what the user had."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from corral.git.land import landing
from corral.git.land.landing import InTheWay, Landed
from corral.git.process.command import open_repository
from tests.conftest import commit, git
from tests.integration.git.test_git_landing import MAIN
from tests.integration.git.test_git_users_index import left, seen
from tests.support.files import put

PATHS = ("a", "b", "c", "d/e", "d/f", "g/h", "i", "j")
TURNS = 12


def change(repo: Path, chance: random.Random, paths: list[str], text: str, *, stage: bool) -> None:
    """Do something to each of the paths, as a user or a task might, and perhaps stage it."""
    for path in paths:
        place = repo / path
        what = chance.choice(["write", "write", "delete", "mode", "link", "folder"])
        if not place.parent.is_dir() or place.is_dir():
            continue
        if what != "mode" or not place.is_file() or place.is_symlink():
            place.unlink(missing_ok=True)
        if what == "write":
            place.write_text(f"{text} {path}\n")
        elif what == "mode" and place.is_file() and not place.is_symlink():
            place.chmod(0o755)
        elif what == "link":
            place.symlink_to(text)
        elif what == "folder":
            put(place / "within", f"{text} {path}\n")
        if stage:
            git(repo, "add", "-A", "-f", "--", path, check=False)


def entries(repo: Path) -> dict[str, str]:
    lines = git(repo, "ls-files", "--stage").splitlines()
    return {line.split("\t")[1]: line.split("\t")[0] for line in lines}


@pytest.mark.req("G8")
@pytest.mark.parametrize("seed", range(3))
def test_what_remains_is_what_the_user_had(repo: Path, seed: int) -> None:
    chance = random.Random(seed)
    commit(repo, {path: f"old {path}\n" for path in PATHS[:-2]}, "base")
    (repo / ".git/info/exclude").write_text("/j\n/i\n")
    outcomes = {Landed: 0, InTheWay: 0}
    for turn in range(TURNS):
        tip = git(repo, "rev-parse", "main")
        git(repo, "checkout", "-q", "--detach")
        change(repo, chance, chance.sample(PATHS, 2), f"new {turn}", stage=True)
        git(repo, "commit", "-q", "--allow-empty", "-m", "new")
        sha = git(repo, "rev-parse", "HEAD")
        git(repo, "checkout", "-q", "-f", "main")
        git(repo, "clean", "-qfdx")
        for stage in (True, False):
            change(repo, chance, chance.sample(PATHS, chance.randrange(3)), f"mine {turn}", stage=stage)
        files, index = seen(repo), entries(repo)
        outcome = landing.land(open_repository(repo / ".git"), MAIN, sha, tip)
        assert left(repo) == []
        now_files, now_index = seen(repo), entries(repo)
        if isinstance(outcome, InTheWay):
            outcomes[InTheWay] += 1
            assert (now_files, now_index, git(repo, "rev-parse", "main")) == (files, index, tip), (seed, turn, outcome)
        else:
            outcomes[Landed] += 1
            assert outcome == Landed(sha)
            wanted = set(git(repo, "diff-tree", "-r", "--name-only", "--no-renames", tip, sha).splitlines())
            theirs = {
                line.split("\t")[1]: " ".join(line.split()[:3:2])
                for line in git(repo, "ls-tree", "-r", sha).splitlines()
            }
            for path in files.keys() | now_files.keys() | index.keys() | now_index.keys():
                if path not in wanted:
                    assert (now_files.get(path), now_index.get(path)) == (files.get(path), index.get(path)), (
                        seed,
                        turn,
                        path,
                    )
                else:
                    entry = now_index.get(path, "").removesuffix(" 0")
                    assert entry == theirs.get(path, ""), (seed, turn, path)
                    assert os.path.lexists(repo / path) or path not in files or path not in theirs, (seed, turn, path)
        git(repo, "checkout", "-q", "-f", "main")
        git(repo, "clean", "-qfdx")
    assert all(outcomes.values()), outcomes
