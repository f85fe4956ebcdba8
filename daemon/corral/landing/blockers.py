"""Blockers of a request that may land: the uncommitted work in the checkout that has the target.

Such a request is ``held``. Its queue waits for it a moment, since mostly a git of the user's just runs; then later requests
bypass it, and it is looked at now and then, without a lock that the user's git could run into.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import PurePosixPath

from sqlalchemy import Connection

from corral.core.instants import parse
from corral.core.states import MergeState
from corral.git import refs
from corral.git.checkouts import listing, status
from corral.git.land.landing import OVERLAP
from corral.git.process.command import Git, open_checkout
from corral.landing.verify import verification_receipts
from corral.store.protocol import Store
from corral.store.rows import required
from corral.store.rows.merges import MergeRow
from corral.work.merges.store import intents, merges, receipts

PATIENCE = timedelta(seconds=2)
LONGEST_WAIT = timedelta(seconds=10)
_NAMED_AT_ONCE = 1000


def remain(db: Store, repo: Git, merge: MergeRow, tip_sha: str) -> bool:
    """Whether uncommitted work in the target's checkout still blocks a held request, so that a try would fail again."""
    if merge["state"] != MergeState.HELD or OVERLAP not in str(merge["reason"]):
        return False  # Another blocker may be gone: only a try shows what blocks the request now.
    with db.reading() as conn:
        receipt = receipts.get(conn, merge["receipt_id"])
    if receipt is None or receipt["status"] in verification_receipts.NOT_GREEN:
        return False
    if tip_sha != merge["tip_sha"] and refs.is_ancestor(repo, merge["head_sha"], tip_sha):
        return False
    return _overlap(repo, merge["target"], required(merge["tip_sha"]), required(merge["candidate_sha"]))


def uncommitted(repo: Git, merge: MergeRow) -> str | None:
    """Why the target's checkout could not take a request's own work now; None: nothing uncommitted is in its way."""
    if not _overlap(repo, merge["target"], required(merge["tip_sha"]), required(merge["candidate_sha"])):
        return None
    place = listing.checkout_of(repo, refs.branch_ref(merge["target"]))
    return f"uncommitted changes in {place} {OVERLAP}"


def may_be_passed(conn: Connection, merge_id: str, now: datetime) -> bool:
    """Whether later requests may bypass a held request. They must wait where its target may have moved."""
    since = parse(merges.get(conn, merge_id)["updated_at"])
    waits = timedelta(0) <= now - since < PATIENCE  # nobody waits longer where the clock was set back
    return not waits and not intents.is_landing(conn, merge_id)


def next_look(conn: Connection, target: str, now: datetime) -> datetime:
    """When to look at a target's held requests again: the last one's time on hold from now, within bounds."""
    rows = [row for row in merges.listing(conn, [MergeState.HELD]) if row["target"] == target]
    since = max((parse(row["updated_at"]) for row in rows), default=now)
    return now + min(max(now - since, PATIENCE), LONGEST_WAIT)


def _overlap(repo: Git, target: str, tip_sha: str, candidate_sha: str) -> bool:
    """Whether the target's checkout has something where a candidate would write. Landing checks again."""
    place = listing.checkout_of(repo, refs.branch_ref(target))
    if place is None or not place.is_dir():
        return False
    checkout = open_checkout(place)
    incoming = set(refs.changed_paths(repo, tip_sha, candidate_sha))
    changes = status.changes(checkout)
    staged = {change.path for change in changes if change.code[0] not in ".?"} & incoming
    compare = ("diff-index", "--cached", "--name-only", "--no-renames", "-z", candidate_sha)
    if staged and not staged.isdisjoint(checkout.check(*compare).names):
        return True
    # A removed file blocks nothing; a tracked folder is a submodule, into which git does not look.
    dirty = {
        change.path.rstrip("/")
        for change in changes
        if change.code == "??" or (change.code[1] not in ".D" and not (place / change.path).is_dir())
    }
    if any(_with_parents(path) & incoming for path in dirty) or any(_with_parents(path) & dirty for path in incoming):
        return True
    present = [f":(literal){path}" for path in sorted(incoming) if os.path.lexists(place / path)][:_NAMED_AT_ONCE]
    # git ignores a file that exists, is not tracked and is no change.
    return bool(present and checkout.check("ls-files", "--others", "-z", "--", *present).stdout)


def _with_parents(path: str) -> set[str]:
    return {path, *map(str, PurePosixPath(path).parents)}
