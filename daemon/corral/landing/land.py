"""The durable step that moves a target, and the cleanup after it.

An intent is stored, the target moves, the outcome is stored and the intent removed. Killed anywhere between, the same
:func:`carry_out` concludes it at the next start: git's step is idempotent, and the intent names the exact commits.
A remaining ref of a request (``refs/corral/mq/<merge_id>``) says that it still has to be tidied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from corral.core.crash import crash_point
from corral.core.errors import CorralError, DatabaseUnavailable, GitFailed
from corral.core.instants import parse
from corral.core.logs import logger
from corral.core.remedies import with_remedy
from corral.core.states import OPEN_MERGES, MergeState
from corral.core.visible import embedded
from corral.git import refs
from corral.git.checkouts import listing as worktree_list
from corral.git.land import candidates, forward, kept, landed, landing
from corral.git.process.command import Git, Outcome
from corral.git.refs import Change
from corral.landing import blockers, receipt_notes
from corral.landing.push.place import Place, went_along
from corral.landing.verify import blame
from corral.store.protocol import Store
from corral.store.rows import required
from corral.store.rows.merges import Intent, IntentRow, MergeRow
from corral.work.merges.settling import OnSettled
from corral.work.merges.store import direct_tips, freezes, intents, merges, remotes
from corral.work.worktrees import store as worktree_rows

HELD_REFS = "refs/corral/mq/"
REVERT_BRANCH = "corral/revert-"
"""Begins the name of the branch that has a revert; the beginning of the request's id follows."""
AGAIN = timedelta(seconds=2)
"""Between two tries to conclude a landing."""

NOT_RECOVERED_AGAIN = timedelta(seconds=30)
"""Between two tries to clear a checkout of what a killed landing left in it, where nothing is to land."""

LONGEST_UNREST = timedelta(seconds=30)
"""How long a landing waits for a checkout in which git runs all the time."""

log = logger("landing")


def end(
    conn: Connection, on_settled: OnSettled, merge_id: str, state: MergeState, *, now: datetime, **values: Any
) -> MergeRow | None:
    """End an open request and call ``on_settled``; None if it had ended already."""
    row = merges.finish(conn, merge_id, state, now=now, **values)
    if row is not None:
        on_settled(conn, row, now)
    return row


def land(
    db: Store,
    repo: Git,
    rows: Sequence[MergeRow],
    receipt_ids: Sequence[str],
    place: Place,
    *,
    rest_s: float,
    on_settled: OnSettled,
    now: datetime,
) -> MergeState | None:
    """Land a judged candidate, and with it those that it is built upon; with a remote :func:`resume` has it pushed there first.

    Args:
        rows: The chain of requests, the first upon the target's tip.
        receipt_ids: What proves each of them: its own receipt, or that of the last one's candidate.
        place: Where the chain begins.
        rest_s: Seconds for which nobody else's git must have written in the checkout that has the target. One that never
            rests is not waited for longer than :data:`LONGEST_UNREST`.

    Returns:
        Where the requests stand now: landed; queued again (the target had moved); held (something is in the way of at least
        one of them); None if one ended meanwhile, or it is to be pushed.
    """
    intent: Intent = {
        "target": rows[0]["target"],
        "old_sha": place.local_sha,
        "new_sha": required(rows[-1]["candidate_sha"]),
        "merge_ids": [row["merge_id"] for row in rows],
        "remote": place.remote or None,
        "remote_sha": place.remote_sha or None,
        "pushed_at": None,
    }
    if place.remote and _held_before_push(db, repo, rows, now):
        return MergeState.HELD

    def intend(conn: Connection) -> bool:
        candidates = [(row["merge_id"], required(row["candidate_sha"])) for row in rows]
        if not all(merges.is_candidate(conn, merge_id, sha) for merge_id, sha in candidates):
            return False
        if freezes.is_frozen(conn, intent["target"]):  # by a person, since the plan was made
            return False
        for (merge_id, sha), receipt_id in zip(candidates, receipt_ids, strict=True):
            merges.judged(conn, merge_id, sha, receipt_id)
        intents.intend(conn, **intent, now=now)
        if place.branches_to:
            of_tasks = [row["merge_id"] for row in rows if row["task_id"] is not None]
            remotes.to_publish(conn, of_tasks, place.branches_to, now)
        return True

    crash_point("landing.before_intent")
    if not db.write(intend):
        return None
    crash_point("landing.intent_stored")
    if place.remote:
        return None
    has_waited = any(
        row["state"] == MergeState.HELD and now - parse(row["updated_at"]) >= LONGEST_UNREST for row in rows
    )
    quiet_since = None if has_waited else now - timedelta(seconds=rest_s)
    return carry_out(db, repo, intent, quiet_since=quiet_since, on_settled=on_settled, now=now)


def _held_before_push(db: Store, repo: Git, rows: Sequence[MergeRow], now: datetime) -> bool:
    """Hold those whose work the target's checkout could not take here: what is pushed cannot be taken back."""
    reasons = [(row["merge_id"], blockers.uncommitted(repo, row)) for row in rows]
    for merge_id, reason in reasons:
        if reason:
            db.write(merges.hold, merge_id, reason, now)
    return any(reason for _, reason in reasons)


def carry_out(
    db: Store,
    repo: Git,
    intent: Intent,
    *,
    on_settled: OnSettled,
    now: datetime,
    quiet_since: datetime | None = None,
) -> MergeState:
    """Carry out an intent, unless it was done before or cannot be done, and store the outcome. Safe to run twice.

    Args:
        quiet_since: See :func:`corral.git.land.landing.land`.
    """
    target, new_sha = intent["target"], intent["new_sha"]
    failed = "could not be moved"
    try:
        outcome = landing.land(repo, refs.branch_ref(target), new_sha, intent["old_sha"], quiet_since=quiet_since)
        crash_point("landing.target_moved")
        if isinstance(outcome, landing.Landed):
            failed = "has moved, and no ref could be made that keeps what landed"
            kept.advance(repo, target, new_sha, intent["old_sha"], now)
    except (CorralError, OSError) as error:
        # The target may have moved: the intent stays, and a later step checks.
        reason = f"{target} {failed}: {blame.describe(error)}"

        def give_up(conn: Connection) -> None:
            intents.intent_failed(conn, target, now)
            for merge_id in intent["merge_ids"]:
                merges.hold(conn, merge_id, reason, now)

        db.write(give_up)
        return MergeState.HELD
    crash_point("landing.tip_kept")
    return settle(db, repo, intent, outcome, on_settled=on_settled, now=now)


def settle(
    db: Store,
    repo: Git,
    intent: Intent,
    outcome: landing.Landed | landing.Moved | landing.InTheWay,
    *,
    on_settled: OnSettled,
    now: datetime,
) -> MergeState:
    """Store what became of an intent, with all that follows from it. What was pushed has landed, whatever is in its way here."""
    target, new_sha = intent["target"], intent["new_sha"]
    is_landed = isinstance(outcome, landing.Landed) or intent["pushed_at"] is not None
    reason, behind = _told(repo, intent, outcome) if is_landed and intent["remote"] else (None, None)
    if behind is not None and refs.read(repo, kept.tip_ref(target)) is None:
        # Else the next start would take what is not here yet for lost.
        kept.advance(repo, target, intent["old_sha"], "", now)
    moved = f"{target} of {intent['remote']}" if intent["remote"] else target
    if is_landed:
        receipt_notes.of_landing(db, repo, intent, now)
        crash_point("landing.receipt_noted")
    blocked = isinstance(outcome, landing.InTheWay) and outcome.paths
    place = worktree_list.checkout_of(repo, refs.branch_ref(target)) if blocked else None
    clear = _not_in_the_way(db, repo, intent, outcome.paths) if isinstance(outcome, landing.InTheWay) else set[str]()

    def store(conn: Connection) -> MergeState:
        intents.conclude(conn, target)
        if is_landed and intent["remote"]:
            remotes.behind(conn, target, new_sha if behind else None, behind)
        state = MergeState.LANDED
        for merge_id in intent["merge_ids"]:
            row = merges.get(conn, merge_id)
            if is_landed:
                landed_sha = row["candidate_sha"] or new_sha
                came = {"landed_sha": landed_sha, "landed_tip_sha": new_sha, "reason": reason}
                end(conn, on_settled, merge_id, MergeState.LANDED, now=now, **came)
                if row["bypassed_sha"] == row["head_sha"]:
                    _to_be_verified(conn, row, intent, now)
            elif row["replaced_by"] is not None:
                # A newer request of its branch came while it was landing, and goes on in its place.
                if (superseded := merges.supersede(conn, row, row["replaced_by"], now)) is not None:
                    on_settled(conn, superseded, now)
            elif isinstance(outcome, landing.Moved):
                state = MergeState.QUEUED
                merges.requeue(conn, merge_id, now, reason=f"{moved} moved; the merge is built again on its new tip.")
            elif merge_id in clear:
                state = MergeState.HELD
            elif isinstance(outcome, landing.InTheWay):
                state = MergeState.HELD
                paths = f" ({', '.join(outcome.paths[:10])})" if outcome.paths else ""
                checkout = str(place) if place is not None else None
                why = with_remedy(f"{outcome.reason}{paths}", outcome.remedy)
                merges.hold(conn, merge_id, why, now, paths=outcome.paths, checkout=checkout)
        return state

    state = db.write(store)
    crash_point("landing.outcome_stored")
    return state


def _told(
    repo: Git, intent: Intent, outcome: landing.Landed | landing.Moved | landing.InTheWay
) -> tuple[str | None, str | None]:
    """What is to be said of requests that landed on a remote; and why the target here does not have them yet."""
    behind = None
    if isinstance(outcome, landing.InTheWay):
        behind = with_remedy(outcome.reason, outcome.remedy)
    elif isinstance(outcome, landing.Moved):
        behind = f"{intent['target']} moved here meanwhile; it gets them with what lands next."
    here = f"They landed on {intent['remote']}, and not here yet: {behind}" if behind is not None else ""
    return " ".join(part for part in (went_along(repo, intent), here) if part) or None, behind


def _to_be_verified(conn: Connection, merge: MergeRow, intent: Intent, now: datetime) -> None:
    """The target has a tip that nothing verified: it is seen like a commit that somebody made there."""
    before = direct_tips.of(conn, intent["target"])
    whose = f"{embedded(merge['title'])!r} (request {merge['merge_id'][:8]}): {merge['bypass_reason']}"
    whose += f", after {before['whose']}" if before is not None else ""
    tip = {"base_sha": intent["old_sha"], "tip_sha": intent["new_sha"], "whose": whose}
    direct_tips.seen(conn, intent["target"], **tip, now=now)


def _not_in_the_way(db: Store, repo: Git, intent: Intent, paths: Sequence[str]) -> set[str]:
    """The requests of a chain that touch none of the files that kept it from landing; they go on without the others."""
    if len(intent["merge_ids"]) < 2:
        return set()
    with db.reading() as conn:
        rows = [merges.get(conn, merge_id) for merge_id in intent["merge_ids"]]
    try:
        clear = _clear(repo, rows, paths)
    except (CorralError, OSError) as error:  # then all of them wait
        log.warning("in_the_way_unknown", reason=blame.describe(error))
        return set()
    return clear if len(clear) < len(rows) else set()


def _clear(repo: Git, rows: Sequence[MergeRow], paths: Sequence[str]) -> set[str]:
    return {
        row["merge_id"]
        for row in rows
        if row["tip_sha"] and row["candidate_sha"]
        and set(paths).isdisjoint(refs.changed_paths(repo, row["tip_sha"], row["candidate_sha"]))
    }  # fmt: skip


def resume(
    db: Store, repo: Git, *, push: Callable[[IntentRow], None], on_settled: OnSettled, now: datetime
) -> set[str]:
    """Carry out every intent that is left, each by itself.

    Args:
        push: Pushes what an intent is about, and says with ``pushed_at`` that it is there.

    Returns:
        The targets whose intent stays: it could not be concluded, which the reason of its requests tells, or is being pushed.
    """
    for intent in db.read(intents.listing):
        if is_to_push(intent):
            push(intent)
    for intent in db.read(intents.listing):
        failed_at = intent["failed_at"]
        if is_to_push(intent):
            continue
        if failed_at is not None and timedelta(0) <= now - parse(failed_at) < AGAIN:
            continue
        if _waits_for_thaw(db, repo, intent):
            continue
        if db.write(intents.take_up_intent, intent["target"]):
            carry_out(db, repo, intent, on_settled=on_settled, now=now)
    return {intent["target"] for intent in db.read(intents.listing)}


def is_to_push(intent: IntentRow) -> bool:
    """Whether an intent's remote does not have its commit yet, as far as is known."""
    return intent["remote"] is not None and intent["pushed_at"] is None


def _waits_for_thaw(db: Store, repo: Git, intent: Intent) -> bool:
    """Whether a landing that was begun has not moved its target yet, and a person has frozen that since."""
    target = intent["target"]
    if not db.read(freezes.is_frozen, target):
        return False
    return refs.read(repo, refs.branch_ref(target)) == intent["old_sha"]


def verify_landed(repo: Git, now: datetime) -> tuple[list[datetime], dict[str, str]]:
    """Check, shortly after a landing, whether another git process has undone it in the user's checkout.

    Release first the lock that a killed check left there.

    Returns:
        When to check again; and by folder, why the lock of an earlier check could not be released.
    """
    due: list[datetime] = []
    stuck: dict[str, str] = {}
    try:
        failed = forward.recover(repo)
        checkouts = landing.to_verify(repo)
    except (CorralError, OSError) as error:  # this check must never block a landing
        log.warning("landings_not_verified", reason=blame.describe(error))
        return [now + AGAIN], stuck
    for checkout, why in failed:
        folder = worktree_list.folder_of(checkout.git_dir)
        stuck[str(folder)] = blame.describe(why)
        log.warning("checkout_not_recovered", checkout=str(folder), reason=stuck[str(folder)])
        due.append(now + NOT_RECOVERED_AGAIN)
    for checkout, at in checkouts:
        if at > now:
            due.append(at)
            continue
        try:
            outcome = landed.verify(checkout)
        except (CorralError, OSError) as error:
            log.warning("landing_not_verified", checkout=str(checkout.work_tree), reason=blame.describe(error))
            continue
        if outcome is None:
            due.append(now + AGAIN)
        elif outcome.repaired:
            log.warning("landing_put_right", checkout=str(checkout.work_tree), paths=outcome.repaired)
        elif outcome.differ:
            log.warning("landing_differs", checkout=str(checkout.work_tree), paths=outcome.differ)
    return due, stuck


class Tidy(Enum):
    """The work that a sweep has left."""

    DONE = auto()
    STAYS = auto()
    """A landed branch, because a worktree or an open request has it: sweep again when that may be gone."""
    FAILED = auto()
    """git could not change something, mostly because a killed git left a lock: sweep again soon."""


def sweep(db: Store, repo: Git, *, orphans: bool) -> Tidy:
    """Remove the refs of every request that has ended. Never blocks: what git refuses is logged and stays.

    Args:
        orphans: Also of refs whose request was never stored. Only while nobody submits.
    """
    try:
        return _swept(db, repo, orphans=orphans)
    except GitFailed as error:  # each further ref would wait a second for the same lock
        log.warning("not_tidied", reason=blame.describe(error))
        return Tidy.FAILED


def _swept(db: Store, repo: Git, *, orphans: bool) -> Tidy:
    held = {ref.name.removeprefix(HELD_REFS): ref for ref in refs.listing(repo, HELD_REFS)}
    with db.reading() as conn:
        requests = merges.by_id(conn, [*held])
        behind = {target for target, row in remotes.every(conn).items() if row["behind_sha"] is not None}
    landed = [row for row in requests.values() if row["state"] == MergeState.LANDED]
    retired = [row for row in landed if row["target"] not in behind]  # until then nothing else here may have the others
    outcomes = [Tidy.STAYS] if len(retired) < len(landed) else []
    outcomes += [_retire(db, repo, [(row, held[row["merge_id"]]) for row in retired])] if retired else []
    for merge_id, ref in held.items():
        merge = requests.get(merge_id)
        if merge is not None and merge["state"] not in (*OPEN_MERGES, MergeState.LANDED):
            outcomes.append(_tried(partial(_let_go, repo, merge, ref.sha), ref))
        elif merge is None and orphans:
            outcomes.append(_tried(partial(_release_orphan, repo, ref), ref))
    return max(outcomes, key=list(Tidy).index, default=Tidy.DONE)


def _tried(tidy: Callable[[], None], ref: refs.Ref) -> Tidy:
    try:
        tidy()
    except (CorralError, OSError) as error:
        return _not_tidied(error, ref)
    return Tidy.DONE


def _not_tidied(error: CorralError | OSError, ref: refs.Ref) -> Tidy:
    if isinstance(error, DatabaseUnavailable):
        raise error
    if isinstance(error, GitFailed) and error.details.get("outcome") == Outcome.LOCK.value:
        raise error
    log.warning("not_tidied", ref=ref.name, reason=blame.describe(error))
    return Tidy.FAILED


def _retire(db: Store, repo: Git, landed: Sequence[tuple[MergeRow, refs.Ref]]) -> Tidy:
    """Retire what has landed: all at once, or one by one if that fails."""
    try:
        return Tidy.DONE if _retire_branches(db, repo, landed) else Tidy.STAYS
    except (CorralError, OSError) as error:
        if len(landed) == 1:
            return _not_tidied(error, landed[0][1])
        if isinstance(error, GitFailed) and error.details.get("outcome") == Outcome.LOCK.value:
            raise
    return max((_retire(db, repo, [row]) for row in landed), key=list(Tidy).index)


def _retire_branches(db: Store, repo: Git, landed: Sequence[tuple[MergeRow, refs.Ref]]) -> bool:
    """Delete the branches that have landed, if we made them and they are still at the landed head.

    False: some of them are still needed, and so is the ref of their request.
    """
    with db.reading() as conn:
        own = {row["branch"] for row, _ in landed if _is_reverts(row) or merges.is_own_branch(conn, row["branch"])}
        awaited = {branch for branch in own if merges.is_open_branch(conn, branch)}  # it is to land elsewhere too
        folders = {row["path"]: branch for branch in own for row in worktree_rows.live_of_branch(conn, branch)}
    needed = awaited | {branch for path, branch in folders.items() if Path(path).exists()}
    at_head = {
        row["merge_id"]: refs.branch_ref(row["branch"])
        for row, _ in landed
        if row["branch"] in own and refs.read(repo, refs.branch_ref(row["branch"])) == row["head_sha"]
    }
    listed = worktree_list.entries(repo) if at_head else []
    branches, ended = list[Change](), list[Change]()
    for row, ref in landed:
        if (full := at_head.get(row["merge_id"])) is not None:
            if row["branch"] in needed or worktree_list.holding(repo, full, listed):
                continue
            branches.append(Change(full, "", row["head_sha"]))
        ended.append(Change(ref.name, "", ref.sha))
    _delete(repo, branches)
    crash_point("landing.branch_retired")
    _delete(repo, ended)
    return len(ended) == len(landed)


def _is_reverts(merge: MergeRow) -> bool:
    """Whether its branch was made for a revert: one that a person submitted again is theirs."""
    return merge["reverts"] is not None and merge["branch"].startswith(REVERT_BRANCH)


def _delete(repo: Git, changes: Sequence[Change]) -> None:
    """Delete refs that are where they were; what has moved stays."""
    if not refs.change(repo, changes):
        for change in changes:
            refs.delete(repo, change.ref, change.old)


def _release_orphan(repo: Git, ref: refs.Ref) -> None:
    """Release the ref of a request that was never stored, unless nothing else holds it: that may be work from a lost database."""
    if refs.holder(repo, ref.sha, besides=ref.name) is not None:
        candidates.release(repo, ref.name.removeprefix(HELD_REFS))


def _let_go(repo: Git, merge: MergeRow, held_sha: str) -> None:
    """Release the commits of a request that did not land, unless it is the last to know the work itself."""
    tip = refs.branch_tip(repo, merge["branch"])
    if tip is not None and refs.is_ancestor(repo, merge["head_sha"], tip):
        candidates.release(repo, merge["merge_id"])
    elif held_sha != merge["head_sha"]:
        candidates.hold(repo, merge["merge_id"], merge["head_sha"])
