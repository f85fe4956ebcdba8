"""Collect a worker's work: commit its uncommitted changes, find its commits wherever they are, drop nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from corral.core.errors import GitFailed
from corral.core.identifiers import new_id
from corral.core.payload import Payload
from corral.git import refs
from corral.git.checkouts import head_log
from corral.git.checkouts.salvage import PREFIX
from corral.git.checkouts.submodules import unpublished_submodules
from corral.git.commits import commit_leftovers, create, effective, message_with
from corral.git.land import candidates
from corral.git.process.command import Git, Identity
from corral.store.rows import required
from corral.store.rows.tasks import TaskRow, WorktreeRow
from corral.work.evidence import bundle
from corral.work.tasks.attempts import CollectedWork, Ending
from corral.work.worktrees import ownership
from corral.work.worktrees.allocation import WorktreeContext
from corral.work.worktrees.removal import detach, left_behind, reattach_head

TRAILER = "Corral-Task"


def collect(
    context: WorktreeContext, task: TaskRow, worktree: WorktreeRow, result: Payload | None, usage: Payload
) -> Ending:
    """Bring a finished worker's work into a state that can land: committed, on the task's branch, and held.

    The commit that counts is the worktree's HEAD, wherever the worker switched to, if it descends from what the
    task started at; where that is nothing new, the one line of commits that the worker left elsewhere.

    Returns:
        Success, with what is to be landed (None: nothing was changed), ``not_descendant``, ``left_elsewhere``,
        ``submodule_unpublished`` or ``process_incomplete``.

    Raises:
        PathReplaced: Something else stands in the worktree's place; nothing of it is taken.
        CorralError: Git refused; the worktree is as it was.
    """
    head = settle(context, task, worktree)
    if isinstance(head, Ending):
        return replace(head, result=result, usage=usage)
    asked = bundle.of_task(task, context.settings().supervisor)
    if asked.is_required and (missing := asked.missing(bundle.files(context.repo, worktree["base_sha"], head))):
        message = f"It left no file of {', '.join(missing)} in {asked.folder}, which `{bundle.REQUIRED}` asks for."
        return Ending(False, bundle.INCOMPLETE, message, result=result, usage=usage)
    if head == worktree["base_sha"]:
        return Ending(True, result=result, usage=usage)
    merge_id = new_id()
    candidates.hold(context.repo, merge_id, head)
    branch, target = required(worktree["branch"]), required(task["target"])
    landing = CollectedWork(merge_id, branch, target, worktree["base_sha"], head)
    return Ending(True, result=result, usage=usage, to_land=landing)


def settle(context: WorktreeContext, task: TaskRow, worktree: WorktreeRow) -> str | Ending:
    """Commit a worker's work on its task's branch.

    Returns:
        The commit that counts, what the worktree started at if nothing was changed; or the failure of :func:`collect`.

    Raises:
        As :func:`collect` does.
    """
    checkout = ownership.prove(context, worktree)
    base, ref = worktree["base_sha"], refs.branch_ref(required(worktree["branch"]))
    head, descends = _rejoined(context, task, worktree, _committed(checkout, task, worktree, ref))
    ownership.prove(context, worktree)  # the commit is the worker's only if the folder was never replaced
    tip = refs.read(context.repo, ref)
    if head is not None and tip is not None and tip != head and refs.is_ancestor(context.repo, head, tip):
        head = tip  # it looked at an older commit and left HEAD there: the branch has all of it, and more
        descends = refs.is_ancestor(context.repo, base, head)
    if head is None or not descends:
        message = f"Its HEAD is not a descendant of {base[:12]}, where the task started."
        if (left := _made_before(context, checkout, base)) is not None:
            message += f" What it had committed on that is {left[:12]} ({_set_aside(context, worktree, left)})."
        return Ending(False, "not_descendant", message, retryable=False)
    if head == base:
        tip_of_target = refs.read(context.repo, refs.branch_ref(required(task["target"]))) or base
        tips = left_behind(checkout, base, tip_of_target)
        if not tips:
            return base
        if len(tips) > 1:
            return _left_elsewhere(context, worktree, tips)
        detach(ownership.prove(context, worktree), base)
        head = tips[0]
    hidden = unpublished_submodules(checkout)
    if hidden:
        message = (
            f"It names commits of submodules that exist in its worktree alone, push them first: {', '.join(hidden)}."
        )
        return Ending(False, "submodule_unpublished", message, retryable=False)
    if tip != head:
        _move_branch(context, worktree, ref, tip, head)
    return head


def _committed(checkout: Git, task: TaskRow, worktree: WorktreeRow, ref: str) -> str | None:
    """Commit uncommitted changes, on no branch but the task's; returns the commit of HEAD then."""
    head_log.restore(checkout, ref)
    if checkout.head() is None:
        return None
    reattach_head(checkout, ref)
    exclude = worktree["provision"].get("exclude", ())
    trailers, identity = {TRAILER: task["task_id"]}, partial(committer, checkout, task)
    commit = commit_leftovers(checkout, task["title"], trailers, identity, exclude=exclude)
    return commit or checkout.head()


def _rejoined(
    context: WorktreeContext, task: TaskRow, worktree: WorktreeRow, head: str | None
) -> tuple[str | None, bool]:
    """The commit that counts, with its history, and whether it descends from what the task started at.

    HEAD loses that history if its branch is deleted while the worker runs. Its files are then committed on the commit that
    HEAD was at before; the worker's commits stay on a salvage ref.
    """
    base = worktree["base_sha"]
    if head is None or head == base or refs.is_ancestor(context.repo, base, head):
        return head, head is not None
    own = refs.read(context.repo, refs.branch_ref(worktree["branch"])) if worktree["branch"] else None
    if own not in (None, head):  # its branch was not deleted: the worker began a history of its own elsewhere
        return head, False
    checkout = ownership.prove(context, worktree)
    before = head_log.before_root(checkout, head)
    if before is None or not refs.is_ancestor(context.repo, base, before):
        return head, False
    _set_aside(context, worktree, head)
    tree = checkout.must("rev-parse", "--verify", f"{head}^{{tree}}")
    message = message_with(task["title"], {TRAILER: task["task_id"]})
    joined = create(checkout, tree, (before,), message, committer(checkout, task), context.clock())
    detach(checkout, joined)
    return joined, True


def _made_before(context: WorktreeContext, checkout: Git, base: str) -> str | None:
    """The last commit that was made here on what the task started at, if no ref holds it: its branch was rewritten."""
    for step in reversed(head_log.steps(checkout)):
        if step.is_made and refs.exists(context.repo, step.sha) and refs.is_ancestor(context.repo, base, step.sha):
            return None if refs.holder(context.repo, step.sha) else step.sha
    return None


def _left_elsewhere(context: WorktreeContext, worktree: WorktreeRow, tips: list[str]) -> Ending:
    """The failure of a worker that left commits in several places: names each, and keeps it on a ref."""
    places = [refs.holder(context.repo, sha) or _set_aside(context, worktree, sha) for sha in tips]
    named = ", ".join(f"{sha[:12]} ({place})" for sha, place in zip(tips, places, strict=True))
    message = f"Its own branch has nothing new, and it left commits in {len(tips)} other places: {named}."
    return Ending(False, "left_elsewhere", message, retryable=False)


def committer(git: Git, task: TaskRow) -> Identity:
    """The committer for a task: git's configuration, else its submitter, else Corral."""
    name, email = task["author_name"], task["author_email"]
    return effective(git, Identity(name, email) if name and email else None)


def _move_branch(context: WorktreeContext, worktree: WorktreeRow, ref: str, tip: str | None, head: str) -> None:
    """Point the task's branch at the commit that counts; its other commits stay on a salvage ref."""
    if tip is not None and not refs.is_ancestor(context.repo, tip, head):
        _set_aside(context, worktree, tip)
    if not refs.compare_and_swap(context.repo, ref, head, tip or ""):
        raise GitFailed(f"{worktree['branch']} moved while its task was being finished.")


def _set_aside(context: WorktreeContext, worktree: WorktreeRow, sha: str) -> str:
    """Put commits on a salvage ref of their own; returns its name."""
    aside = f"{PREFIX}{worktree['name']}/{context.clock():%Y%m%dT%H%M%S%fZ}"
    if not refs.compare_and_swap(context.repo, aside, sha, ""):
        raise GitFailed(f"{aside} exists already.")
    return aside
