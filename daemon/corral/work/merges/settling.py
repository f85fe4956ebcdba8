"""Merge requests: a branch is put into the queue of its target; what the end of a request means for its task."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from corral.coordination.services import Services
from corral.coordination.settings import SettingsHolder
from corral.core.errors import InvalidInput, NotFound
from corral.core.identifiers import new_id
from corral.core.outcomes import Outcome
from corral.core.redaction import redact
from corral.git import refs
from corral.git.land import candidates
from corral.git.process.command import Git
from corral.store.protocol import Store
from corral.store.rows.merges import MergeRow
from corral.work.merges import wire as merge_shapes
from corral.work.merges.store import landed, merges
from corral.work.merges.store import of_tasks as merge_tasks
from corral.work.tasks import dependencies, stacking, tasks

OnSettled = Callable[[Connection, MergeRow, datetime], None]
"""Told, in the transaction in which a request ends, so that those who depend on it move with it."""


async def submit(
    services: Services,
    branch: str,
    target: str | None,
    *,
    session_id: str | None,
    task_id: str | None,
    title: str | None = None,
) -> dict[str, Any]:
    """Put a branch into the queue; ``merge_id`` is null if the target has everything of it already.

    Args:
        target: None: where work lands by the settings.
        session_id: The session that asks, if one does.
        task_id: Whose work the branch is, or the beginning of its id; None: the branch or the session tells.

    Raises:
        NotFound: No such branch, target or task.
        InvalidInput: A name that is none, or whose work it is is not clear.
    """
    now = services.now()
    onto = target or services.settings.target().removeprefix("refs/heads/")
    owner = (await services.store.read(tasks.find, task_id))["task_id"] if task_id else None
    row = await services.work(
        lambda: enqueue(
            services.db,
            services.git,
            branch=branch,
            target=onto,
            now=now,
            title=title,
            session_id=session_id,
            task_id=owner,
        )
    )
    if row is None:
        return {"merge_id": None, "branch": branch, "target": onto, "state": None}
    services.nudge("landing")
    return merge_shapes.summary(row)


def merge_settled(settings: SettingsHolder) -> OnSettled:
    """The effect on its task of a merge request's end, of its return to the queue, and of the loss of what had landed:
    dependents become ready, fail or wait."""

    def settled(conn: Connection, merge: MergeRow, at: datetime) -> None:
        if (task_id := merge["task_id"]) is None:
            return
        stacking.tell(conn, merge, at)
        if merge_shapes.standing_of(merge) == Outcome.MISSING:
            dependencies.hold_back(conn, [task_id], at, unblock_on=settings().tasks.unblock_on)
        else:
            tasks.merge_settled(conn, task_id, at, unblock_on=settings().tasks.unblock_on)

    return settled


# -- Put a branch into the queue of its target

DEFAULT_PRIORITY = 5


def enqueue(
    db: Store,
    repo: Git,
    *,
    branch: str,
    target: str,
    now: datetime,
    title: str | None = None,
    session_id: str | None = None,
    task_id: str | None = None,
    priority: int = DEFAULT_PRIORITY,
) -> MergeRow | None:
    """Put a branch into the queue for its target, with its present head pinned.

    Args:
        branch: A branch by its short name, or a commit.
        target: The branch it shall land on, by its short name.
        session_id: The session that asks, if one does.
        task_id: Whose work the branch is, the whole id; None: as :func:`corral.work.merges.store.of_tasks.owners` finds.

    Returns:
        The stored merge request; None if the target has everything already, so that there is nothing to merge.

    Raises:
        NotFound: No such branch, or a target that never was one.
        InvalidInput: A name that is none, a branch for itself, or a session that works on several tasks and names none.
    """
    branch, target = branch.removeprefix("refs/heads/"), target.removeprefix("refs/heads/")
    tip = refs.read(repo, refs.branch_ref(target))
    if tip is None and not db.read(landed.is_known_target, target):
        raise NotFound(f"There is no branch {target!r} to merge into.", remedy="Name an existing branch with --target.")
    if branch == target:
        raise InvalidInput(
            f"{branch} cannot be merged into itself.", remedy="Name another branch, or another --target."
        )
    title = redact(_one_line(title or branch))
    head = refs.branch_tip(repo, branch)
    if head is None:
        # Not a branch: what HEAD or a tag means differs from place to place and from day to day, a commit does not.
        branch = head = refs.resolve(repo, branch)
    if tip is not None and (refs.is_ancestor(repo, head, tip) or _has_landed(db, repo, target, head, tip)):
        return None
    # A target that was renamed or deleted meanwhile keeps nobody from submitting: the request waits until it is back.
    base, reserved = refs.merge_base(repo, tip, head) if tip is not None else None, new_id()
    db.read(_owner, branch, session_id, task_id)  # refused before anything is held
    reverts = _taken_back(db, repo, target, head, tip)
    candidates.hold(repo, reserved, head)

    def store(conn: Connection) -> str:
        owner = _owner(conn, branch, session_id, task_id)
        merge_id = merges.submit(
            conn, merge_id=reserved, task_id=owner, session_id=session_id, title=title, priority=priority,
            branch=branch, target=target, base_sha=base, head_sha=head, now=now, reverts=reverts,
        )  # fmt: skip
        stacking.tell(conn, merges.get(conn, merge_id), now)
        return merge_id

    merge_id = db.write(store)
    if merge_id != reserved:
        candidates.release(repo, reserved)
    with db.reading() as conn:
        return merges.get(conn, merge_id)


def _has_landed(db: Store, repo: Git, target: str, head: str, tip: str) -> bool:
    """Whether a head has landed under another name, as one commit or replayed, and its target still has that."""
    rows = db.read(landed.in_other_shapes, target, [head])
    return any(refs.is_ancestor(repo, row["landed_sha"], tip) for row in rows if row["landed_sha"] is not None)


def _taken_back(db: Store, repo: Git, target: str, head: str, tip: str | None) -> str | None:
    """The request whose work a head takes back: it goes on from a revert that came back, as where a person has resolved it."""
    for row in db.read(merges.returned_reverts, target):
        sha = row["head_sha"]
        if (
            refs.exists(repo, sha)
            and refs.is_ancestor(repo, sha, head)
            and not (tip and refs.is_ancestor(repo, sha, tip))
        ):
            return row["reverts"]
    return None


def _owner(conn: Connection, branch: str, session_id: str | None, task_id: str | None) -> str | None:
    """Whose work a branch is: the task that is named, else the one that the evidence leads to."""
    if task_id is not None:
        return task_id
    task_ids = merge_tasks.owners(conn, branch, session_id)
    if len(task_ids) > 1:
        raise InvalidInput(
            f"Which task {branch} belongs to is not clear: you work on {len(task_ids)} tasks.",
            cause="Their dependents wait until it has landed. They are: " + ", ".join(task_ids[:10]),
            remedy="Name the task: `corral merge submit --task ID`, or request_merge(task_id=…).",
            details={"task_ids": task_ids},
        )
    return task_ids[0] if task_ids else None


def _one_line(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:200]
