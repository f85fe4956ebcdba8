"""What a worker has made: its left-overs committed, its commits found wherever it left them, nothing dropped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from corral.errors import GitFailed
from corral.git import candidates, refs
from corral.git.command import Git, Identity, open_checkout
from corral.git.commits import commit_leftovers
from corral.git.identity import effective
from corral.git.salvage import PREFIX
from corral.models.identifiers import new_id
from corral.work.allocation import Grounds
from corral.work.attempts import Ending, Harvest

Row = dict[str, Any]

TRAILER = "Corral-Task"


def harvest(grounds: Grounds, task: Row, worktree: Row, result: Row | None, usage: Row) -> Ending:
    """Bring a finished worker's work into a state that can land: committed, on the task's branch, and held.

    What counts is the commit that the worktree's HEAD is at, wherever the worker switched to, if it descends from what the
    task started at.

    Returns:
        Success, with what is to be landed (None: nothing was changed), or ``not_descendant``.

    Raises:
        CorralError: Git refused; the worktree is as it was.
    """
    checkout = open_checkout(Path(worktree["path"]))
    exclude = worktree["provision"].get("exclude", ())
    who = committer(checkout, task)
    made = commit_leftovers(checkout, task["title"], {TRAILER: task["task_id"]}, who, exclude=exclude)
    head, base = made or checkout.head(), worktree["base_sha"]
    ref = refs.branch_ref(worktree["branch"])
    tip = refs.read(grounds.repo, ref)
    if head is not None and tip is not None and tip != head and refs.is_ancestor(grounds.repo, head, tip):
        head = tip  # it looked at an older commit and left HEAD there: the branch has all of it, and more
    if head is None or (head != base and not refs.is_ancestor(grounds.repo, base, head)):
        message = f"Its HEAD is not a descendant of {base[:12]}, where the task started."
        return Ending(False, "not_descendant", message, retryable=False, result=result, usage=usage)
    if head == base:
        return Ending(True, result=result, usage=usage)
    if tip != head:
        _move_branch(grounds, worktree, ref, tip, head)
    merge_id = new_id()
    candidates.hold(grounds.repo, merge_id, head)
    landing = Harvest(merge_id, worktree["branch"], task["target"], base, head)
    return Ending(True, result=result, usage=usage, harvest=landing)


def committer(git: Git, task: Row) -> Identity:
    """Who commits for a task: git's configuration, else whoever submitted it, else Corral."""
    name, email = task["author_name"], task["author_email"]
    return effective(git, Identity(name, email) if name and email else None)


def _move_branch(grounds: Grounds, worktree: Row, ref: str, tip: str | None, head: str) -> None:
    """Point the task's branch at what counts; what it held besides stays on a salvage ref."""
    if tip is not None and not refs.is_ancestor(grounds.repo, tip, head):
        aside = f"{PREFIX}{worktree['name']}/{grounds.clock():%Y%m%dT%H%M%S%fZ}"
        if not refs.compare_and_swap(grounds.repo, aside, tip, ""):
            raise GitFailed(f"{aside} exists already.")
    if not refs.compare_and_swap(grounds.repo, ref, head, tip or ""):
        raise GitFailed(f"{worktree['branch']} moved while its task was being finished.")
