"""The changes of a task or a merge request: for HTTP, the command line and the page.

Touches git: call it off the event loop.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection

from corral.coordination.services import Services
from corral.core.errors import GitFailed, NotFound
from corral.core.payload import Payload
from corral.core.states import MergeState, TaskStatus, WorktreeState
from corral.git import diffs, refs
from corral.git.diffs import Diff
from corral.git.land import candidates
from corral.git.process.command import Git, open_checkout
from corral.store.protocol import Store
from corral.store.rows.merges import MergeRow
from corral.store.rows.tasks import TaskRow, WorktreePlace, WorktreeRow
from corral.work.merges.store import landed, of_tasks, stacks
from corral.work.tasks import tasks
from corral.work.tasks.store import attempts
from corral.work.worktrees import store as worktrees
from corral.work.worktrees.worktrees import Worktrees

MOST_SHOWN = 400_000
"""Bytes of a patch."""
MOST_LISTED = 1_000
"""Files that an answer names."""
_NOT_A_PROPOSAL = (MergeState.CANCELLED, MergeState.SUPERSEDED)


def of_merge(services: Services, merge_id: str, *, most: int | None = MOST_SHOWN) -> Payload:
    """The changes of a merge request: as it landed, as it would land, or since its branch left the target.

    Args:
        merge_id: Its id, the beginning of it, or its task's id or number.
        most: Bytes of the patch; None: only the numbers of lines.

    Returns:
        A :class:`corral.work.merges.api.Changes`.

    Raises:
        NotFound: No such request, or git does not have its commits any more.
    """
    with services.db.reading() as conn:
        merge = of_tasks.named(conn, merge_id)
    return _of_request(services, merge, most)


def of_task(services: Services, task_id: str, *, most: int | None = MOST_SHOWN) -> Payload:
    """The changes of a task: while it runs, in the files of its worktree, uncommitted too; later, what it handed in or left.

    Args:
        task_id: Its id, number, the beginning of its id, or its merge request's id.
        most: Bytes of the patch; None: only the numbers of lines.

    Returns:
        As :func:`of_merge`.

    Raises:
        NotFound: No such task, or git does not have its commits any more.
    """

    with services.db.reading() as conn:
        task, merge, place, session_place = _look(conn, task_id)
    about: Payload = {"merge_id": None, "task_id": task["task_id"], "title": task["title"], "state": task["status"]}
    is_proposal = merge is not None and merge["state"] not in _NOT_A_PROPOSAL
    if merge is not None and is_proposal and task["status"] not in (TaskStatus.RUNNING, TaskStatus.PENDING):
        return {**_of_request(services, merge, most), **about, "merge_id": merge["merge_id"]}
    if place is None and session_place is not None:
        return {**about, **_of_session(services, task, session_place, most)}
    if place is None:
        return {**about, **_shown(None, None, Diff([], "", False), _why_nothing(task))}
    base = place["base_sha"]
    if place["state"] == WorktreeState.READY and services.of(Worktrees).is_own(place["name"]):
        checkout = open_checkout(Path(place["path"]))
        return {**about, **_shown(base, None, diffs.to_checkout(checkout, base, most=most), None)}
    head = _left_behind(services.git, place)
    if head is None:
        return {**about, **_shown(base, None, Diff([], "", False), "It left no changes.")}
    return {**about, **between(services.git, base, head, most)}


def _look(conn: Connection, task_id: str) -> tuple[TaskRow, MergeRow | None, WorktreeRow | None, WorktreePlace | None]:
    """The task, the request of it that counts, where its last attempt worked, and where the session is that holds it."""
    task = tasks.find(conn, task_id)
    tried = attempts.of_task(conn, task["task_id"])
    place = worktrees.get(conn, tried[-1]["worktree_id"]) if tried and tried[-1]["worktree_id"] else None
    where = worktrees.worked_in(conn, [task["session_id"]]) if task["session_id"] else None
    return task, of_tasks.decisive(conn, task["task_id"]), place, where


def _of_session(services: Services, task: TaskRow, place: WorktreePlace, most: int | None) -> Payload:
    """The changes of the session that claimed a task, in its own worktree since that left the target."""
    checkout = open_checkout(Path(place["path"]))
    target = refs.branch_ref(task["target"]) if task["target"] else services.settings.target()
    tip, head = refs.read(services.git, target), checkout.head()
    base = refs.merge_base(services.git, tip, head) if tip and head else None
    if base is None:
        return _shown(None, None, Diff([], "", False), "Its branch has no commit in common with its target.")
    return _shown(base, None, diffs.to_checkout(checkout, base, most=most), None)


def _of_request(services: Services, merge: MergeRow, most: int | None) -> Payload:
    before, after = _ends(services.db, services.git, merge)
    about = {name: merge[name] for name in ("merge_id", "task_id", "title", "state")}
    return {**about, **between(services.git, before, after, most)}


def _ends(db: Store, repo: Git, merge: MergeRow) -> tuple[str, str]:
    """The two ends of a request: the tip and the commit made for it; without these, where its own work begins and its head."""
    tip, candidate = merge["tip_sha"], merge["candidate_sha"]
    if tip and candidate and refs.exists(repo, tip) and refs.exists(repo, candidate):
        return tip, candidate
    if merge["state"] == MergeState.LANDED and merge["base_sha"] is not None:
        return merge["base_sha"], merge["head_sha"]
    tip = refs.read(repo, refs.branch_ref(merge["target"])) or merge["base_sha"] or merge["head_sha"]
    if not refs.exists(repo, merge["head_sha"]):
        raise _gone(merge["head_sha"])
    return own_from(db, repo, merge, tip) or tip, merge["head_sha"]


def _left_behind(repo: Git, place: WorktreeRow) -> str | None:
    """The commit that holds what was in a worktree that is gone: what was saved of it, else its branch."""
    if place["salvage_ref"] is not None and (saved := refs.read(repo, place["salvage_ref"])) is not None:
        return saved
    return refs.read(repo, refs.branch_ref(place["branch"])) if place["branch"] else None


def between(repo: Git, before: str, after: str, most: int | None) -> Payload:
    """The changes between two commits, in the form of :func:`of_merge`.

    Raises:
        NotFound: Git does not have one of them any more.
    """
    try:
        return _shown(before, after, diffs.between(repo, before, after, most=most), None)
    except GitFailed as error:
        missing = next((sha for sha in (before, after) if not refs.exists(repo, sha)), None)
        if missing is None:
            raise
        raise _gone(missing) from error


def _gone(sha: str) -> NotFound:
    return NotFound(
        f"Git does not have the commit {sha[:12]} any more.",
        cause="Its branch was deleted, and git has removed what nothing refers to.",
        remedy="`corral worktree recover` lists the work that Corral saved.",
    )


def _shown(base: str | None, head: str | None, diff: Diff, note: str | None) -> Payload:
    listed = diff.files[:MOST_LISTED]
    return {
        "base_sha": base,
        "head_sha": head,
        "uncommitted": base is not None and head is None and note is None,
        "files": [{"path": _readable(file.path), "added": file.added, "removed": file.removed} for file in listed],
        "files_changed": len(diff.files),
        "lines_added": sum(file.added or 0 for file in diff.files),
        "lines_removed": sum(file.removed or 0 for file in diff.files),
        "patch": diff.patch,
        "truncated": diff.truncated or len(listed) < len(diff.files),
        "note": note,
    }


def _why_nothing(task: TaskRow) -> str:
    return "It has not started." if task["fencing_token"] == 0 else "It worked in no worktree of Corral's."


def _readable(path: str) -> str:
    """A path whose bytes may be no text, as text."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# -- Where a request's own work begins, where git does not know: on others' work, or on what landed under another name


def landed_at(db: Store, repo: Git, merge: MergeRow, on_sha: str) -> str | None:
    """The last commit of the branch that landed under another name on the target; the rest of the branch begins there.

    Merged from the commits that both sides share, a squashed branch that went on would conflict with its own changes.

    Args:
        on_sha: A tip of the request's target, or what it is built upon.
    """
    head, target = merge["head_sha"], merge["target"]
    if not db.read(landed.has_other_shapes, target):
        return None
    commits = repo.must("rev-list", f"--max-count={candidates.MOST_REPLAYED}", head, f"^{on_sha}").split()
    rows = db.read(landed.in_other_shapes, target, commits)
    others = {row["head_sha"]: row["candidate_sha"] for row in rows if row["merge_id"] != merge["merge_id"]}
    for sha in commits:
        # One that the branch has merged meanwhile is in the history of both.
        if (other := others.get(sha)) is not None and refs.is_ancestor(repo, other, on_sha):
            return None if refs.is_ancestor(repo, other, head) else sha
    return None


def left_at(db: Store, repo: Git, merge: MergeRow, on_sha: str) -> str | None:
    """The tip of its target that a task was begun on, where the target was rewritten since then and has it no more.

    What a person amended, rebased or took off their branch is not the task's, and must not come back with it.

    Args:
        on_sha: A tip of the request's target, or what it is built upon.
    """
    head, base = merge["head_sha"], db.read(stacks.begun_at, merge["task_id"], merge["branch"])
    if base is None or base == on_sha or refs.merge_base(repo, on_sha, head) == base:
        return None
    is_left = _is_below(repo, base, merge, on_sha)
    return base if is_left and refs.fork_point(repo, refs.branch_ref(merge["target"]), head) == base else None


def bases(db: Store, repo: Git, merge: MergeRow, tip: str) -> list[str]:
    """The commits that count, beside what both have in common, as bases of a merge of a request with its target's tip."""
    begun, own = db.read(stacks.begun, merge["branch"]), landed_at(db, repo, merge, tip)
    heads = [*((begun["stacked_on"] or {}).values() if begun is not None else ()), own, left_at(db, repo, merge, tip)]
    return [sha for sha in dict.fromkeys(heads) if sha is not None and _is_below(repo, sha, merge, tip)]


def own_from(db: Store, repo: Git, merge: MergeRow, tip: str) -> str | None:
    """The commit after which the changes of a branch are its own; None: it has no history in common with its target's tip.

    Args:
        tip: Of its target.
    """
    begun, own = db.read(stacks.begun, merge["branch"]), landed_at(db, repo, merge, tip)
    began = begun["base_sha"] if begun is not None else left_at(db, repo, merge, tip)
    below = [sha for sha in (began, own) if sha is not None and _is_below(repo, sha, merge, tip)]
    if len(below) > 1 and refs.is_ancestor(repo, below[1], below[0]):
        below.reverse()
    return below[-1] if below else refs.merge_base(repo, tip, merge["head_sha"])


def _is_below(repo: Git, sha: str, merge: MergeRow, tip: str) -> bool:
    return (
        refs.exists(repo, sha)
        and refs.is_ancestor(repo, sha, merge["head_sha"])
        and not refs.is_ancestor(repo, sha, tip)
    )
