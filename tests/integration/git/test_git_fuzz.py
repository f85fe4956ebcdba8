"""Trees made up by chance, merged by Corral without a checkout and by plain ``git merge``: the same comes of both."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from corral.git.process.command import Git
from tests.support import tree_pairs
from tests.support.merging import PlainGit, agree, corrals

SEED = int(os.environ.get("FUZZ_SEED") or random.randrange(1 << 30))


def differences(folder: Path, numbers: range) -> list[str]:
    """The pairs of which not the same comes."""
    repository = folder / "pairs.git"
    subprocess.run(["git", "init", "-q", "--bare", repository], check=True)
    config = (repository / "config").read_text() + '[gc]\nauto = 0\n[merge "mine"]\ndriver = cat %B >> %A\n'
    pairs = tree_pairs.write(repository, SEED, numbers)
    plain, repo = PlainGit(repository, folder / "checkout", pairs[0].ours), Git(repository)
    differences_of_pairs = []
    for pair in pairs:
        sections = [(*key.split("."), value) for key, value in pair.configuration.items()]
        (repository / "config").write_text(config + "".join(f"[{s}]\n{key} = {value}\n" for s, key, value in sections))
        expected, got = plain.merge(pair.ours, pair.theirs), corrals(repo, pair.ours, pair.theirs)
        if not agree(expected, got):
            differences_of_pairs.append(
                f"FUZZ_SEED={SEED}, pair {pair.number} {pair}:\nplain git: {expected}\nCorral: {got}"
            )
    return differences_of_pairs


@pytest.mark.req("G21")
def test_pairs_of_trees_merge_as_plain_git_merges_them(tmp_path: Path) -> None:
    print(f"FUZZ_SEED={SEED}")
    mismatches = differences(tmp_path, range(20))
    assert not mismatches, "\n\n".join(mismatches)


@pytest.mark.req("G21")
@pytest.mark.slow("hundreds of merges, each in a worktree of plain git too")
def test_many_pairs_of_trees_merge_as_plain_git_merges_them(tmp_path: Path) -> None:
    print(f"FUZZ_SEED={SEED}")
    mismatches = differences(tmp_path, range(int(os.environ.get("FUZZ_PAIRS") or 600)))
    assert not mismatches, "\n\n".join(mismatches)
