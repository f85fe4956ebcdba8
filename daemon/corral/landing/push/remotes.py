"""Fetches targets of remotes and pushes to them, where no step waits for it; what came of it is stored by the next step.

A landing's intent is stored before its push, and stays until it is known what became of that: after a failure, and after a kill,
the remote is looked at. If it has the commit, the landing goes on here; if it is where it was, the requests are held with its
words and the push is tried again; if it is elsewhere, they are built again. A remote that fails is asked again after a growing
wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection

from corral.config.sections.sharing import Landing
from corral.core.crash import crash_point
from corral.core.errors import CorralError
from corral.core.events import EventKind
from corral.core.instants import after, parse
from corral.core.logs import logger
from corral.core.remedies import with_remedy
from corral.git import refs
from corral.git.land import kept, landing, upstream
from corral.git.land.upstream import Failure
from corral.git.process.command import Git
from corral.landing import direct_commits, land
from corral.landing.push.place import Place, Waits, find
from corral.landing.verify.blame import describe, wait_s
from corral.store import events
from corral.store.protocol import Store
from corral.store.rows import required
from corral.store.rows.merges import IntentRow, LandedBranch, RemoteRow
from corral.work.merges.settling import OnSettled
from corral.work.merges.store import freezes, intents, merges
from corral.work.merges.store import remotes as rows

FRESH = timedelta(seconds=30)
"""For how long what was fetched is built upon without a new look."""
FOLLOW_AGAIN = timedelta(seconds=10)
"""Between two tries to bring what landed on a remote to the target here."""
_BRANCHES = "the branches"
"""Stands for no target: no branch has a name with a space."""

log = logger("landing")


class Remotes:
    """The targets of remotes. Only the queue's step may call it.

    Args:
        spawn: Runs a function that may take minutes where no step waits for it.
        ready: Told from there that it is done.
        on_settled: Told in the transaction in which a request ends.
    """

    def __init__(
        self, db: Store, spawn: Callable[[Callable[[], None]], None], ready: Callable[[], None], on_settled: OnSettled
    ) -> None:
        self._db, self._spawn, self._ready, self._on_settled = db, spawn, ready, on_settled
        self._at_work: set[str] = set()
        self._done = deque[tuple[str, Callable[[datetime], None]]]()
        self._places: dict[str, tuple[tuple[object, ...], Place | Waits]] = {}
        self._follow_at: dict[str, datetime] = {}

    # -- what is built upon ---------------------------------------------------------------------------------------

    def place(
        self, repo: Git, target: str, local_sha: str, landing: Landing, now: datetime, *, is_idle: bool = False
    ) -> Place | Waits:
        """Where the next candidate of a target (short name) begins; what was fetched of a remote is young, unless it is idle."""
        remote = landing.remote
        if remote is None or landing.push == "branch":
            return Place(local_sha, refs.branch_ref(target), local_sha, branches_to=remote or "")
        row = self._row(target, remote)
        if _due_at(row, timedelta(seconds=landing.fetch_s) if is_idle else FRESH, now) <= now:
            self._begin(target, partial(self._fetch, repo, target, remote), now)
            row = self._row(target, remote)
        if target in self._at_work or row is None:
            return Waits()
        seen = refs.read(repo, upstream.seen_ref(target)) if row["seen_at"] is not None else None
        if seen is None:
            return Waits(
                row["reason"] or f"{target} of {remote} is fetched again soon: {upstream.seen_ref(target)} is gone"
            )
        key = (remote, local_sha, seen, row["known_sha"])
        if self._places.get(target, ((), None))[0] != key:
            self._places[target] = key, find(repo, target, remote, local_sha, seen, row["known_sha"])
        place = self._places[target][1]
        if isinstance(place, Place) and (row["known_sha"], row["ahead"]) != (seen, place.ahead):
            ahead, known_sha = place.ahead, row["known_sha"]
            if (
                known_sha is None and is_idle and place.tip != local_sha
            ):  # no candidate is about to tell what it is worth
                known_sha = local_sha
            if known_sha is not None and known_sha != seen:  # somebody pushed there
                before = known_sha if refs.exists(repo, known_sha) else seen
                direct_commits.record(self._db, repo, target, before, place.tip, now, place.sides)
                self._ready()
            self._db.write(rows.built_upon, target, seen, ahead)
        return replace(place, trouble=row["reason"] or "") if isinstance(place, Place) else place

    def targets(self, landing: Landing) -> set[str]:
        """The targets (short names) of which a remote was asked, and the one that work lands on by default."""
        default = {landing.target} if landing.target is not None and landing.remote is not None else set[str]()
        return default.union(self._db.read(rows.every))

    def look(self, repo: Git, target: str, local_sha: str, landing: Landing, now: datetime) -> datetime | None:
        """Ask the remote of a target for which nothing waits, where it is time; returns when to call again."""
        if landing.remote is None or landing.push == "branch" or not landing.fetch_s:
            return None
        self.place(repo, target, local_sha, landing, now, is_idle=True)
        row, fresh = self._row(target, landing.remote), timedelta(seconds=landing.fetch_s)
        return None if target in self._at_work else _due_at(row, fresh, now)

    def _row(self, target: str, remote: str) -> RemoteRow | None:
        row = self._db.read(rows.every).get(target)
        return row if row is not None and row["remote"] == remote else None

    def _fetch(self, repo: Git, target: str, remote: str) -> Callable[[datetime], None]:
        try:
            seen = upstream.fetch(repo, remote, refs.branch_ref(target), upstream.seen_ref(target))
        except (CorralError, OSError) as error:
            seen = Failure(describe(error), "")
        if isinstance(seen, Failure):
            reason = with_remedy(f"{target} of {remote} cannot be fetched: {seen.words}", seen.remedy)
            return lambda now: self._db.write(self._failed, target, remote, reason, now)
        return lambda now: self._db.write(rows.seen, target, remote, now)

    def _failed(self, conn: Connection, target: str, remote: str, reason: str, now: datetime) -> None:
        row = rows.every(conn).get(target)
        tries = 1 + (row["tries"] if row is not None and row["remote"] == remote else 0)
        log.warning("remote_failed", target=target, remote=remote, reason=reason, tries=tries)
        rows.failed(conn, target, remote, reason, tries=tries, look_at=after(now, wait_s(tries)), now=now)

    # -- the push of a landing ------------------------------------------------------------------------------------

    def push(self, repo: Git, intent: IntentRow, now: datetime) -> None:
        """Push what an intent is about, unless that runs already, or the remote is to be left alone for a while."""
        row = self._row(intent["target"], required(intent["remote"]))
        if row is None or row["look_at"] is None or not now < parse(row["look_at"]):
            self._begin(intent["target"], partial(self._push, repo, intent), now)

    def _push(self, repo: Git, intent: IntentRow) -> Callable[[datetime], None]:
        target, remote = intent["target"], required(intent["remote"])
        ref, seen_ref, new_sha = refs.branch_ref(target), upstream.seen_ref(target), intent["new_sha"]
        try:
            failure = upstream.push(repo, remote, ref, new_sha, required(intent["remote_sha"]))
            crash_point("push.sent")
            if failure is None:
                repo.check("update-ref", seen_ref, new_sha)
                return partial(self._pushed, intent)
            seen = upstream.fetch(repo, remote, ref, seen_ref)  # perhaps only the answer was lost
            if not isinstance(seen, Failure) and refs.is_ancestor(repo, new_sha, seen):
                return partial(self._pushed, intent)
        except (CorralError, OSError) as error:
            seen = failure = Failure(describe(error), "")
        if isinstance(seen, Failure):
            reason = f"{remote} cannot be reached, and whether it has got what lands on {target} is not known: {failure.words}"
            return partial(self._unknown, intent, with_remedy(reason, failure.remedy))
        return partial(self._refused, repo, intent, seen, failure)

    def _pushed(self, intent: IntentRow, now: datetime) -> None:
        target, remote = intent["target"], required(intent["remote"])

        def store(conn: Connection) -> None:
            intents.pushed(conn, target, now)
            rows.pushed(conn, target, remote, intent["new_sha"], now)
            event = EventKind.TARGET_PUSHED({"target": target, "remote": remote, "sha": intent["new_sha"]})
            events.record(conn, now, event)

        self._db.write(store)
        crash_point("push.stored")

    def _unknown(self, intent: IntentRow, reason: str, now: datetime) -> None:
        def store(conn: Connection) -> None:
            self._failed(conn, intent["target"], required(intent["remote"]), reason, now)
            for merge_id in intent["merge_ids"]:
                merges.hold(conn, merge_id, reason, now)

        self._db.write(store)

    def _refused(self, repo: Git, intent: IntentRow, seen: str, failure: Failure, now: datetime) -> None:
        target, remote = intent["target"], required(intent["remote"])
        outcome: landing.Moved | landing.InTheWay = landing.Moved()
        if seen == intent["remote_sha"]:
            outcome = landing.InTheWay(f"{remote} did not take {target}: {failure.words}", [], failure.remedy)
            reason = with_remedy(outcome.reason, outcome.remedy)
            self._db.write(self._failed, target, remote, reason, now)
        else:
            self._db.write(rows.seen, target, remote, now)
        crash_point("push.refused")
        land.settle(self._db, repo, intent, outcome, on_settled=self._on_settled, now=now)

    # -- the target here ------------------------------------------------------------------------------------------

    def follow(self, repo: Git, now: datetime) -> list[datetime]:
        """Bring what was pushed, and could not come here then, to the targets here; returns when to try again."""
        due = []
        for target, row in self._db.read(rows.every).items():
            with self._db.reading() as conn:
                if (behind_sha := row["behind_sha"]) is None or freezes.is_frozen(conn, target):
                    continue
            at = self._follow_at.get(target, now)
            if not now < at <= now + FOLLOW_AGAIN:
                reason = self._brought(repo, target, row["remote"], behind_sha, now)
                self._db.write(partial(_still_behind, target, behind_sha, reason))
                self._follow_at[target] = at = now + FOLLOW_AGAIN
                if reason is None:
                    continue
            due.append(at)
        return due

    def bring(self, repo: Git, target: str, place: Place, now: datetime, *, is_frozen: bool) -> bool:
        """Move a target here to what others pushed, unless something speaks against it; returns whether it has moved."""
        if place.tip != place.remote_sha or place.tip == place.local_sha:
            return False
        reason = f"{target} is frozen." if is_frozen else self._brought(repo, target, place.remote, place.tip, now)
        self._db.write(rows.behind, target, place.tip if reason is not None else None, reason)
        return reason is None

    def _brought(self, repo: Git, target: str, remote: str, sha: str, now: datetime) -> str | None:
        """Fast-forward a target here; returns why it cannot be moved yet. A diverged one is moved by its next landing."""
        ref = refs.branch_ref(target)
        try:
            local_sha = refs.read(repo, ref)
            if local_sha is None or not refs.is_ancestor(repo, local_sha, sha):
                return None
            outcome = landing.land(repo, ref, sha, local_sha)
            if isinstance(outcome, landing.Landed):
                kept.advance(repo, target, sha, local_sha, now)
                followed = EventKind.TARGET_FOLLOWED({"target": target, "remote": remote, "sha": sha})
                self._db.write(events.record, now, followed)
        except (CorralError, OSError) as error:
            return describe(error)
        return with_remedy(outcome.reason, outcome.remedy) if isinstance(outcome, landing.InTheWay) else None

    # -- branches -------------------------------------------------------------------------------------------------

    def publish(self, repo: Git, now: datetime) -> list[datetime]:
        """Push the branches of landed tasks that are due; returns when others are."""
        branches = self._db.read(rows.unpublished)
        if due := [branch for branch in branches if parse(branch["look_at"]) <= now]:
            self._begin(_BRANCHES, partial(self._publish, repo, due), now)
        return [parse(branch["look_at"]) for branch in branches if branch not in due]

    def _publish(self, repo: Git, due: list[LandedBranch]) -> Callable[[datetime], None]:
        outcomes = [(branch, self._published(repo, branch)) for branch in due]

        def store(conn: Connection, now: datetime) -> None:
            for branch, failure in outcomes:
                tries = branch["tries"] + 1
                if failure is None:
                    rows.published(conn, branch["merge_id"])
                else:
                    words = with_remedy(failure.words, failure.remedy)
                    at = after(now, wait_s(tries))
                    rows.not_published(conn, branch["merge_id"], words, tries=tries, look_at=at)

        return lambda now: self._db.write(store, now)

    def _published(self, repo: Git, branch: LandedBranch) -> Failure | None:
        try:
            failure = upstream.push(repo, branch["remote"], refs.branch_ref(branch["branch"]), branch["head_sha"], "")
        except (CorralError, OSError) as error:
            return Failure(describe(error), "")
        if failure is not None and failure.words.startswith("[rejected]"):  # it has that branch, with other commits
            log.warning("branch_not_published", branch=branch["branch"], reason=failure.words)
            return None
        return failure

    # -- work that no step waits for ------------------------------------------------------------------------------

    def collect(self, now: datetime) -> None:
        """Store what came of it."""
        while self._done:
            key, store = self._done.popleft()
            self._at_work.discard(key)
            store(now)

    def _begin(self, key: str, work: Callable[[], Callable[[datetime], None]], now: datetime) -> None:
        if key in self._at_work:
            return
        self._at_work.add(key)

        def run() -> None:
            store: Callable[[datetime], None] = _nothing
            try:
                store = work()
            finally:
                self._done.append((key, store))
                self._ready()

        self._spawn(run)
        self.collect(now)


def _still_behind(target: str, sha: str, reason: str | None, conn: Connection) -> None:
    rows.behind(conn, target, sha if reason is not None else None, reason)


def _nothing(_now: datetime) -> None:
    """Nothing came of it: the next step begins again."""


def _due_at(row: RemoteRow | None, fresh: timedelta, now: datetime) -> datetime:
    """When a remote is to be asked: what is known of it is old, or it failed a while ago; a clock set back makes all old."""
    if row is not None and row["look_at"] is not None:
        return parse(row["look_at"])
    if row is None or row["seen_at"] is None or parse(row["seen_at"]) > now:
        return now
    return parse(row["seen_at"]) + fresh
