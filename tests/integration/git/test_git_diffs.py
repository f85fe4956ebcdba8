"""What differs between two states of a repository: whatever the user has configured, bounded, and without a trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from corral.core.errors import GitFailed
from corral.git import diffs, refs
from corral.git.diffs import FileChange
from corral.git.process.command import open_checkout
from tests.conftest import commit, git

HOSTILE = {
    "diff.noprefix": "true", "diff.external": "false", "color.ui": "always", "diff.context": "0", "diff.renames": "copies",
    "diff.algorithm": "patience", "diff.submodule": "log",
}  # fmt: skip


EMPTY = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


def objects(root: Path) -> set[str]:
    return {str(file) for file in (root / ".git" / "objects").rglob("*") if file.is_file()}


def test_a_patch_is_the_same_under_any_configuration_and_ends_where_it_is_told_to(
    make_repo: Callable[..., Path],
) -> None:
    root = make_repo()
    before = git(root, "rev-parse", "HEAD")
    git(root, "mv", "src/a.py", "src/moved.py")
    after = commit(root, {"README.md": "hello\nworld\n", "big.txt": "x\n" * 600_000})
    checkout = open_checkout(root)
    plain = diffs.between(checkout, before, after, most=10_000)
    for key, value in HOSTILE.items():
        git(root, "config", key, value)
    assert diffs.between(checkout, before, after, most=10_000) == plain
    assert plain.files == [
        FileChange("README.md", 1, 0), FileChange("big.txt", None, None),
        FileChange("src/a.py", 0, 1), FileChange("src/moved.py", 1, 0),
    ]  # fmt: skip
    assert plain.patch is not None and "diff --git a/README.md b/README.md" in plain.patch and not plain.truncated
    assert "Binary files" in plain.patch, "a large file's patch would tell nobody anything"
    cut = diffs.between(checkout, before, after, most=40)
    assert cut.truncated and cut.patch == plain.patch[:40]
    assert diffs.between(checkout, before, after, most=None) == diffs.Diff(plain.files, None, False)
    with pytest.raises(GitFailed):
        diffs.between(checkout, "1" * 40, after, most=10)


def test_a_checkout_shows_staged_unstaged_and_new_files_and_nothing_of_it_is_written(repo: Path) -> None:
    (repo / ".gitignore").write_text("ignored\n")
    before = commit(repo, {".gitignore": "ignored\n"})
    git(repo, "init", "-q", "nested")
    for name, text in {
        "README.md": "staged\n",
        "src/a.py": "unstaged\n",
        "new [1].txt": "new\n",
        "ignored": "x",
    }.items():
        (repo / name).write_text(text)
    git(repo, "add", "README.md")
    (repo / "src" / "b.py").unlink()
    checkout, there = open_checkout(repo), objects(repo)
    index, status = (repo / ".git" / "index").read_bytes(), git(repo, "status", "--porcelain")
    difference = diffs.to_checkout(checkout, before, most=10_000)
    assert difference.files == [
        FileChange("README.md", 1, 1), FileChange("new [1].txt", 1, 0),
        FileChange("src/a.py", 1, 1), FileChange("src/b.py", 0, 1),
    ]  # fmt: skip
    assert difference.patch is not None and "+staged" in difference.patch and "+new" in difference.patch
    assert {file[-38:] for file in objects(repo) - there} <= {EMPTY[2:]} and (
        repo / ".git" / "index"
    ).read_bytes() == index
    assert git(repo, "status", "--porcelain") == status
    assert refs.exists(checkout, before) and not refs.exists(checkout, "1" * 40)
