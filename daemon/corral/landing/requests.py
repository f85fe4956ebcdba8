"""Requests to the merge queue: submit a branch, retry it, cancel it, show it."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection

from corral.errors import Conflict, InvalidInput, NotFound
from corral.git import refs
from corral.git.land import candidates
from corral.git.process.command import Git
from corral.landing import land, pauses
from corral.models.identifiers import new_id
from corral.models.merges import detail as wire_detail
from corral.models.payload import Payload
from corral.models.states import OPEN_MERGES, MergeState
from corral.observe.redaction import redact
from corral.store.merges import intents, landed, merges, receipts
from corral.store.merges import of_tasks as merge_tasks
from corral.store.merges import pauses as pause_rows
from corral.store.protocol import Store
from corral.store.rows.merges import MergeRow

DEFAULT_PRIORITY = 5


def submit(
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
        task_id: Whose work the branch is, the whole id; None: as :func:`corral.store.merges.of_tasks.owners` finds.

    Returns:
        The stored merge request; None if the target has everything already, so that there is nothing to merge.

    Raises:
        NotFound: No such branch, or a target that never was one.
        InvalidInput: A name that is none, a branch for itself, or a session that works on several tasks and names none.
    """
    branch, target = branch.removeprefix("refs/heads/"), target.removeprefix("refs/heads/")
    tip = refs.read(repo, refs.branch_ref(target))
    if tip is None and not db.read(lambda conn: landed.is_known_target(conn, target)):
        raise NotFound(f"There is no branch {target!r} to merge into.", remedy="Name an existing branch with --target.")
    if branch == target:
        raise InvalidInput(
            f"{branch} cannot be merged into itself.", remedy="Name another branch, or another --target."
        )
    title = redact(_one_line(title or branch))
    head = land.branch_tip(repo, branch)
    if head is None:
        # Not a branch: what HEAD or a tag means differs from place to place and from day to day, a commit does not.
        branch = head = refs.resolve(repo, branch)
    if tip is not None and refs.is_ancestor(repo, head, tip):
        return None
    # A target that was renamed or deleted meanwhile keeps nobody from submitting: the request waits until it is back.
    base, reserved = refs.merge_base(repo, tip, head) if tip is not None else None, new_id()
    db.read(lambda conn: _owner(conn, branch, session_id, task_id))  # refused before anything is held
    candidates.hold(repo, reserved, head)

    def store(conn: Connection) -> str:
        owner = _owner(conn, branch, session_id, task_id)
        return merges.submit(
            conn, merge_id=reserved, task_id=owner, session_id=session_id, title=title, priority=priority,
            branch=branch, target=target, base_sha=base, head_sha=head, now=now,
        )  # fmt: skip

    merge_id = db.write(store)
    if merge_id != reserved:
        candidates.release(repo, reserved)
    return db.read(lambda conn: merges.get(conn, merge_id))


def _owner(conn: Connection, branch: str, session_id: str | None, task_id: str | None) -> str | None:
    """Whose work a branch is: the task that is named, else the one that the evidence leads to."""
    if task_id is not None:
        return task_id
    found = merge_tasks.owners(conn, branch, session_id)
    if len(found) > 1:
        raise InvalidInput(
            f"Which task {branch} belongs to is not clear: you work on {len(found)} tasks.",
            cause="Their dependents wait until it has landed. They are: " + ", ".join(found[:10]),
            remedy="Name the task: `corral merge submit --task ID`, or request_merge(task_id=…).",
            details={"task_ids": found},
        )
    return found[0] if found else None


def retry(
    db: Store,
    repo: Git,
    merge_id: str,
    *,
    now: datetime,
    follow_branch: bool = False,
    on_reopened: land.OnSettled = lambda *_: None,
) -> MergeRow:
    """Queue again what came back, was cancelled, is held, or waits after a fault; a paused target is looked at at once.

    Args:
        follow_branch: Take the branch's present head instead of the pinned one.
        on_reopened: Told in the transaction in which the request is queued again.

    Raises:
        NotFound: No such merge request, or its branch is gone.
        Conflict: It landed, is in the queue, or was replaced by a newer request of the same branch.
    """
    merge = db.read(lambda conn: merge_tasks.named(conn, merge_id))
    head = str(merge["head_sha"])
    if follow_branch:
        head = land.branch_tip(repo, merge["branch"]) or refs.resolve(repo, merge["branch"])

    def reopen(conn: Connection) -> MergeRow:
        rivals = [
            row["merge_id"]
            for row in merges.listing(conn, OPEN_MERGES)
            if (row["branch"], row["target"]) == (merge["branch"], merge["target"]) and row["seq"] != merge["seq"]
        ]
        row = None
        if not rivals and not intents.is_landing(conn, merge["merge_id"]):
            waits = pauses.is_waiting(conn, merges.get(conn, merge["merge_id"]))
            row = merges.reopen(conn, merge["merge_id"], head, now, waiting=waits)
        if row is None:
            raise _not_tried_again(conn, merges.get(conn, merge["merge_id"]), rivals)
        pause_rows.look_at_once(conn, now, row["target"])
        on_reopened(conn, row, now)
        return row

    return db.write(reopen)


def _not_tried_again(conn: Connection, merge: MergeRow, rivals: list[str]) -> Conflict:
    remedy = "Submit the branch again if it has new commits: `corral merge submit BRANCH`."
    cause = f"{merge['branch']} is in the queue as {rivals[0]}." if rivals else ""
    if intents.is_landing(conn, merge["merge_id"]):
        cause = f"It is landing, and that is tried again every few seconds: {merge['reason'] or 'it runs just now.'}"
        remedy = "Fix what the reason names; or `corral merge cancel ID`."
    return Conflict(
        f"Merge request {merge['merge_id']} is {merge['state']} and cannot be tried again.", cause=cause, remedy=remedy
    )


def cancel(db: Store, repo: Git, merge_id: str, *, on_settled: land.OnSettled, now: datetime) -> MergeRow:
    """Take an open request out of the queue; its branch stays as it is. A running verification ends at the next step.

    One whose landing was begun and could not be concluded is cancelled too if its target has provably not moved.

    Raises:
        NotFound: No such merge request.
        Conflict: It has ended, its target is moving at this very moment, or may have moved.
        GitFailed: Whether its target has moved cannot be found out.
    """
    merge_id = str(db.read(lambda conn: merge_tasks.named(conn, merge_id))["merge_id"])
    failed_at = _failed_landing(db, repo, merge_id)

    def take_back(conn: Connection) -> MergeRow:
        merge = merges.get(conn, merge_id)
        if failed_at is not None:
            intents.drop_failed_intent(conn, merge["target"], failed_at)
        row = None
        if not intents.is_landing(conn, merge_id):
            row = land.end(conn, on_settled, merge_id, MergeState.CANCELLED, now=now, reason="Cancelled by request.")
        if row is None:
            raise Conflict(
                f"Merge request {merge_id} is {merge['state']} and cannot be cancelled.",
                cause="It has ended, or is landing.",
            )
        return row

    row = db.write(take_back)
    land.sweep(db, repo, orphans=False)
    return row


def _failed_landing(db: Store, repo: Git, merge_id: str) -> str | None:
    """When the landing of a request failed whose target is provably where it was; None if nothing was begun, or it goes on.

    Nothing moves the target after this instant: whatever carried the landing out had ended by then.
    """
    intent = db.read(lambda conn: intents.intent_of(conn, merge_id))
    if intent is None or intent["failed_at"] is None:
        return None
    if (refs.read(repo, refs.branch_ref(intent["target"])) or "") != intent["old_sha"]:
        reason = db.read(lambda conn: merges.get(conn, merge_id))["reason"]
        raise Conflict(
            f"Merge request {merge_id} is landing and cannot be cancelled.",
            cause=f"{intent['target']} has moved since its landing was begun. {reason}",
            remedy="Fix what the reason names; Corral then concludes it automatically.",
        )
    return str(intent["failed_at"])


def detail(db: Store, merge_id: str) -> Payload:
    """Everything about one request; ``merge_id`` may be the beginning of it, or its task's id or number.

    Raises:
        NotFound: No such merge request.
    """

    def read(conn: Connection) -> Payload:
        merge = merge_tasks.named(conn, merge_id)
        numbers = merge_tasks.numbers(conn, [merge["task_id"]] if merge["task_id"] else [])
        number = next(iter(numbers.values()), None)
        return wire_detail(pauses.explained(conn, [merge])[0], receipts.get(conn, merge["receipt_id"]), number)

    return db.read(read)


def _one_line(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:200]
