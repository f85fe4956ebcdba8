"""What a person orders the queue: freeze a target and thaw it, let others pass a request, let one land without a verification.

Each order is a row, so that it outlives the daemon, and an event; the plan of the next step obeys it.
"""

from __future__ import annotations

from datetime import datetime
from shlex import quote

from sqlalchemy import Connection

from corral.core.errors import Conflict, NotFound
from corral.core.events import EventKind
from corral.core.redaction import redact
from corral.core.states import OPEN_MERGES
from corral.landing import pauses
from corral.store import events
from corral.store.rows.merges import FreezeRow, MergeRow
from corral.work.merges.store import direct_tips, freezes, intents, merges


def freeze(conn: Connection, target: str, reason: str, by: str, now: datetime) -> tuple[FreezeRow, list[str]]:
    """Let nothing land on a target until it is thawed; what waits for it is verified all the same.

    Args:
        target: Short name.
        by: The person's name.

    Returns:
        The freeze, and the requests whose landing had begun at this moment: these may still land.
    """
    row = freezes.freeze(conn, target, reason=_one_line(reason), by=by, now=now)
    event = EventKind.TARGET_FROZEN({"target": target, "reason": row["reason"], "by": by})
    events.record(conn, now, event)
    landing = [merge_id for row in intents.listing(conn) if row["target"] == target for merge_id in row["merge_ids"]]
    return row, landing


def thaw(conn: Connection, target: str, now: datetime) -> tuple[bool, bool]:
    """Let a frozen target go on; one that is red by somebody's own commits is verified once more.

    Returns:
        Whether it was frozen, and whether it is red.

    Raises:
        NotFound: Neither.
    """
    was_frozen = freezes.thaw(conn, target)
    is_red = target in pauses.red_tips(conn)
    if not was_frozen and not is_red:
        others = ", ".join(pauses.stops(conn))
        remedy = f"These do not go on: {others}." if others else "`corral merge list` shows what waits, and for what."
        raise NotFound(
            f"{target[:200]} is not frozen.", cause="Nobody has frozen it, or it was thawed already.", remedy=remedy
        )
    if was_frozen:
        events.record(conn, now, EventKind.TARGET_THAWED({"target": target}))
    if is_red:
        direct_tips.again(conn, target, now)
    return was_frozen, is_red


def skip(conn: Connection, merge: MergeRow, now: datetime) -> MergeRow:
    """Send an open request to the back of its target's queue: every other one that is open now comes before it.

    Raises:
        Conflict: It has ended, is landing, or nothing else waits.
    """
    _refuse_ended(conn, merge, "skipped")
    others = [row for row in merges.open_of(conn, merge["target"]) if row["merge_id"] != merge["merge_id"]]
    if not others:
        raise Conflict(
            f"Nothing else waits for {merge['target']}: there is nothing to let pass.",
            cause="It is the only open request there.",
            remedy="Nothing to do.",
        )
    lowest = min(row["priority"] for row in [merge, *others])
    row = merges.skip(conn, merge["merge_id"], lowest, now)
    if row is None:
        raise _ended(merge, "skipped")
    skipped = EventKind.MERGE_SKIPPED({"from": merge["priority"], "to": lowest})
    events.record(conn, now, skipped, task_id=row["task_id"], merge_id=row["merge_id"])
    return row


def bypass(conn: Connection, merge: MergeRow, head_sha: str, reason: str, by: str, now: datetime) -> MergeRow:
    """Let an open request land without a verification: alone, upon the target's tip, as soon as nothing else keeps it.

    Args:
        head_sha: The commit that the person saw; it holds for no other.
        by: The person's name.

    Raises:
        Conflict: It has ended, is landing, or has another head by now.
    """
    _refuse_ended(conn, merge, "landed without a verification")
    sentence = f"{by} let it land without a verification: {_one_line(reason)}"
    row = merges.bypass(conn, merge["merge_id"], head_sha, sentence, now)
    if row is None:
        raise Conflict(
            f"Merge request {merge['merge_id']} has another head than the one that was seen.",
            cause=f"Its head is {merge['head_sha'][:12]}.",
            remedy=f"Look at it again: `corral merge detail {merge['merge_id'][:8]}`.",
        )
    event = EventKind.MERGE_BYPASSED({"head_sha": head_sha, "reason": sentence})
    events.record(conn, now, event, task_id=row["task_id"], merge_id=row["merge_id"])
    return row


def _refuse_ended(conn: Connection, merge: MergeRow, what: str) -> None:
    if intents.is_landing(conn, merge["merge_id"]):
        cause = f"It is landing: {merge['reason'] or 'its target moves just now.'}"
        raise Conflict(f"Merge request {merge['merge_id']} cannot be {what}.", cause=cause, remedy="Wait for its end.")
    if merge["state"] not in OPEN_MERGES:
        raise _ended(merge, what)


def _ended(merge: MergeRow, what: str) -> Conflict:
    again = f"Queue it again first: corral merge retry {quote(merge['merge_id'][:8])}"
    return Conflict(
        f"Merge request {merge['merge_id']} is {merge['state']} and cannot be {what}.",
        cause="It has ended.",
        remedy=again if merge["landed_sha"] is None else "Nothing to do.",
    )


def _one_line(text: str) -> str:
    return redact(" ".join(text.split()))
