"""Requests to the merge queue: submit a branch, retry it, cancel it, show it."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection

from corral.core.errors import Conflict
from corral.core.payload import Payload
from corral.core.states import OPEN_MERGES, MergeState
from corral.git import refs
from corral.git.process.command import Git
from corral.landing import land, pauses, standing
from corral.store.protocol import Store
from corral.store.rows.merges import MergeRow
from corral.work.merges.settling import OnSettled
from corral.work.merges.store import intents, merges, receipts, remotes
from corral.work.merges.store import of_tasks as merge_tasks
from corral.work.merges.store import pauses as pause_rows
from corral.work.merges.wire import detail as wire_detail


def retry(
    db: Store,
    repo: Git,
    merge_id: str,
    *,
    now: datetime,
    follow_branch: bool = False,
    on_reopened: OnSettled = lambda *_: None,
) -> MergeRow:
    """Queue again what came back, was cancelled, is held, or waits after a fault; a paused target is looked at at once.

    Args:
        follow_branch: Take the branch's present head instead of the pinned one.
        on_reopened: Told in the transaction in which the request is queued again.

    Raises:
        NotFound: No such merge request, or its branch is gone.
        Conflict: It landed, is in the queue, or was replaced by a newer request of the same branch.
    """
    with db.reading() as conn:
        merge = merge_tasks.named(conn, merge_id)
    head = str(merge["head_sha"])
    if follow_branch:
        head = refs.branch_tip(repo, merge["branch"]) or refs.resolve(repo, merge["branch"])

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
        remotes.look_at_once(conn, now, row["target"])
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


def cancel(db: Store, repo: Git, merge_id: str, *, on_settled: OnSettled, now: datetime) -> MergeRow:
    """Take an open request out of the queue; its branch stays as it is. A running verification ends at the next step.

    One whose landing was begun and could not be concluded is cancelled too if its target has provably not moved.

    Raises:
        NotFound: No such merge request.
        Conflict: It has ended, its target is moving at this very moment, or may have moved.
        GitFailed: Whether its target has moved cannot be found out.
    """
    merge_id = str(db.read(merge_tasks.named, merge_id)["merge_id"])
    failed_at = _failed_landing(db, repo, merge_id)

    def take_back(conn: Connection) -> MergeRow:
        merge = merges.get(conn, merge_id)
        intent = intents.intent_of(conn, merge_id)
        if (
            failed_at is not None
            and intents.drop_failed_intent(conn, merge["target"], failed_at)
            and intent is not None
        ):
            for other in (merges.get(conn, member) for member in intent["merge_ids"] if member != merge_id):
                # A newer request of its branch came while it was landing, and goes on in its place.
                if other["replaced_by"] and (ended := merges.supersede(conn, other, other["replaced_by"], now)):
                    on_settled(conn, ended, now)
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
    """When the landing of a request failed, if its target has provably not moved; None if no landing was begun, or it goes on.

    Nothing moves the target after this instant: whatever carried the landing out had ended by then.
    """
    with db.reading() as conn:
        intent = intents.intent_of(conn, merge_id)
    if intent is None or intent["failed_at"] is None:
        return None
    is_here = (refs.read(repo, refs.branch_ref(intent["target"])) or "") == intent["old_sha"]
    if intent["remote"] is not None or not is_here:
        reason = db.read(merges.get, merge_id)["reason"]
        moved = f"{intent['target']} has moved since its landing was begun."
        where = f"{intent['remote']} has it, or may have it." if is_here else moved
        raise Conflict(
            f"Merge request {merge_id} is landing and cannot be cancelled.",
            cause=f"{where} {reason}",
            remedy="Fix what the reason names; Corral then concludes it automatically.",
        )
    return str(intent["failed_at"])


def with_reason(conn: Connection, submitted: Payload) -> Payload:
    """The answer to a submission, with the reason why nothing lands on its target at present, where there is one."""
    if submitted["merge_id"] is None:
        return submitted
    (row,) = pauses.explained(conn, [merges.get(conn, submitted["merge_id"])])
    return {**submitted, "reason": row["reason"]}


def detail(db: Store, merge_id: str, *, ageing_s: float, now: datetime) -> Payload:
    """Everything about one request; ``merge_id`` may be the beginning of it, or its task's id or number.

    Args:
        ageing_s: ``landing.ageing_s``.

    Raises:
        NotFound: No such merge request.
    """

    def read(conn: Connection) -> Payload:
        merge = merge_tasks.named(conn, merge_id)
        numbers = merge_tasks.numbers(conn, [merge["task_id"]] if merge["task_id"] else [])
        number = next(iter(numbers.values()), None)
        reverting = merges.reverting(conn, merge["merge_id"])
        shown, receipt = pauses.explained(conn, [merge])[0], receipts.get(conn, merge["receipt_id"])
        taken_back_by = reverting["merge_id"] if reverting is not None else None
        how = standing.by_id(conn, ageing_s, now).get(merge["merge_id"]) if merge["state"] in OPEN_MERGES else None
        return wire_detail(shown, receipt, number, taken_back_by, how)

    return db.read(read)
