"""Put a worktree of Corral's own on another commit, and list what a worktree holds besides its commit.

For folders that Corral created and nobody works in: files are replaced and removed. ``prove`` is called right before each
step, and returns the checkout only while the folder is provably Corral's.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from corral.git import refs
from corral.git.process.command import Git

Prove = Callable[[], Git]

CHECKOUT_S = 1800.0
"""Seconds that a checkout of any size may take."""

PARALLEL = {"checkout.workers": "0", "checkout.thresholdForParallelism": "1000"}
PLAIN_INDEX = {"core.splitIndex": "false", "core.untrackedCache": "false", "index.sparse": "false"}
"""One whole index file that states nothing about files that git did not read itself."""

_OWN = frozenset({"HEAD", "commondir", "gitdir", "index"})
_LEFT_BY_COMMANDS = frozenset({"logs", "ORIG_HEAD", "COMMIT_EDITMSG", "FETCH_HEAD", "AUTO_MERGE"})
"""Records that ordinary commands leave in the entry of a worktree, without effect on later commands."""

_KEPT = frozenset({"locked", "modules", "reftable"})
"""What protects a worktree, the clones of its submodules, and its HEAD in another format."""

_CONVERSION = (
    r"^(core\.(autocrlf|eol|safecrlf|attributesfile|symlinks|filemode|ignorecase|precomposeunicode)|filter\..*)$"
)


def fill(prove: Prove, commit: str) -> None:
    """Make the index and the tracked files those of a commit; files that have it already are not written again.

    Raises:
        PathReplaced: From ``prove``.
        GitFailed: Git could not; the next call continues.
    """
    prove().must("read-tree", "--reset", "-u", commit, config=PARALLEL | PLAIN_INDEX, timeout_s=CHECKOUT_S)


def lay_out(prove: Prove, sha: str) -> None:
    """Take the worktree off its branch, and make it hold exactly the files of a commit, beside those git ignores.

    Raises:
        PathReplaced: From ``prove``.
        GitFailed: Git could not; the next call continues.
    """
    prove().must("update-ref", "--no-deref", "HEAD", sha)
    fill(prove, sha)
    prove().must("clean", "-ffdq")


def put_on_branch(prove: Prove, ref: str) -> None:
    """Put HEAD on a branch, as in a worktree that was just made: without a record of what it was on before."""
    prove().must("symbolic-ref", "HEAD", ref)
    _drop_records(prove)


def extras(checkout: Git) -> list[str]:
    """List the items in git's entry of a worktree that a new worktree lacks and that may affect commands.

    A merge or rebase in progress, a lock, settings or refs of this worktree alone, its submodules' repositories.
    """
    expected = _OWN | _LEFT_BY_COMMANDS
    items = (item for item in sorted(checkout.git_dir.iterdir()) if item.name not in expected)
    return [item.name for item in items if not (item.name == "refs" and not any(_files(item)))]


def drop_state(checkout: Git) -> None:
    """Remove from git's entry all that a new worktree lacks, but what Corral keeps there: also the locks of a killed git."""
    kept = _OWN | _KEPT | ({"refs"} if (checkout.git_dir / "reftable").exists() else set())
    for item in checkout.git_dir.iterdir():
        if item.name not in kept and (not item.name.startswith("corral-") or item.suffix == ".lock"):
            _remove(item)


def _remove(place: Path) -> None:
    shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink(missing_ok=True)


def _drop_records(prove: Prove) -> None:
    """Remove from git's entry what :data:`_LEFT_BY_COMMANDS` names."""
    entry = prove().git_dir
    for name in sorted(_LEFT_BY_COMMANDS):
        _remove(entry / name)


def index_of(checkout: Git) -> tuple[dict[str, str], list[str]]:
    """The paths of the index with their modes, and the paths that git does not compare as it does others.

    Those are marked ``assume-unchanged`` or ``skip-worktree``, not merged, or submodules.
    """
    modes: dict[str, str] = {}
    odd = []
    for line in checkout.check("ls-files", "-v", "--stage", "-z").names:
        facts, _, path = line.partition("\t")
        mark, mode, _sha, stage = facts.split(" ")
        modes[path] = mode
        if mark != "H" or stage != "0" or mode == "160000":
            odd.append(path)
    return modes, odd


def count_entries(checkout: Git) -> int:
    """The number of entries in the index's own file, by its header; entries of a shared index do not count."""
    with (checkout.git_dir / "index").open("rb") as index:
        signature, _version, count = struct.unpack(">4sLL", index.read(12))
    return int(count) if signature == b"DIRC" else 0


def refresh(prove: Prove) -> None:
    """Store the current attributes of every file in the index; git compares the content where they differ.

    Raises:
        GitFailed: A file is not that of the index.
    """
    prove().must("update-index", "--really-refresh", config=PLAIN_INDEX, timeout_s=CHECKOUT_S)


def touched(checkout: Git) -> list[str]:
    """Tracked files that do not look as they did when the index was written."""
    return checkout.check("diff-files", "--name-only", "-z", config=PLAIN_INDEX, timeout_s=CHECKOUT_S).names


def has_heads_index(checkout: Git) -> bool:
    """Whether the index is HEAD's tree."""
    return checkout.run("diff-index", "--cached", "--quiet", "HEAD", "--", config=PLAIN_INDEX).ok


def conversion(repo: Git) -> str:
    """A digest of all settings outside of the tree that decide how files are written to a checkout."""
    result = repo.run("config", "--null", "--get-regexp", _CONVERSION)
    digest = hashlib.sha256(result.stdout)
    named = [line.partition("\n")[2] for line in result.names if line.startswith("core.attributesfile\n")]
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path(os.environ.get("HOME", "/"), ".config"))
    files = [
        Path(named[-1]).expanduser() if named else home / "git" / "attributes",
        repo.common_dir / "info/attributes",
    ]
    for file in files:
        digest.update(file.read_bytes() if file.is_file() else b"-")
    return digest.hexdigest()


def is_partial(repo: Git) -> bool:
    """Whether new worktrees begin with settings of their own, or with a part of the files."""
    return any((repo.common_dir / name).exists() for name in ("config.worktree", "info/sparse-checkout"))


def changes_rules(repo: Git, old: str, new: str) -> bool:
    """Whether a ``.gitattributes`` or a submodule differs between two commits: equal files may be written differently.

    Raises:
        GitFailed: One of them is not there.
    """
    changes = refs.raw_changes(repo, old, new)
    return any(
        PurePosixPath(step.path).name == ".gitattributes" or "160000" in (step.old_mode, step.new_mode)
        for step in changes
    )


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if not path.is_dir())
