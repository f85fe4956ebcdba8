"""``python -m bench replay``: what it says of a repository's own merges, and that it leaves the repository as it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from bench import replay

from tests.conftest import commit, git
from tests.support.merging import Class


def _merged(repo: Path, *branches: str, check: bool = True) -> None:
    git(repo, "merge", "-q", "--no-ff", "-m", "merged", *branches, check=check)


def _branch(repo: Path, name: str, files: dict[str, str]) -> None:
    git(repo, "checkout", "-q", "-b", name, "main")
    commit(repo, files)
    git(repo, "checkout", "-q", "main")


def _resolved(repo: Path) -> None:
    _branch(repo, "clash", {"shared": "theirs\n"})
    commit(repo, {"shared": "ours\n"})
    _merged(repo, "clash", check=False)
    commit(repo, {"shared": "both\n"})


def _every_file(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = [Path(top, name) for top, _, names in os.walk(folder) for name in names]
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


@pytest.fixture
def history(repo: Path) -> Path:
    """Five merges in a row, two branches that merged each other, a conflict that was resolved, and an octopus."""
    commit(repo, {"shared": "base\n"})
    for name in "abcde":
        _branch(repo, name, {name: "x\n"})
    for name in "abcde":
        _merged(repo, name)
    _branch(repo, "one", {"one": "1\n"})
    commit(repo, {"two": "2\n"})
    git(repo, "branch", "two")
    _merged(repo, "one")
    git(repo, "checkout", "-q", "one")
    _merged(repo, "two")
    commit(repo, {"more": "x\n"})
    git(repo, "checkout", "-q", "main")
    _merged(repo, "one")
    _resolved(repo)
    for name in "fg":
        _branch(repo, name, {name: "x\n"})
    _merged(repo, "f", "g")
    return repo


def test_a_repositorys_own_merges_are_made_again_and_it_stays_as_it_is(history: Path, tmp_path: Path) -> None:
    before = _every_file(history)
    result = replay.replay(history, tmp_path / "work")
    assert result.wrong == []
    assert (result.found, result.octopuses, result.criss_cross) == (9, 1, 1)
    assert sorted(plain.what.value for plain, _corral in result.checked.values()) == ["clean"] * 8 + ["conflict"]
    assert all(corral.what is plain.what for plain, corral in result.checked.values())
    assert result.as_recorded == 8, "the resolved conflict is nobody's merge but its author's"
    assert result.trains == {"landed with the recorded tree": 1}
    assert _every_file(history) == before


def test_what_is_not_as_plain_git_has_it_is_told(repo: Path, tmp_path: Path) -> None:
    _resolved(repo)
    Path(os.environ["HOME"], ".gitconfig").write_text("[merge]\n\tdefault = union\n")
    (wrong,) = replay.replay(repo, tmp_path / "work").wrong
    assert Class.CLEAN.value in wrong and Class.CONFLICT.value in wrong and "shared" in wrong, (
        "Corral unites nothing unasked"
    )
