"""Landed work stays landed, or is reported as lost: a target that was rewound, and what it lost.

The refs of :mod:`corral.git.land.kept` are the truth; the reasons of landed requests follow from them, and :attr:`Rewinds.open`
from both, at a start as well. So a rewind is noticed whoever did it, and whether or not a daemon ran.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from shlex import quote

from sqlalchemy import Connection

from corral.core.crash import crash_point
from corral.core.errors import RACED, Conflict, CorralError, DatabaseUnavailable, GitFailed, NotFound
from corral.core.event_payloads import TargetRewound
from corral.core.events import EventKind, Kind
from corral.core.instants import after, iso
from corral.core.logs import logger
from corral.core.visible import one_line
from corral.git import refs
from corral.git.land import kept
from corral.git.land.kept import Aside, Held
from corral.git.process.command import Git
from corral.git.refs import Change
from corral.landing import bypasses, direct_commits
from corral.store import events
from corral.store.protocol import Store
from corral.store.rows.merges import MergeRow
from corral.work.merges.settling import OnSettled
from corral.work.merges.store import landed
from corral.work.merges.wire import MISSING, TAKEN_BACK
from corral.work.tasks.store import tasks as task_rows

AGAIN = timedelta(seconds=5)
"""Until the next look at a target after a look failed."""
MOST_NAMED = 5
"""Requests that a sentence names."""

MOST_RECORDED = 100
"""Requests that an event names."""

log = logger("landing")


@dataclass(frozen=True)
class Rewind:
    """A tip that a target lost, about which nobody has decided.

    Attributes:
        target: Short name.
        lost_sha: The tip.
        tip: Where the target is; None: it is gone.
        at: When it was noticed (aware UTC).
        requests: The landed requests that are missing, in the order of the landings.
    """

    target: str
    lost_sha: str
    tip: str | None
    at: datetime
    requests: tuple[MergeRow, ...]

    @property
    def what(self) -> str:
        """The event, in a sentence."""
        titles = ", ".join(repr(one_line(row["title"])[:60]) for row in self.requests[:MOST_NAMED])
        more = f" and {len(self.requests) - MOST_NAMED} more" if len(self.requests) > MOST_NAMED else ""
        number = f"{len(self.requests)} landed request{'s' if len(self.requests) > 1 else ''}"
        if self.tip is None:
            return f"The branch {self.target} is gone, and no other branch has its {number}: {titles}{more}."
        return f"{self.target} was rewound: at {self.tip[:12]} it lacks {number}: {titles}{more}."

    @property
    def remedy(self) -> str:
        """The commands that bring it back, and that accept its loss."""
        target, sha = quote(self.target), self.lost_sha[:12]
        command = f"corral merge submit {sha} --target {target}" if self.tip else f"git branch {target} {sha}"
        return f"Bring it back: {command}. Or accept that it is gone: corral merge accept-rewind {target}"


class Rewinds:
    """Watches the targets on which something landed. Only the queue's step may call it, unless a method says otherwise.

    Attributes:
        open: The rewinds that a person has to decide about, by target; may be read from any thread.
    """

    def __init__(self, db: Store, on_settled: OnSettled, nudge: Callable[[], None]) -> None:
        self._db = db
        self._on_settled = on_settled
        self._nudge = nudge
        self._due = deque[str]()
        self._seen: dict[str, tuple[object, ...]] = {}
        self._tips: dict[str, str | None] = {}
        self.open: dict[str, tuple[Rewind, ...]] = {}

    def recover(self, repo: Git, days: int | None, now: datetime) -> None:
        """Load the targets at a start, and look at each. Work that landed before these refs existed gets its ref.

        Args:
            days: For how long what landed is kept; None: for ever.
        """
        before = after(now, -days * 86_400.0) if days is not None else ""
        known = {ref.name.split("/")[4] for ref in refs.listing(repo, kept.PREFIX) if ref.name.count("/") > 3}
        for target, landed_at in self._db.read(landed.targets).items():
            if kept.folder(target) not in known:
                if landed_at <= before:
                    continue
                with self._db.reading() as conn:
                    newest = landed.on(conn, target)[-1]
                if refs.exists(repo, sha := str(newest["landed_sha"])):
                    refs.change(repo, [Change(kept.tip_ref(target), sha, "")])
            self.remember(target)
        self.look(repo, now)

    def remember(self, target: str) -> None:
        """Look at this target with the next step, and from now on whenever it moves. From any thread."""
        self._due.append(target)

    def has_moved(self, repo: Git) -> bool:
        """Whether a target has moved since the last look; starts no process. From any thread."""
        return any(
            kept.signature(repo, refs.branch_ref(target)) != signature for target, signature in self._seen.items()
        )

    def look(self, repo: Git, now: datetime) -> list[datetime]:
        """Look at the targets that have moved; returns when to look again, if a look failed."""
        while self._due:
            self._seen = {**self._seen, self._due.popleft(): ()}
        due = []
        for target, last_signature in self._seen.items():
            signature = kept.signature(repo, refs.branch_ref(target))
            if signature == last_signature:
                continue
            try:
                self._look_at(repo, target, now)
            except DatabaseUnavailable:
                raise
            except (CorralError, OSError) as error:
                reason = error.message if isinstance(error, CorralError) else str(error)
                log.warning("target_not_looked_at", target=target, reason=reason)
                due.append(now + AGAIN)
                continue
            self._seen = {**self._seen, target: signature}
        return due

    def _look_at(self, repo: Git, target: str, now: datetime) -> None:
        held, tip = kept.held(repo, target), refs.read(repo, refs.branch_ref(target))
        at = tip
        if tip is None and held.tip and kept.is_on_a_branch(repo, held.tip):
            at = held.tip  # it was renamed, or merged and deleted: another branch has all of it
        if at != held.tip or held.lost or held.kept or target in self.open:
            self._settle(repo, target, held, at, now)
        if tip is not None and self._tips.get(target, tip) is None:
            self._db.write(task_rows.end_fault_backoffs)
            self._nudge()  # tasks that waited for it start now
        before = self._tips.get(target) or held.tip
        if tip is not None and before and tip not in (before, held.tip):
            bypasses.record(self._db, repo, target, before, tip, now)
            direct_commits.record(self._db, repo, target, before, tip, now)
            self._nudge()
        self._tips[target] = tip

    def _settle(self, repo: Git, target: str, held: Held, at: str | None, now: datetime) -> None:
        """Bring the refs, and then the rows, in line with where a target is."""
        inside = kept.inside(repo, target, at) if at else frozenset[str]()
        returned = [aside for aside in (*held.lost, *held.kept) if aside.ref in inside]
        lost = [aside for aside in held.lost if aside.ref not in inside]
        is_rewound = bool(held.tip) and kept.tip_ref(target) not in inside
        if is_rewound and not any(refs.is_ancestor(repo, held.tip, aside.sha) for aside in lost):
            lost.append(Aside("", held.tip, now))
        if is_rewound:  # it may also have lost work that it had under other commits
            lost += [replace(aside, at=now) for aside in held.kept if aside.ref not in inside]
        rows = self._db.read(landed.on, target) if lost else []
        rewinds = _each_once([_rewind(repo, target, aside, at, rows) for aside in lost])
        tip = held.tip
        if is_rewound:
            is_rewritten = at is not None and not any(rewind.requests for rewind in rewinds)
            tip = str(at) if is_rewritten else _newest_inside(repo, rows, at)
        for aside in returned:
            tip = aside.sha if not tip or refs.is_ancestor(repo, tip, aside.sha) else tip
        changes = [Change(aside.ref, "", aside.sha) for aside in returned]
        changes += [Change(kept.tip_ref(target), tip, held.tip)] if tip != held.tip else []
        settled = [] if is_rewound else [aside for aside in held.kept if aside not in returned]
        for aside, rewind in zip(lost, rewinds, strict=True):
            state = kept.LOST if rewind.requests else kept.KEPT
            ref = kept.aside_ref(target, state, aside.sha, aside.at)
            if not rewind.requests and f"/{kept.KEPT}/" in aside.ref:
                ref = aside.ref  # the ref keeps its age
            changes += [Change(ref, aside.sha, "")] if ref != aside.ref else []
            changes += [Change(aside.ref, "", aside.sha)] if aside.ref not in ("", ref) else []
            settled += [] if rewind.requests else [aside]
        if not refs.change(repo, changes, why="corral: rewound"):
            raise GitFailed(f"Something else moved the refs that hold what landed on {target}.")
        crash_point("rewinds.refs_moved")
        self._update_requests(repo, target, [rewind for rewind in rewinds if rewind.requests], settled, at, now)

    def _update_requests(
        self, repo: Git, target: str, rewinds: list[Rewind], settled: list[Aside], at: str | None, now: datetime
    ) -> None:
        """Store for each request whether its target has it, with all that follows from it, in one transaction."""
        missing = {row["merge_id"]: (row, rewind) for rewind in rewinds for row in rewind.requests}
        with self._db.reading() as conn:
            marked = landed.no_more_on(conn, target)
        others = [row for row in marked if row["merge_id"] not in missing]
        gone = {key for aside in settled for key in _missing(repo, aside.sha, at, others)} if others else set[str]()
        reached = _reached(repo, [aside.sha for aside in settled], at, others)

        def store(conn: Connection) -> None:
            known = {row["merge_id"] for row in marked if str(row["reason"]).startswith(MISSING)}
            for rewind in rewinds:
                new = [row for row in rewind.requests if row["merge_id"] not in known]
                for row in new:
                    self._explain(conn, row, f"{MISSING}{target} since {iso(rewind.at)}: {_where(rewind)}.", now)
                _record(conn, EventKind.TARGET_REWOUND, target, rewind.lost_sha, new, rewind.what, now)
            given_up = [row for row in others if row["merge_id"] in gone and row["merge_id"] in known]
            for row in given_up:
                self._explain(conn, row, f"{TAKEN_BACK}{target}: a person accepted at {iso(now)} that it is gone.", now)
            reason = f"what was missing since {target} was rewound is not asked for any more"
            _record(conn, EventKind.TARGET_REWIND_ACCEPTED, target, "", given_up, reason, now)
            restored = [row for row in others if row["merge_id"] not in gone and row["merge_id"] in reached]
            for row in restored:
                self._explain(conn, row, None, now)
            _record(conn, EventKind.TARGET_RESTORED, target, at or "", restored, f"{target} has it again", now)

        if rewinds or others:
            self._db.write(store)
            self._nudge()
        rest = {name: those for name, those in self.open.items() if name != target}
        self.open = {**rest, target: tuple(rewinds)} if rewinds else rest

    def _explain(self, conn: Connection, row: MergeRow, reason: str | None, now: datetime) -> None:
        if (changed := landed.explain(conn, row["merge_id"], reason, now)) is not None:
            self._on_settled(conn, changed, now)

    def adopt(self, repo: Git, merge: MergeRow, head: str, now: datetime) -> str:
        """Keep a ref on what the target has already, as on what lands; returns how it came there, if not by the queue.

        Args:
            head: The request's head, or the commit of the target's that has all of it.
        """
        target = merge["target"]
        before, tip = refs.read(repo, kept.tip_ref(target)), refs.read(repo, refs.branch_ref(target))
        self.remember(target)
        if tip is None or (before is not None and refs.is_ancestor(repo, head, before)):
            return ""
        kept.advance(repo, target, tip, "", now)
        return ", from the worktree of its task, past the queue" if merge["task_id"] is not None else ", past the queue"

    def holds(self, repo: Git, merge: MergeRow) -> str | None:
        """Why a request must not land now: it would restore what its target lost, before a person has decided.

        The request of a lost tip itself is that person's decision.
        """
        for rewind in self.open.get(merge["target"], ()):
            lost = {row["landed_sha"] for row in rewind.requests}
            if merge["head_sha"] == rewind.lost_sha or merge["head_sha"] in lost:
                continue
            tip = [f"^{rewind.tip}"] if rewind.tip else []
            commits = repo.must("rev-list", merge["head_sha"], *tip).split()
            if not lost.isdisjoint(commits):
                return f"It was made on what {rewind.target} lost, and waits until that is decided: {rewind.remedy}"
        return None

    def accept(self, repo: Git, target: str, lost: Sequence[str], now: datetime) -> list[Rewind]:
        """A person accepts that a target lost what it lost. From any thread; the next step tells everybody.

        Args:
            target: Short name.
            lost: The lost tips that the person has seen.

        Raises:
            NotFound: The target lost nothing, or has it again.
            Conflict: It lost something else meanwhile.
            GitFailed: Git refused.
        """
        rewinds = self.open.get(target, ())
        if not rewinds:
            raise NotFound(
                f"{target[:200]} lacks nothing that landed on it.",
                cause="It lost nothing, has it again, or a person has accepted the loss.",
                remedy="`corral status` shows what needs you."
                if not self.open
                else f"These do: {', '.join(self.open)}.",
            )
        if {rewind.lost_sha for rewind in rewinds} != set(lost):
            raise Conflict(
                f"{target} lost something else meanwhile.",
                cause="You accepted what it had lost when you looked.",
                remedy=f"Look again: corral merge accept-rewind {target}",
            )
        changes = []
        for aside in kept.held(repo, target).lost:
            if aside.sha in lost:
                ref = kept.aside_ref(target, kept.KEPT, aside.sha, now)
                changes += [Change(ref, aside.sha, ""), Change(aside.ref, "", aside.sha)]
        if not refs.change(repo, changes, why="corral: accepted"):
            raise Conflict(f"{target} is being looked at just now.", cause=RACED, remedy="Try it again.")
        self.remember(target)
        return list(rewinds)


def _rewind(repo: Git, target: str, aside: Aside, at: str | None, rows: Sequence[MergeRow]) -> Rewind:
    ids = _missing(repo, aside.sha, at, rows)
    requests = tuple(row for row in rows if row["merge_id"] in ids and not str(row["reason"]).startswith(TAKEN_BACK))
    return Rewind(target, aside.sha, at, aside.at, requests)


def _each_once(rewinds: list[Rewind]) -> list[Rewind]:
    """The same rewinds; each whose missing requests are all named by another one names none itself."""
    lacking = [{row["merge_id"] for row in rewind.requests} for rewind in rewinds]
    unique = []
    for number, rewind in enumerate(rewinds):
        others = [ids for other, ids in enumerate(lacking) if (len(ids), other) > (len(lacking[number]), number)]
        unique.append(replace(rewind, requests=()) if any(lacking[number] <= ids for ids in others) else rewind)
    return unique


def _missing(repo: Git, lost: str, at: str | None, rows: Sequence[MergeRow]) -> set[str]:
    """The ids of those requests that a lost tip has and its target has not, neither as commits nor as their content."""
    reach, seen, missing = kept.reach(repo, lost, at), set[str](), set[str]()
    for row in rows:
        by = row["landed_sha"] if row["style"] in landed.RESHAPING else row["head_sha"]
        own = reach.only(str(by), seen)
        if own and row["landed_sha"] in reach.parents and reach.is_missing(own):
            missing.add(row["merge_id"])
        reach.only(str(row["landed_sha"]), seen)
    return missing


def _reached(repo: Git, shas: Sequence[str], at: str | None, rows: Sequence[MergeRow]) -> set[str]:
    """The ids of the requests that the target contains, or a tip that a ref holds."""
    tips = [*shas, *([at] if at else [])]
    return {
        row["merge_id"]
        for row in rows
        for by in [str(row["landed_sha"] if row["style"] in landed.RESHAPING else row["head_sha"])]
        if refs.exists(repo, by) and any(refs.is_ancestor(repo, by, tip) for tip in tips)
    }


def _newest_inside(repo: Git, rows: Sequence[MergeRow], at: str | None) -> str:
    """The last landed commit that a target still has; ``""`` if it has none."""
    for row in reversed(rows) if at else ():
        sha = str(row["landed_sha"])
        if refs.exists(repo, sha) and refs.is_ancestor(repo, sha, str(at)):
            return sha
    return ""


def _where(rewind: Rewind) -> str:
    return "the branch is gone" if rewind.tip is None else f"it was rewound to {rewind.tip[:12]}"


def _record(
    conn: Connection,
    kind: Kind[TargetRewound],
    target: str,
    lost_sha: str,
    rows: Sequence[MergeRow],
    reason: str,
    now: datetime,
) -> None:
    if rows:
        ids = [row["merge_id"] for row in rows[:MOST_RECORDED]]
        events.record(conn, now, kind({"target": target, "lost_sha": lost_sha, "merge_ids": ids, "reason": reason}))
