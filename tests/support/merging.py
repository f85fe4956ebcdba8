"""Two commits merged in two ways: by plain ``git merge`` in a worktree as a user has one, and by Corral without a checkout."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path

from corral.core.errors import GitFailed, Unsupported
from corral.git.commits import CORRAL
from corral.git.land import candidates
from corral.git.land.candidates import Candidate
from corral.git.process.command import Git, as_env

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


class Class(Enum):
    """What comes of a merge."""

    CLEAN = "clean"
    CONFLICT = "conflict"
    NOTHING = "nothing to merge"
    UNRELATED = "unrelated"
    FAILED = "not tried"
    """It could not be tried; that says nothing about the commits."""


@dataclass(frozen=True)
class Merged:
    """The result of a merge.

    Attributes:
        tree: Of a clean one.
        paths: The conflicting paths. Where git moves a side away, to a name with a commit's in it, that is ``~ours``.
        text: What was said, which is not compared.
    """

    what: Class
    tree: str = ""
    paths: frozenset[str] = frozenset()
    text: str = field(default="", compare=False)


class PlainGit:
    """The git of a user, who merges in a worktree of the repository that nobody else uses."""

    def __init__(self, repository: Path, checkout: Path, start: str) -> None:
        self._checkout = checkout
        subprocess.run(
            ["git", f"--git-dir={repository}", "worktree", "add", "-q", "--no-checkout", "--detach", checkout, start],
            check=True,
            stdin=subprocess.DEVNULL,
        )
        self._index = Path(self._git("rev-parse", "--path-format=absolute", "--git-path", "index").stdout.strip())

    def _git(self, *args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", *args],
            cwd=self._checkout,
            env={**os.environ, **as_env(CORRAL), "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
        )

    def merge(self, ours: str, theirs: str) -> Merged:
        """Merge ``theirs`` in a checkout of ``ours``; nothing is committed."""
        gone_to = self._git("checkout", "-q", "-f", "--detach", ours)
        if gone_to.returncode:
            return Merged(Class.FAILED, text=gone_to.stderr)
        # What git wrote just now it compares with the object, and finds changed where its own conversion is not reversible.
        later = time.time() + 5
        os.utime(self._index, (later, later))
        merge = self._git("merge", "-q", "--no-commit", "--no-ff", "--no-autostash", theirs)
        text = merge.stdout + merge.stderr
        if merge.returncode == -signal.SIGABRT:  # a fault of git's own, of which its lock is left
            self._index.with_name("index.lock").unlink(missing_ok=True)
            return Merged(Class.CONFLICT, text=text)
        if "refusing to merge unrelated histories" in text:
            return Merged(Class.UNRELATED, text=text)
        if merge.returncode == 0:
            is_merge = self._git("rev-parse", "-q", "--verify", "MERGE_HEAD").returncode == 0
            tree = self._git("write-tree").stdout.strip()
            return Merged(Class.CLEAN, tree) if is_merge else Merged(Class.NOTHING)
        listed = self._git("ls-files", "-z", "--unmerged").stdout.split("\0")
        self._git("clean", "-qffdx")
        if "CONFLICT" not in text and len(listed) == 1:
            return Merged(Class.FAILED, text=text)
        paths = frozenset(entry.partition("\t")[2].replace("~HEAD", "~ours") for entry in listed if entry)
        return Merged(Class.CONFLICT, paths=paths, text=text)


def corrals(repo: Git, ours: str, theirs: str) -> Merged:
    """What Corral makes of them."""
    try:
        built = candidates.build(repo, ours, theirs, "merged\n", CORRAL, AT)
    except Unsupported as error:
        return Merged(Class.UNRELATED, text=error.message)
    except GitFailed as error:
        return Merged(Class.FAILED, text=f"{error.message} {error.details}")
    if built is None:
        return Merged(Class.NOTHING)
    if isinstance(built, Candidate):
        return Merged(Class.CLEAN, built.tree)
    paths = frozenset(conflict.path.replace(f"~{ours}", "~ours") for conflict in built.paths)
    return Merged(Class.CONFLICT, paths=paths, text=built.text)


def agree(plain: Merged, corral: Merged) -> bool:
    """Whether the same came of both.

    Some conflicts leave no file to resolve; Corral then names the paths that git's message does. At others git aborts, some
    only when it writes them to the index.
    """
    return plain == corral or (plain == Merged(Class.CONFLICT) and corral.what is Class.CONFLICT)
