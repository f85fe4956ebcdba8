"""Fast-forward a checkout under git's own lock on its index, so that it cannot race with the user's git.

The new index is written to a copy beside the lock, and renamed into place when the target has moved. The order: lock,
note (``halfway``), files, copy of the index, target, index, end of the note, release of the lock. After a kill at any
point, :func:`recover` completes a fast-forward that has moved the target, and undoes any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote

from corral.core.crash import crash_point
from corral.core.errors import CorralError, GitFailed
from corral.git import refs
from corral.git.checkouts import index_lock
from corral.git.checkouts import listing as worktree_list
from corral.git.land import halfway, landed
from corral.git.process import running, stale
from corral.git.process.command import Git, Result

DRAIN_S = 2.0
"""Seconds to wait for git processes that may still write, over a landing, what they read before it."""

_ORPHAN_S = 10.0
_TRIES = 20
_IN_PROGRESS = {
    "MERGE_HEAD": ("a merge", "merge"),
    "CHERRY_PICK_HEAD": ("a cherry-pick", "cherry-pick"),
    "REVERT_HEAD": ("a revert", "revert"),
    "sequencer": ("a cherry-pick or revert of several commits", "cherry-pick"),
    "rebase-merge": ("a rebase", "rebase"),
    "rebase-apply/applying": ("a `git am`", "am"),
    "rebase-apply": ("a rebase", "rebase"),
}
"""By the file that shows it: the operation, and the git command that continues it."""


@dataclass(frozen=True)
class Tried:
    """The result of git; if it did not arrive, ``stuck`` are paths that could not be restored yet."""

    has_arrived: bool
    result: Result
    stuck: list[str]


class Busy(Exception):
    """The checkout cannot be changed now; nothing was. The text gives the reason.

    Attributes:
        remedy: What to type; empty if the state passes by itself, or the text says it.
    """

    def __init__(self, why: str, remedy: str = "") -> None:
        super().__init__(why)
        self.remedy = remedy


def fast_forward(
    checkout: Git, target_ref: str, new_sha: str, old_sha: str, *, drain_s: float = DRAIN_S
) -> Tried | None:
    """Move a checkout, and the target that it has checked out, from ``old_sha`` to ``new_sha``.

    Args:
        drain_s: Seconds to wait for git processes that were running before the lock was taken.

    Returns:
        The result of ``git merge --ff-only``; None if the target was not at ``old_sha`` any more.

    Raises:
        Busy: Another git is working in the checkout.
        OSError: Its git directory cannot be written.
        GitFailed: It could not be tried.
    """
    if (checkout.git_dir / "index").is_symlink():
        raise Busy(f"{checkout.git_dir / 'index'} is a symbolic link, which cannot be replaced under git's lock")
    _lock_between_gits(checkout, drain_s)
    crash_point("landing.index_locked")
    try:
        if refs.checked_out(checkout) != target_ref:
            raise Busy(f"{checkout.work_tree} is switching branches")
        for name, (what, command) in _IN_PROGRESS.items():
            if (checkout.git_dir / name).exists():
                remedy = f"Finish it: git -C {quote(str(checkout.work_tree))} {command} --continue (or --abort)"
                raise Busy(f"{what} is in progress in {checkout.work_tree}", remedy)
        if (refs.read(checkout, target_ref) or "") != old_sha:
            return None
        try:
            return _forward_under_lock(checkout, new_sha, old_sha)
        except (OSError, CorralError):
            conclude(checkout)
            raise
    finally:
        if halfway.read_note(checkout) is None:
            index_lock.release(checkout)


def _lock_between_gits(checkout: Git, drain_s: float) -> None:
    """Take the lock at a moment when no git of the user's is running.

    A running git must not meet the lock: a ``merge`` that cannot finish restores the user's changes from a stash, and
    loses them if the lock prevents that. A git that started just before the lock fails harmlessly at its first step.
    """
    tries_left = _TRIES if drain_s else 1
    while tries_left:
        tries_left -= 1
        if alive := running.wait(running.in_checkout(checkout), drain_s):
            raise Busy(f"{running.describe(alive[0])} is running in {checkout.work_tree}")
        if not index_lock.take(checkout):
            if not drain_s or not tries_left:
                raise Busy(index_lock.describe_blocker(checkout))
            continue
        begun = running.in_checkout(checkout)
        if not begun or (not tries_left and drain_s and not running.wait(begun, drain_s)):
            return
        index_lock.release(checkout)
        if not tries_left:
            raise Busy(f"{running.describe(begun[0])} is running in {checkout.work_tree}")


def _forward_under_lock(checkout: Git, new_sha: str, old_sha: str) -> Tried:
    note = halfway.write_note(checkout, old_sha, new_sha)
    crash_point("landing.noted")
    private = index_lock.copy_index(checkout)
    crash_point("landing.index_copied")
    result = checkout.run(
        "merge", "--ff-only", "--no-overwrite-ignore", "--no-autostash", "--no-verify-signatures", "--no-squash",
        "--no-stat", "--quiet", refs.oid(new_sha), timeout_s=600, index_file=private,
    )  # fmt: skip
    crash_point("landing.forwarded")
    has_arrived = note.has_arrived(checkout)
    if not (has_arrived and result.ok):  # killed after it had moved the target, it leaves its lock on HEAD
        return Tried(has_arrived, result, conclude(checkout))
    index_lock.replace_index(checkout, private)
    crash_point("landing.index_written")
    landed.record_state(checkout, note)
    halfway.delete_note(checkout)
    crash_point("landing.note_removed")
    # A git that was started since has read the old target and meets the lock; wait until it has ended.
    running.wait(running.in_checkout(checkout), DRAIN_S)
    index_lock.release(checkout)
    crash_point("landing.unlocked")
    return Tried(True, result, [])


def recover(repo: Git) -> list[tuple[Git, CorralError | OSError]]:
    """Recover every checkout of a repository after a kill under the lock; fast if there was none.

    Returns:
        The checkouts in which that failed, and why; one failure does not block the others.
    """
    failed: list[tuple[Git, CorralError | OSError]] = []
    for admin in worktree_list.admin_dirs(repo):
        checkout = Git(admin)
        try:
            if halfway.read_note(checkout) is not None or index_lock.is_left(checkout):
                place = worktree_list.work_tree_of(repo, admin)
                if place is not None and place.is_dir():
                    conclude(Git(admin, place))
        except (CorralError, OSError) as error:
            failed.append((checkout, error))
    return failed


def conclude(checkout: Git) -> list[str]:
    """Complete or undo an interrupted fast-forward in a checkout, and release a lock that is provably Corral's.

    Returns:
        Remains that could not be restored yet, for which the note stays: paths, or absolute names of locks that may be ours.

    Raises:
        GitFailed: A git that a killed daemon started is still running, or the state is unknown.
    """
    withdrawn = index_lock.withdraw_copies(checkout)
    orphans = running.with_index(lambda name: index_lock.is_copy(checkout, name))
    if alive := running.wait(orphans, _ORPHAN_S):
        raise GitFailed(
            f"{running.describe(alive[0])}, which an earlier daemon started, is still running in {checkout.work_tree}."
        )
    stuck: list[str] = []
    note = halfway.read_note(checkout)
    if note is not None:
        locked = _unlock_refs(checkout, note)
        if note.has_arrived(checkout):
            # If our lock was removed, the index may have been written since: then it is only verified.
            is_whole = index_lock.is_ours(checkout)
            if is_whole and withdrawn:
                index_lock.replace_index(checkout, withdrawn[-1])
            landed.record_state(checkout, note, is_whole=is_whole)
        else:
            stuck = halfway.restore_files(checkout, note)
        stuck = stuck or locked
    index_lock.drop_copies(checkout)
    if not stuck:
        halfway.delete_note(checkout)
    index_lock.release(checkout)
    return stuck


def _unlock_refs(checkout: Git, note: halfway.Note) -> list[str]:
    """Remove the locks on HEAD and the target that the fast-forward's git left when it was killed.

    Proof: the lock was created after that git's start, and either names the commit that only this landing writes there,
    or is empty or has that git's content, and no living git could have created it.

    Returns:
        Locks for which that is not certain yet.
    """
    target = refs.checked_out(checkout)
    written_for = {checkout.git_dir / "HEAD.lock": "", checkout.git_dir / "ORIG_HEAD.lock": note.old_sha}
    if target:
        written_for[checkout.common_dir / f"{target}.lock"] = note.new_sha
    uncertain = []
    for lock, sha in written_for.items():
        try:
            text, mtime = lock.read_text(errors="replace").strip(), lock.stat().st_mtime
        except OSError:
            continue
        if text not in ("", sha) or mtime < halfway.note_time(checkout):
            continue
        if text != note.new_sha and stale.may_be_gits(lock, checkout):
            uncertain.append(str(lock))
        else:
            lock.unlink(missing_ok=True)
    return uncertain
