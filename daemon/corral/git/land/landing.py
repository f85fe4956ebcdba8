"""Move a target branch to a commit that was built on it: by compare-and-swap, or through the checkout that has it.

Never forced, and never harmful to a checkout: ``merge --ff-only`` keeps changes that do not overlap and refuses the
rest; with the right option that includes ignored files. It runs under git's own lock on the index (``forward``), and a
failure half-way is undone (``halfway``). Moving a ref under a checkout would make that checkout look as if it reverted
the landing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from shlex import quote

from corral.core import files
from corral.core.errors import InvalidInput
from corral.git import refs
from corral.git.checkouts import index_lock
from corral.git.checkouts import listing as worktree_list
from corral.git.land import forward, halfway, landed
from corral.git.process.command import Git, Outcome, Result, open_checkout

_LOCK = re.compile(r"'(/.*\.lock)': File exists")
_MOST_TYPED = 5
"""Maximum number of files in a command for the user to type."""
OVERLAP = "overlap with the changes to land"
"""Part of the reason where a person's uncommitted work would be overwritten."""
RESTS = "it lands when that checkout is idle for a moment"
"""Ends the reason where somebody has just worked with git: nobody has to do anything."""
_LEFT_HALFWAY = "holds files of a landing that failed half-way and cannot be restored yet"


@dataclass(frozen=True)
class Landed:
    """The commit is reachable from the target."""

    sha: str


@dataclass(frozen=True)
class Moved:
    """The target is no longer at the candidate's base, or is gone."""


@dataclass(frozen=True)
class InTheWay:
    """A checkout has the target and cannot take the commit now. Nothing changed; try again later.

    Attributes:
        remedy: What to type, or to do; empty if the state passes by itself, or the reason says it.
    """

    reason: str
    paths: list[str]
    remedy: str = ""


def land(
    repo: Git, target_ref: str, new_sha: str, old_sha: str, *, quiet_since: datetime | None = None
) -> Landed | Moved | InTheWay:
    """Land ``new_sha``, a descendant of ``old_sha``, on a target that is at ``old_sha`` (``""``: has no commit yet).

    Safe to repeat after a crash: a commit that is already reachable has landed.

    Args:
        quiet_since: Land through a checkout only if no other git is running in it, or has written in it after this
            instant;
            None: if no git is running in it.

    Raises:
        InvalidInput: ``new_sha`` does not descend from ``old_sha``.
        GitFailed: It could not be tried, or the remains of a killed landing in the target's checkout cannot be undone.
        OSError: The same.
    """
    target_ref = refs.followed(repo, target_ref)  # that branch would move, and so would the checkout that has it
    for checkout, error in forward.recover(repo):
        if refs.checked_out(checkout) == target_ref:
            raise error
    current = refs.read(repo, target_ref)
    is_forward = (current or "") == old_sha and (not old_sha or refs.is_ancestor(repo, old_sha, new_sha))
    if current is not None and (new_sha == current or not is_forward) and refs.is_ancestor(repo, new_sha, current):
        return Landed(new_sha)
    if (current or "") != old_sha:
        return Moved()
    if not is_forward:
        raise InvalidInput(f"{new_sha} does not descend from {old_sha}.", cause="Landing never rewrites a branch.")
    if blocked := _rebase_of(repo, target_ref):
        return blocked
    holders = worktree_list.holding(repo, target_ref)
    if len(holders) > 1:
        places = ", ".join(str(entry.path) for entry in holders)
        remedy = f"Detach it in one of them: git -C {quote(str(holders[-1].path))} switch --detach"
        return InTheWay(f"{target_ref} is checked out in several worktrees: {places}", [], remedy)
    if holders and (holders[0].prunable or not holders[0].path.is_dir()):
        unlock = "" if holders[0].locked is None else f"git worktree unlock {quote(str(holders[0].path))} && "
        remedy = f"Restore that folder; if it is gone for good: {unlock}git worktree prune"
        return InTheWay(f"{target_ref} is checked out in {holders[0].path}, which cannot be reached", [], remedy)
    if holders:
        return _land_in_checkout(holders[0].path, target_ref, new_sha, old_sha, quiet_since)
    if refs.compare_and_swap(repo, target_ref, new_sha, old_sha, why="corral: landed"):
        return Landed(new_sha)
    return Moved()


def to_verify(repo: Git) -> list[tuple[Git, datetime]]:
    """The checkouts through which a commit has landed and must be checked (``landed.verify``), and when."""
    checkouts = []
    for admin in worktree_list.admin_dirs(repo):
        at = landed.due_at(Git(admin))
        place = worktree_list.work_tree_of(repo, admin) if at else None
        if at and place is not None and place.is_dir():
            checkouts.append((Git(admin, place), at))
    return checkouts


def _land_in_checkout(
    path: Path, target_ref: str, new_sha: str, old_sha: str, quiet_since: datetime | None
) -> Landed | Moved | InTheWay:
    checkout = open_checkout(path)
    if refs.checked_out(checkout) != target_ref:
        return InTheWay(f"{path} is switching branches", [])
    if halfway.read_note(checkout) is not None and (stuck := forward.conclude(checkout)):
        return _not_restored(checkout, stuck)
    if quiet_since is not None and landed.was_written(checkout, quiet_since):
        return InTheWay(f"a git has just been running in {path}: {RESTS}", [])
    try:
        # In an idle checkout, a git that has just started goes first; in a busy one, the landing waits for a moment
        # between two.
        drain_s = forward.DRAIN_S if quiet_since is None else 0
        tried = forward.fast_forward(checkout, target_ref, new_sha, old_sha, drain_s=drain_s)
    except forward.Busy as busy:
        return InTheWay(str(busy), [], busy.remedy)
    except OSError as error:
        remedy = f"Make it writable, or free space there: ls -ld {quote(str(checkout.git_dir))}"
        return InTheWay(f"cannot write in {checkout.git_dir}: {error.strerror}", [], remedy)
    if tried is None:
        return Moved()
    if tried.has_arrived:
        files.flush(path)  # a power cut must not leave the files empty of which the index says that they landed
        return Landed(new_sha)
    result = tried.result
    if tried.stuck:
        return _not_restored(checkout, tried.stuck, f"{_reason(path, result)}; ")
    if "Not possible to fast-forward" in result.stderr:
        return Moved()
    if result.outcome is Outcome.LOCK and (lock := _LOCK.search(result.stderr)):
        return InTheWay(index_lock.describe_blocker(checkout, Path(lock[1])), [])
    # Without a message it is no refusal: an object is missing, e.g. deleted by a `gc --prune=now` before it was held.
    if result.stderr.strip() and (result.outcome is Outcome.REFUSED or result.rc == 128):
        paths = _named_paths(result.stderr)
        return InTheWay(_reason(path, result), paths, _commands_for(path, paths))
    raise result.failure()


def _not_restored(checkout: Git, stuck: list[str], why: str = "") -> InTheWay:
    if Path(stuck[0]).is_absolute():
        return InTheWay(index_lock.describe_blocker(checkout, Path(stuck[0])), [])
    return InTheWay(f"{why}{checkout.work_tree} {_LEFT_HALFWAY}", stuck)


def _reason(path: Path, result: Result) -> str:
    if "would be overwritten" in result.stderr or "would lose untracked" in result.stderr:
        return f"uncommitted changes in {path} {OVERLAP}"
    message = next((line for line in result.stderr.splitlines() if line.strip()), f"exit code {result.rc}")
    return f"{path}: {message.removeprefix('error: ').removeprefix('fatal: ')}"


def _commands_for(path: Path, paths: list[str]) -> str:
    """Commands for the user about files of theirs that a landing would overwrite."""
    at = f"git -C {quote(str(path))}"
    if not paths:
        return f"Look at them: {at} status"
    named = " ".join(quote(file) for file in paths[:_MOST_TYPED])
    named += " …" if len(paths) > _MOST_TYPED else ""
    return f"Commit them: {at} add -- {named} && {at} commit -m 'Work in progress' -- {named}; or move them away."


def _named_paths(stderr: str) -> list[str]:
    # Git lists the paths one per line, indented by a tab, unquoted.
    return sorted({line[1:] for line in stderr.split("\n") if line.startswith("\t")})


def _rebase_of(repo: Git, target_ref: str) -> InTheWay | None:
    """A rebase of the target in some worktree: its end would fail, or undo the landing."""
    for admin in worktree_list.admin_dirs(repo):
        for state in ("rebase-merge", "rebase-apply"):
            try:
                name = (admin / state / "head-name").read_text(errors="surrogateescape").strip()
            except OSError:
                continue
            if name == target_ref:
                folder = worktree_list.folder_of(admin)
                remedy = f"Finish that rebase: git -C {quote(str(folder))} rebase --continue (or --abort)"
                return InTheWay(f"{target_ref} is being rebased in {folder}", [], remedy)
    return None
