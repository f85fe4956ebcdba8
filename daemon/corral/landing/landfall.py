"""The durable step that moves a target, and what is tidied after it.

An intent is stored, the target moves, the outcome is stored and the intent removed. Killed anywhere between, the same
:func:`carry_out` concludes it at the next start: git's step is idempotent, and the intent says exactly what was meant.
What a request still holds on to (``refs/corral/mq/<merge_id>``) is the note that it has to be tidied.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from enum import Enum, auto
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from corral.errors import GitFailed, InvalidInput
from corral.git import candidates, landing, refs, worktrees
from corral.git.command import Git
from corral.models.crash import crash_point
from corral.models.states import OPEN_MERGES, MergeState
from corral.observe.logs import logger
from corral.observe.redaction import redact
from corral.store import merges
from corral.store import worktrees as rows
from corral.store.engine import Database

Row = dict[str, Any]
OnSettled = Callable[[Connection, Row, datetime], None]
"""Told, in the transaction in which a request ends, so that those who depend on it move with it."""

HELD_REFS = "refs/corral/mq/"

log = logger("landing")


def end(
    conn: Connection, on_settled: OnSettled, merge_id: str, state: MergeState, *, now: datetime, **values: Any
) -> Row | None:
    """End an open request and tell; None if it had ended already."""
    row = merges.finish(conn, merge_id, state, now=now, **values)
    if row is not None:
        on_settled(conn, row, now)
    return row


def message(merge: Row) -> str:
    """What the merge commit says: whose work it is, and the ids that lead back to it."""
    title = " ".join(merge["title"].split())
    trailers = [f"Corral-Task: {merge['task_id']}"] if merge["task_id"] else []
    return "\n".join([f"Merge {merge['branch']}: {title}", "", *trailers, f"Corral-Merge: {merge['merge_id']}", ""])


def land(
    db: Database, repo: Git, merge: Row, receipt_id: str, *, on_settled: OnSettled, now: datetime
) -> MergeState | None:
    """Land a judged candidate.

    Returns:
        Where the request stands now: landed; queued again (the target had moved); held (something is in the way);
        None if it ended meanwhile.
    """
    intent = {
        "target": merge["target"],
        "old_sha": merge["tip_sha"],
        "new_sha": merge["candidate_sha"],
        "merge_ids": [merge["merge_id"]],
    }

    def intend(conn: Connection) -> bool:
        if merges.judged(conn, merge["merge_id"], merge["candidate_sha"], receipt_id) is None:
            return False
        merges.intend(conn, **intent, now=now)
        return True

    crash_point("landing.before_intent")
    if not db.write(intend):
        return None
    crash_point("landing.intent_stored")
    return carry_out(db, repo, intent, on_settled=on_settled, now=now)


def carry_out(db: Database, repo: Git, intent: Row, *, on_settled: OnSettled, now: datetime) -> MergeState:
    """Do what an intent says, or find that it was done or cannot be, and store the outcome. Safe to run twice."""
    target, new_sha = intent["target"], intent["new_sha"]
    try:
        outcome = landing.land(repo, refs.branch_ref(target), new_sha, intent["old_sha"])
    except GitFailed as error:
        # Whether the target moved is not known: the intent stays, and the next step finds out.
        reason = redact(f"Git could not move {target}: {error.message} {error.cause}")
        db.write(lambda conn: [merges.hold(conn, merge_id, reason, now) for merge_id in intent["merge_ids"]])
        return MergeState.HELD
    crash_point("landing.target_moved")

    def store(conn: Connection) -> MergeState:
        merges.conclude(conn, target)
        state = MergeState.LANDED
        for merge_id in intent["merge_ids"]:
            if isinstance(outcome, landing.Landed):
                end(conn, on_settled, merge_id, MergeState.LANDED, now=now, landed_sha=new_sha)
            elif isinstance(outcome, landing.Moved):
                state = MergeState.QUEUED
                merges.requeue(conn, merge_id, now, reason=f"{target} moved; the merge is built again on its new tip.")
            else:
                state = MergeState.HELD
                named = f" ({', '.join(outcome.paths[:10])})" if outcome.paths else ""
                merges.hold(conn, merge_id, f"{outcome.reason}{named}", now)
        return state

    state = db.write(store)
    crash_point("landing.outcome_stored")
    return state


def resume(db: Database, repo: Git, *, on_settled: OnSettled, now: datetime) -> bool:
    """Carry out every intent that is left; whether all could be concluded."""
    states = [carry_out(db, repo, intent, on_settled=on_settled, now=now) for intent in db.read(merges.intents)]
    return not states or not db.read(merges.intents)


class Tidy(Enum):
    """What a sweep has left."""

    DONE = auto()
    STAYS = auto()
    """A landed branch, because a worktree has it: sweep again when that may be gone."""
    FAILED = auto()
    """Something that git could not change, as a rule for a lock that a killed one left: sweep again soon."""


def sweep(db: Database, repo: Git, *, orphans: bool) -> Tidy:
    """Let go of every request that has ended. Nobody has to wait for this: what git refuses is logged and stays.

    Args:
        orphans: Also of refs whose request was never stored. Only while nobody submits.
    """
    some_stay = False
    try:
        for ref in refs.listing(repo, HELD_REFS):
            some_stay |= not _swept(db, repo, ref, orphans=orphans)
    except GitFailed as error:  # the others would wait for the same lock, a second each
        log.warning("not_tidied", reason=redact(f"{error.message} {error.cause}"))
        return Tidy.FAILED
    return Tidy.STAYS if some_stay else Tidy.DONE


def _swept(db: Database, repo: Git, ref: refs.Ref, *, orphans: bool) -> bool:
    merge_id = ref.name.removeprefix(HELD_REFS)
    merge = db.read(lambda conn: merges.find(conn, merge_id))
    if merge is not None and merge["state"] == MergeState.LANDED:
        return _retire_branch(db, repo, merge)
    if merge is not None and merge["state"] not in OPEN_MERGES:
        _let_go(repo, merge, ref.sha)
    elif merge is None and orphans:
        candidates.release(repo, merge_id)
    return True


def _retire_branch(db: Database, repo: Git, merge: Row) -> bool:
    """Delete a branch that has landed, if we made it and it is still at the landed head; False while a worktree has it."""
    branch, landed_head_sha = merge["branch"], merge["head_sha"]
    if db.read(lambda conn: merges.is_own_branch(conn, branch)):
        full = refs.branch_ref(branch)
        if refs.read(repo, full) == landed_head_sha:
            if worktrees.checkout_of(repo, full) is not None or _has_folder(db, branch):
                return False
            refs.delete(repo, full, landed_head_sha)
    crash_point("landing.branch_retired")
    candidates.release(repo, merge["merge_id"])
    return True


def _has_folder(db: Database, branch: str) -> bool:
    """Whether a worktree of ours has it, seen by git or not: a removal that was killed half-way has taken the ``.git`` file."""
    return any(Path(row["path"]).exists() for row in db.read(lambda conn: rows.live_of_branch(conn, branch)))


def _let_go(repo: Git, merge: Row, held_sha: str) -> None:
    """Release the commits of a request that did not land, unless it is the last to know the work itself."""
    tip = _branch_tip(repo, merge["branch"])
    if tip is not None and refs.is_ancestor(repo, merge["head_sha"], tip):
        candidates.release(repo, merge["merge_id"])
    elif held_sha != merge["head_sha"]:
        candidates.hold(repo, merge["merge_id"], merge["head_sha"])


def _branch_tip(repo: Git, branch: str) -> str | None:
    try:
        return refs.read(repo, refs.branch_ref(branch))
    except InvalidInput:
        return None
