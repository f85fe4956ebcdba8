"""Checkouts that hold all of their commit, as a fresh clone would have it, and proof of it before and after a run.

``git worktree add`` copies the sparse patterns of the main checkout, and marks in an index (``skip-worktree``,
``assume-unchanged``) hide files from git. A worktree that is verified therefore has an index that Corral alone writes, beside
the one that commands in it see. What git wrote is known by content, since a file whose attributes or filter do not round-trip
looks changed to git as soon as it is checked out.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corral.core.errors import GitFailed
from corral.git.checkouts import repointing, status
from corral.git.checkouts.repointing import CHECKOUT_S, PARALLEL, PLAIN_INDEX, Prove
from corral.git.process.command import Git

_INDEX = "corral-index"
_RULES = "corral-rules"
"""Beside that index: its commit, and a digest of the rules by which its files were written. Absent while they are written."""

_SPARSE = ("core.sparseCheckout", "core.sparseCheckoutCone", "index.sparse")

_AS_CLONED = {
    "core.sparseCheckout": "false",
    "core.autocrlf": "false",
    "core.eol": "native",
    "core.safecrlf": "false",
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    # The strictest comparison of a file's attributes that git has.
    "core.trustctime": "true",
    "core.checkStat": "default",
    "core.ignoreStat": "false",
}
"""The person's own rules do not decide what a candidate's files contain. ``info/attributes`` cannot be switched off."""

_NAMED = ("filter", "text", "eol", "ident", "working-tree-encoding")
_MOST_COMPARED = 200
"""Maximum number of files that git writes again to compare them; each takes a process."""


@dataclass(frozen=True)
class Whole:
    """A checkout that was laid out whole.

    Attributes:
        converted: Of each file that git called changed right after it had written it: a digest of what it wrote.
    """

    checkout: Git
    converted: Mapping[str, str]

    def changed(self) -> list[str]:
        """Tracked files that are not as git wrote them, whatever marks the checkout's own index has.

        Raises:
            GitFailed: Git could not look.
        """
        top = self.checkout.top
        paths = [path for path in _dirty(self.checkout) if self.converted.get(path) != _digest(top / path)]
        return sorted(_not_as_written(self.checkout, paths)) if paths else []

    def touched(self, since: float) -> list[str]:
        """Tracked files that something has written since an instant, even if they have the same content again.

        Args:
            since: By the clock of the file system, seconds since the epoch.

        Raises:
            GitFailed: Git could not look.
        """
        # Git itself takes a file for unchanged that was written in the second in which it was laid out, and has its time again.
        staged = status.staged(self.checkout, **_options(self.checkout))
        files = (path for path, (mode, _) in staged.items() if mode != "160000")
        return [path for path in files if _is_changed_since(self.checkout.top / path, since)]


def complete(checkout: Git) -> None:
    """Take away the sparse patterns that git copied into a new worktree of Corral's; other settings stay.

    Raises:
        GitFailed: Git could not.
    """
    _drop_patterns(checkout)
    own = checkout.git_dir / "config.worktree"
    if own.exists():
        for key in _SPARSE:
            checkout.run("config", "--file", str(own), "--unset-all", key)
        if not checkout.check("config", "--file", str(own), "--list").stdout:
            own.unlink()


def fill(checkout: Git, *, sparse: bool) -> None:
    """Check out a new worktree's HEAD: every file of it, also of one whose index hides some.

    Args:
        sparse: Follow the patterns that git has copied from the main checkout instead.

    Raises:
        GitFailed: Git could not.
    """
    if not sparse:
        complete(checkout)
        if (checkout.git_dir / "index").exists() and hidden(checkout):
            (checkout.git_dir / "index").unlink()
    try:
        repointing.fill(lambda: checkout, "HEAD")
    except GitFailed as error:
        raise explain_failure(error) from None


def lay_out(prove: Prove, sha: str) -> Whole:
    """Make a worktree that nobody works in hold exactly the files of a commit, beside those git ignores; and prove it.

    It is taken off its branch, and loses settings, patterns and refs of its own, and whatever a run has begun there (a merge, a
    bisection). Submodules are left empty, as in a fresh clone.

    Raises:
        PathReplaced: From ``prove``.
        GitFailed: Git could not, or not all files are there; the next call continues.
    """
    checkout = prove()
    _drop_patterns(checkout)
    repointing.drop_state(checkout)
    rules, index = repointing.conversion(checkout), checkout.git_dir / _INDEX
    is_written = _is_written_alike(checkout, sha, rules)
    checkout.must("update-ref", "--no-deref", "HEAD", sha)
    _write(prove, sha)
    if not is_written:  # only now no .gitattributes of another commit is left
        index.unlink()
        _write(prove, sha)
    _copy_index(checkout)
    whole = _prove_complete(prove())
    (checkout.git_dir / _RULES).write_text(f"{sha} {rules}")
    return whole


def hidden(checkout: Git, index_file: Path | None = None) -> list[str]:
    """Paths of an index (None: the checkout's own) that git does not look at, or that stand for a whole folder."""
    lines = checkout.check("ls-files", "-v", "-z", "--sparse", index_file=index_file).names
    return [line[2:] for line in lines if line[0] != "H"]


def attributes(checkout: Git, paths: Sequence[str]) -> dict[str, str]:
    """The attributes that decide how git writes files, in words (``filter=lfs``, ``text``); by path, if a file has any."""
    text = "\0".join(paths).encode("utf-8", "surrogateescape")
    fields = checkout.check("check-attr", "-z", "--stdin", *_NAMED, input=text, **_options(checkout)).text.split("\0")
    named: dict[str, list[str]] = {}
    for path, name, value in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
        if value not in ("unspecified", "unset"):
            named.setdefault(path, []).append(name if value == "set" else f"{name}={value}")
    return {path: " ".join(words) for path, words in named.items()}


def explain_failure(error: GitFailed) -> GitFailed:
    """A failure of a checkout, or, for one by a filter or in a partial clone, another one with its cause and remedy."""
    stderr = str(error.details.get("stderr", ""))
    missing = re.search(r"could not fetch \S+ from promisor remote|promisor object", stderr)
    if missing:
        return GitFailed(
            f"Objects of the commit are not in this partial clone: {missing[0]}.",
            cause="The clone was made with --filter, and its remote did not give them without a password. To have all of "
            "them: `git config --unset remote.origin.partialCloneFilter && git fetch --refetch`.",
            details=error.details,
        )
    if not re.search(r"smudge filter \S+ failed|external filter|the remote end hung up|filter-process", stderr):
        return error
    named = re.search(r"smudge filter (\S+) failed", stderr)
    which = f"The filter {named[1]!r}" if named else "A filter of the repository's .gitattributes"
    first = next((line for line in stderr.splitlines() if line.strip()), "")
    return GitFailed(
        f"{which} could not write the files of the commit: {first[:200]}",
        cause="Its program is missing or failed, and the git configuration requires it (`git config --get-regexp "
        "'^filter'`). Install the program where the daemon finds it (for lfs: git-lfs), then `corral daemon restart`.",
        details=error.details,
    )


def _options(checkout: Git, more: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The options for git in a verified checkout: Corral's index, and not the person's rules."""
    return {
        "index_file": checkout.git_dir / _INDEX,
        "config": {**PLAIN_INDEX, **_AS_CLONED, **(more or {})},
        "env": {"GIT_ATTR_NOSYSTEM": "1"},
    }


def _drop_patterns(checkout: Git) -> None:
    patterns = checkout.git_dir / "info" / "sparse-checkout"
    patterns.unlink(missing_ok=True)
    with suppress(OSError):  # it does not exist, or holds something else
        patterns.parent.rmdir()


def _write(prove: Prove, sha: str) -> None:
    checkout = prove()
    try:
        checkout.must("read-tree", "--reset", "-u", sha, timeout_s=CHECKOUT_S, **_options(checkout, PARALLEL))
    except GitFailed as error:
        raise explain_failure(error) from None
    _empty_submodules(prove())
    prove().must("clean", "-ffdq", timeout_s=CHECKOUT_S, **_options(checkout))


def _is_written_alike(checkout: Git, sha: str, rules: str) -> bool:
    """Whether the files that are there, and that the commit has too, are as git would write them now."""
    index, noted = checkout.git_dir / _INDEX, checkout.git_dir / _RULES
    before, _, then = noted.read_text().partition(" ") if noted.is_file() and not noted.is_symlink() else ("", "", "")
    noted.unlink(missing_ok=True)
    if index.is_symlink():
        index.unlink()
    if not any(item.name != ".git" for item in checkout.top.iterdir()):
        index.unlink(missing_ok=True)
        return True
    try:
        return then == rules and index.exists() and not repointing.changes_rules(checkout, before, sha)
    except GitFailed:  # the earlier commit is gone
        return False


def _copy_index(checkout: Git) -> None:
    """Give the commands of a run an index to work with; its time stays, by which git decides what is unchanged."""
    copied = checkout.git_dir / f"{_INDEX}.copy"
    copied.unlink(missing_ok=True)
    shutil.copy2(checkout.git_dir / _INDEX, copied)
    copied.replace(checkout.git_dir / "index")


def _empty_submodules(checkout: Git) -> None:
    """Empty the submodules that commands of an earlier run filled: their commits belong to another candidate."""
    for path, (mode, _) in status.staged(checkout, **_options(checkout)).items():
        place = checkout.top / path
        if mode == "160000" and place.is_dir() and not place.is_symlink() and any(place.iterdir()):
            shutil.rmtree(place)
            place.mkdir()


def _prove_complete(checkout: Git) -> Whole:
    hides = hidden(checkout, checkout.git_dir / _INDEX)
    dirty = _dirty(checkout)
    top = checkout.top
    lacking = hides or [path for path in dirty if not os.path.lexists(top / path)]
    if lacking:
        raise GitFailed(
            f"The verification worktree is not whole: it lacks {', '.join(lacking[:5])}.",
            cause="Two paths of the commit may be one on this file system, or a process removes files there.",
        )
    return Whole(checkout, {path: _digest(top / path) for path in dirty})


def _dirty(checkout: Git) -> list[str]:
    return [change.path for change in status.changes(checkout, untracked=False, **_options(checkout))]


def _is_changed_since(file: Path, since: float) -> bool:
    try:
        return file.lstat().st_ctime >= since
    except OSError:
        return True


def _digest(file: Path) -> str:
    """The kind of a file and a digest of its content; empty if it is neither a file nor a link."""
    try:
        file_stat = file.lstat()
        if stat.S_ISLNK(file_stat.st_mode):
            return f"link {os.readlink(file)}"  # noqa: PTH115 - as it is written
        if not stat.S_ISREG(file_stat.st_mode):
            return ""
        return f"{file_stat.st_mode & stat.S_IXUSR} {hashlib.sha256(file.read_bytes()).hexdigest()}"
    except OSError:
        return ""


def _not_as_written(checkout: Git, paths: Iterable[str]) -> list[str]:
    """The files whose content is not what git would write, among those that look changed to git."""
    dirty = set(paths)
    listed = status.staged(checkout, **_options(checkout))
    compared = sorted(dirty)[:_MOST_COMPARED]
    return [path for path in sorted(dirty) if path not in compared or not _is_as_written(checkout, path, listed)]


def _is_as_written(checkout: Git, path: str, listed: Mapping[str, tuple[str, str]]) -> bool:
    mode, sha = listed.get(path, ("", ""))
    if not mode.startswith("100"):
        return False
    written = checkout.run("cat-file", "--filters", f"--path={path}", sha, **_options(checkout))
    executable = stat.S_IXUSR if mode == "100755" else 0
    return written.ok and _digest(checkout.top / path) == f"{executable} {hashlib.sha256(written.stdout).hexdigest()}"
