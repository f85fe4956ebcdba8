"""A dry run of the verification: do its commands pass on the target's tip, in a fresh worktree?

Where they fail and their output names a file that the main checkout has and a fresh worktree lacks (ignored by git, or not
committed), that file is copied and the commands run again: what then passes is evidence, and not a guess. Nothing is stored;
the worktree is of this run alone and goes with it. One that a dead daemon left is taken down by the next start.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any

from corral.config.links import make_own_folder
from corral.config.sections.sharing import Landing
from corral.core.clock import AwakeClock
from corral.core.errors import CorralError, PathReplaced
from corral.core.log_files import DRY_RUN_LOG
from corral.core.states import ReceiptStatus
from corral.git.process.command import Git, open_checkout
from corral.landing.verify import blame
from corral.landing.verify.verification import KeeperPlace, Verification, end_marked, marks
from corral.landing.verify.verification_context import DRY_RUN, VerificationContext
from corral.landing.verify.verification_worktree import VerificationWorktree
from corral.runners import keeping
from corral.work.worktrees.provision import OWN_SETTINGS

ROUNDS = 5
"""Runs at most: an output names one missing file at a time."""
MOST_NAMED = 20
MOST_GUESSED = 5
"""Ignored files that are mentioned to a person although no output names them."""
MOST_BYTES = 50_000_000
"""Larger files (dependencies, data) are left to recipes."""
_CACHES = frozenset({"__pycache__", ".git", ".corral"})


@dataclass(frozen=True)
class Missing:
    """Files that the main checkout has and a fresh worktree lacks.

    Attributes:
        path: Repository-relative; a folder that git ignores as a whole ends in ``/``.
        ignored: Whether git ignores it; otherwise it is not committed.
    """

    path: str
    ignored: bool


@dataclass(frozen=True)
class Finding:
    """How a dry run ended.

    Attributes:
        reason: Of the first run that was not green; None where that one was.
        inputs: What it took beside the commit, as a receipt names it.
        needed: With these files, and not without, the commands passed.
        suspected: They still fail, and these files are named in the output, or, where none is, ignored by git.
        unfinished: The dry run's own time was over before the commands ended: nothing is known about them.
    """

    status: ReceiptStatus
    reason: str | None
    log: Path
    inputs: dict[str, Any]
    needed: list[Missing] = field(default_factory=list)
    suspected: list[Missing] = field(default_factory=list)
    unfinished: bool = False


class DryRun:
    """A dry run in progress. The constructor starts it, :meth:`step` returns the finding at its end, :meth:`close` must follow.

    Args:
        sha: The target's tip.
        limit_s: Seconds for everything together, in which the daemon was awake.
    """

    def __init__(
        self, repo: Git, context: VerificationContext, landing: Landing, sha: str, limit_s: float, now: datetime
    ) -> None:
        self._context = context
        self._landing = landing
        self._worktree = VerificationWorktree(context.db, context.places, repo, DRY_RUN)
        self._limit_s = limit_s
        self._awake = AwakeClock()
        self._until = self._awake.at(now) + timedelta(seconds=limit_s)
        self._log = make_own_folder(context.project.logs_dir, context.project.root) / DRY_RUN_LOG
        self._log.unlink(missing_ok=True)
        self._first_reason: str | None = None
        self._copied: list[Missing] = []
        self._rounds = 0
        self._run: Verification | None = None
        with suppress(PathReplaced):  # leave what stands there, and take the next place
            self._worktree.retire(now)  # begin with a fresh worktree
        self._laid = self._worktree.lay_out(sha, now)
        self._prepared = context.prepare(self._worktree, sha)
        self._missing = list(_lacking(context.project.root, self._worktree.path)) if not context.project.bare else []
        self._start(now)

    def step(self, now: datetime) -> Finding | None:
        """Poll without waiting; returns the finding, once."""
        assert self._run is not None
        verdict = self._run.poll(now)
        is_over = self._awake.at(now) >= self._until
        if verdict is None and not is_over:
            return None
        if verdict is None:
            self._run.stop()
        self._run.close()
        if verdict is None and self._first_reason is None:
            reason = f"`{self._run.command}` had not ended after {self._limit_s:g} s, the time limit of this dry run."
            return Finding(ReceiptStatus.ERROR, reason, self._log, self._prepared.inputs, unfinished=True)
        if verdict is None:
            return self._failed(ReceiptStatus.ERROR)
        if verdict.status is ReceiptStatus.PASSED:
            return Finding(verdict.status, self._first_reason, self._log, self._prepared.inputs, needed=self._copied)
        self._first_reason = self._first_reason or verdict.reason
        files = [file for file in self._missing if file not in self._copied and _names(self._output(), file.path)]
        if not files or self._rounds >= ROUNDS or is_over:
            return self._failed(verdict.status)
        for file in files[:MOST_NAMED]:
            _copy(self._context.project.root / file.path, self._worktree.path / file.path)
            self._copied.append(file)
        self._start(now)
        return None

    def _failed(self, status: ReceiptStatus) -> Finding:
        suspected = self._copied or [file for file in self._missing if file.ignored][:MOST_GUESSED]
        return Finding(status, self._first_reason, self._log, self._prepared.inputs, suspected=suspected)

    def close(self, now: datetime) -> None:
        """End what runs, and take the worktree down."""
        if self._run is not None:
            self._run.stop()
            self._run.close()
        self._worktree.retire(now)

    def _start(self, now: datetime) -> None:
        self._rounds += 1
        self._run = Verification(
            self._laid,
            list(self._landing.verify),
            project_id=self._context.project_id,
            env=self._context.environment(self._prepared.env),
            log=self._log,
            keeper=KeeperPlace(_keeper(self._context)),
            put_off_sealing=self._context.put_off_sealing,
            timeout_s=self._landing.timeout_s,
            now=now,
        )

    def _output(self) -> str:
        with self._log.open("rb") as file:
            file.seek(max(0, self._log.stat().st_size - 256 * 1024))
            return file.read().decode("utf-8", "replace")


def take_down(repo: Git, context: VerificationContext, now: datetime) -> None:
    """Remove what a dry run of a dead daemon left: its processes, then its worktree."""
    worktree = VerificationWorktree(context.db, context.places, repo, DRY_RUN)
    if not worktree.is_there:
        return
    keeping.forget(_keeper(context))
    end_marked(marks(worktree.path, context.project_id))
    worktree.retire(now)


def _keeper(context: VerificationContext) -> Path:
    return context.project.verifications_dir / DRY_RUN


def _lacking(main: Path, worktree: Path) -> Iterator[Missing]:
    """Files of the main checkout that neither git nor a recipe brings, small enough to be copied."""
    checkout = open_checkout(main)
    for ignored, words in ((True, ("--ignored", "--directory")), (False, ())):
        for path in checkout.check("ls-files", "--others", "--exclude-standard", "-z", *words).names:
            parts = PurePosixPath(path).parts
            is_others = path != OWN_SETTINGS and not _CACHES.intersection(parts)
            if is_others and not os.path.lexists(worktree / path) and _is_small(main / path):
                yield Missing(path, ignored)


def _is_small(path: Path) -> bool:
    if path.is_symlink():
        return False
    if not path.is_dir():
        return path.is_file() and path.stat().st_size <= MOST_BYTES
    if (path / "CACHEDIR.TAG").exists() or (path / ".git").exists() or (path / "pyvenv.cfg").exists():
        return False
    size = 0
    for count, file in enumerate(path.rglob("*")):
        size += file.lstat().st_size
        if size > MOST_BYTES or count > 2000:
            return False
    return True


def _names(output: str, path: str) -> bool:
    """Whether an output names a path: as it is, by its last part, or as a Python module."""
    plain = path.rstrip("/")
    parts = PurePosixPath(plain.removesuffix(".py")).parts
    modules = {".".join(parts[start:]) for start in range(len(parts) - 1)} if plain.endswith(".py") else set()
    if plain.endswith(".py") and re.search(rf"No module named '{re.escape(parts[-1])}'", output):
        return True  # a module by its bare name, which may be any word, only where Python says that it is missing
    words = {plain, PurePosixPath(plain).name, *modules}
    return any(re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w-])", output) for word in words if len(word) > 3)


def _copy(source: Path, place: Path) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, place, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy2(source, place)
    except OSError as error:
        raise CorralError(f"{source} could not be copied for the dry run.", cause=blame.describe(error)) from error
