"""The one job that deletes finished data that is old: rows in small batches, logs, saved work that is held elsewhere, leftovers.

A part that fails is shown (``status``, ``doctor``) with its reason and tried again with the next round; the others go on.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from sqlalchemy import Connection

from corral.config.paths import Project
from corral.config.sections.upkeep import Retention as Ages
from corral.coordination.services import Services
from corral.core.crash import crash_point
from corral.core.errors import CorralError, DatabaseDamaged
from corral.core.instants import iso
from corral.core.log_files import shorten
from corral.core.logs import logger
from corral.core.needs import Fault, Need
from corral.core.steps import Step
from corral.git import refs
from corral.git.checkouts import private, salvage
from corral.git.land import kept
from corral.git.process.command import Git
from corral.git.refs import Ref
from corral.observe.audit import trail
from corral.observe.retention import ages as retention_policy
from corral.observe.retention import store as retention_rows
from corral.observe.retention.ages import LogFile
from corral.store.engine import inspection
from corral.store.engine.database import Database, shrink
from corral.store.protocol import Store
from corral.store.rows.merges import MergeRow
from corral.work.loops import history
from corral.work.loops import store as loop_rows
from corral.work.merges.store import landed

FIRST_AFTER = timedelta(seconds=60)
"""The first round after the start: requests that wait for the daemon come first."""
EVERY = timedelta(hours=1)
SOON = timedelta(seconds=5)
"""Until the next round where this one was not enough."""
JUMP = timedelta(days=1)
"""Between two steps there is less, unless the clock was set, or the machine slept."""
CHECK_EVERY = timedelta(days=1)
"""Between two looks at the whole database for damage."""
ROWS_A_ROUND = 2000
"""Of each kind."""
BATCH_S = 0.005
"""How long a batch may keep the writer; the next one is as large as that allows."""
LEAST_IN_A_BATCH, MOST_IN_A_BATCH = 20, 200
PAGES_AT_ONCE = 32
PAGE_BYTES = 4096
SHRINK_FROM = 256
"""Free pages that are kept for new rows, and a tenth of all."""
REFS_A_ROUND = 50
EVENTS_STAY = timedelta(days=1)
"""Events go so early only while the files exceed the disk budget."""
MANY_SAVED = 100
"""Old saved states, held by nothing else, from which on a person is asked to look at them."""

log = logger("retention")


@dataclass
class Round:
    """The result of one round: ``removed`` by kind, the ``bytes`` of files and pages that were freed, ``problems`` by part, and
    whether something is left for the next one."""

    removed: dict[str, int] = field(default_factory=dict)
    bytes: int = 0
    problems: dict[str, str] = field(default_factory=dict)
    more: bool = False


@dataclass
class Retention:
    """Step: one round, when it is time.

    Attributes:
        git: The repository, for saved work.
        state_dir: The folder of the exports.
        ages: The settings of the moment.
        faults: Where a person is told what could not be done.
        is_stopping: Whether the daemon is about to end, which ends the round.
        pause: Called with seconds between two batches.
    """

    db: Database
    git: Git
    project: Project
    ages: Callable[[], Ages]
    faults: dict[str, Need]
    is_stopping: Callable[[], bool] = lambda: False
    pause: Callable[[float], None] = time.sleep
    state_dir: Callable[[], Path] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while the job, or a person's request, deletes."""
    _due: datetime | None = field(default=None, init=False)
    _batch: int = field(default=LEAST_IN_A_BATCH, init=False)
    _checked: datetime | None = field(default=None, init=False)
    _stepped: datetime | None = field(default=None, init=False)
    _unique: dict[str, str] = field(default_factory=dict, init=False)

    def step(self, now: datetime) -> datetime | None:
        """Do a round if one is due; returns when the next one is."""
        if self._due is None:
            self._due, self._checked = now + FIRST_AFTER, now  # the start has looked at the whole database itself
        if self._stepped is not None and now - self._stepped > JUMP:
            self._due = max(self._due, now + EVERY)  # a clock that was set wrong has an hour to be corrected
        self._stepped = now
        if not timedelta(0) < self._due - now <= EVERY:
            with self.lock:
                result = self.round(now)
            self._due = now + (SOON if result.more else EVERY)
        return self._due

    def round(self, now: datetime) -> Round:
        """Delete what is due, in bounded time."""
        result, ages = Round(), self.ages()
        with _reported(result, "logs"):
            self._logs(result, ages, now)
        with _reported(result, "backups"):
            _unlink(result, "backups", self.old_backups(ages, now), self.project.logs_dir)
        for kind in retention_rows.KINDS:
            with _reported(result, kind):
                self._rows(result, kind, ages, now)
        with _reported(result, "audit"):
            self._audit(result, ages, now)
        with _reported(result, "database"):
            self._shrink(result)
            self._check(now)
        with _reported(result, "salvage"):
            self._salvage(result, ages, now)
        with _reported(result, "ignored"):
            self._ignored(result, ages, now)
        with _reported(result, "loops"):
            self._refs(result, "loops", self.old_loops(ages, now))
        with _reported(result, "landed"):
            self._refs(result, "landed", self.landed(ages, now).old)
        self._show(result, now)
        self._watch_budget(ages, now)
        if any(result.removed.values()):
            log.info("removed", **result.removed)
        return result

    # -- rows ------------------------------------------------------------------------------------------------------

    def before(self, kind: str, ages: Ages, now: datetime) -> str | None:
        """The instant before which rows of a kind are old; None: they are kept for ever.

        Events go earlier while the files exceed the disk budget, which the logs of finished work did not bring down.
        """
        moment = retention_policy.cutoff(ages, kind, now)
        if kind == "events" and self.excess(ages) > 0:
            moment = max(moment or now - EVENTS_STAY, now - EVENTS_STAY)
        return None if moment is None else iso(moment)

    def excess(self, ages: Ages) -> int:
        """Bytes by which database, logs and exports exceed the disk budget; free pages of the database do not count."""
        free, _pages = self.db.read(inspection.pages)
        state_dir = self.state_dir() if self.state_dir is not None else self.project.home / "state"
        used = retention_policy.disk_use(self.project.home, state_dir)
        return used - free * PAGE_BYTES - ages.disk_mb * 1_000_000

    def _audit(self, result: Round, ages: Ages, now: datetime) -> None:
        """Remove the oldest lines of the audit, and count them, so that the rest can be verified."""
        moment = retention_policy.cutoff(ages, "audit", now)
        if moment is None:
            return
        removed = 0
        while removed < ROWS_A_ROUND and not self.is_stopping():
            took_s, count = self.db.write(
                partial(_timed, partial(trail.remove_before, before=moment, now=now, limit=self._batch))
            )
            crash_point("retention.audit")
            removed += count
            self._adjust_batch(took_s)
            if count < LEAST_IN_A_BATCH:
                break
        result.removed["audit"] = removed
        result.more |= removed >= ROWS_A_ROUND

    def _rows(self, result: Round, kind: str, ages: Ages, now: datetime) -> None:
        before = self.before(kind, ages, now)
        if before is None:
            return
        with self.db.reading() as conn:
            keys = retention_rows.old(conn, kind, before, ROWS_A_ROUND)
        is_more = len(keys) == ROWS_A_ROUND
        if kind == "worktrees" and keys:
            keys = self.without_branch(keys)
        removed = 0
        while keys and not self.is_stopping():
            some, keys = keys[: self._batch], keys[self._batch :]
            took_s, count = self.db.write(
                partial(_timed, partial(retention_rows.remove, kind=kind, keys=some, before=before))
            )
            removed += count
            crash_point(f"retention.{kind}")
            self._adjust_batch(took_s)
        result.removed[kind] = removed
        result.more |= is_more and removed > 0  # rows that cannot be deleted now are not tried again at once

    def without_branch(self, worktree_ids: list[str]) -> list[str]:
        """Those whose branch is gone too: while a branch exists, the row proves that Corral made it."""
        branches_left = {ref.name.removeprefix("refs/heads/") for ref in refs.listing(self.git, "refs/heads/")}
        with self.db.reading() as conn:
            branches = retention_rows.branches(conn, worktree_ids)
        return [worktree_id for worktree_id in worktree_ids if branches.get(worktree_id) not in branches_left]

    def _adjust_batch(self, took_s: float) -> None:
        """Make the next batch as large as its time allows, and leave the writer to others for as long."""
        if took_s > BATCH_S:
            self._batch = max(LEAST_IN_A_BATCH, self._batch // 2)
        elif took_s < BATCH_S / 3:
            self._batch = min(MOST_IN_A_BATCH, self._batch * 2)
        self.pause(took_s)

    def _shrink(self, result: Round) -> None:
        """Give free pages back to the file system, except those that new rows will need."""
        free, pages = self.db.read(inspection.pages)
        spare = max(SHRINK_FROM, pages // 10)
        given_back = 0
        while free > spare and given_back < ROWS_A_ROUND and not self.is_stopping():
            took_s, left = self.db.write(partial(_timed, partial(shrink, pages=PAGES_AT_ONCE)))
            crash_point("retention.pages")
            if left >= free or left == 0:
                break
            given_back, free = given_back + free - left, left
            self.pause(took_s)
        result.removed["pages"] = given_back
        result.bytes += given_back * PAGE_BYTES
        result.more |= free > spare and given_back > 0

    def _check(self, now: datetime) -> None:
        if self._checked is not None and abs(now - self._checked) < CHECK_EVERY:
            return
        self._checked = now
        verdict = self.db.read(inspection.quick_health_of)
        if verdict != "ok":
            raise self.db.record_damage(verdict)

    # -- files -----------------------------------------------------------------------------------------------------

    def _logs(self, result: Round, ages: Ages, now: datetime) -> None:
        folder = self.project.logs_dir
        for name in ("hook.log", "bridge.log"):
            shorten(folder / name)
        _unlink(result, "logs", self.old_logs(ages, now), folder)

    def old_backups(self, ages: Ages, now: datetime) -> list[LogFile]:
        """The copies of the database from before an upgrade that may go now."""
        moment = retention_policy.cutoff(ages, "backups", now)
        copies = retention_policy.backups(self.project.database)
        return [copy for copy in copies if moment is not None and copy.at < moment.timestamp()]

    def old_logs(self, ages: Ages, now: datetime) -> list[LogFile]:
        """The logs that may go now."""
        owners = self.db.read(retention_rows.owners_of_logs)
        excess = self.excess(ages)
        landed = self.db.read(retention_rows.owners_of_landed_logs) if excess > 0 else set()
        return retention_policy.old_logs(self.project.logs_dir, ages, now, owners, landed, excess)

    # -- saved work ------------------------------------------------------------------------------------------------

    def _salvage(self, result: Round, ages: Ages, now: datetime) -> None:
        moment = retention_policy.cutoff(ages, "salvage", now)
        if moment is None:
            return
        refs_by_age = salvage.old_salvage(self.git, moment)
        self._unique = {ref.name: sha for ref in refs_by_age if (sha := self._unique.get(ref.name)) == ref.sha}
        unknown = [ref for ref in refs_by_age if ref.name not in self._unique]
        trees = salvage.trees_since(self.git, unknown[0].created_at - timedelta(days=7)) if unknown else frozenset()
        forgotten = 0
        for ref in unknown[:REFS_A_ROUND]:
            if self.is_stopping():
                return
            if not salvage.is_held_elsewhere(self.git, ref, trees):
                self._unique[ref.name] = ref.sha
            elif refs.delete(self.git, ref.name, ref.sha):
                crash_point("retention.salvage")
                forgotten += 1
                log.info("salvage_forgotten", ref=ref.name, sha=ref.sha)
        result.removed["salvage"] = forgotten
        result.more |= len(unknown) > REFS_A_ROUND
        if len(self._unique) > MANY_SAVED:
            what = (
                f"{len(self._unique)} saved states older than {ages.salvage_days} days hold work that nothing else has."
            )
            remedy = "`corral worktree recover` lists them; delete what you do not need: `git update-ref -d REF`."
            self.faults["saved_work"] = Need("saved_work", what, remedy)
        else:
            self.faults.pop("saved_work", None)

    def _ignored(self, result: Round, ages: Ages, now: datetime) -> None:
        """Delete old copies of files that git ignores which a later copy of the same worktree contains."""
        held, _alone = self.ignored(ages, now)
        result.removed["ignored"] = sum(private.forget(self.git, ref.name, ref.sha) for ref in held[:REFS_A_ROUND])
        crash_point("retention.ignored")
        result.more |= len(held) > REFS_A_ROUND
        private.sweep(self.git)

    def ignored(self, ages: Ages, now: datetime) -> tuple[list[Ref], list[Ref]]:
        """Old copies of files that git ignores: those that a later one contains, and those that are the only one."""
        moment = retention_policy.cutoff(ages, "salvage", now)
        return private.old(self.git, moment) if moment is not None else ([], [])

    def _refs(self, result: Round, part: str, expired: list[Ref]) -> None:
        """Delete old refs of a part; the rows keep their history."""
        removed = 0
        for ref in expired[:REFS_A_ROUND]:
            if self.is_stopping():
                return
            removed += refs.delete(self.git, ref.name, ref.sha)
            crash_point(f"retention.{part}")
        result.removed[part] = removed
        result.more |= len(expired) > REFS_A_ROUND

    def old_loops(self, ages: Ages, now: datetime) -> list[Ref]:
        """The refs of iterations that may go now: their task is gone, or their loop landed before `salvage_days`.

        Only at a commit that an iteration is recorded with: a ref of another database, or a person's, looks alike.
        """
        if (moment := retention_policy.cutoff(ages, "salvage", now)) is None:
            return []
        before, of_loop = iso(moment), dict[str, list[Ref]]()
        for ref in refs.listing(self.git, history.PREFIX):
            of_loop.setdefault(ref.name.removeprefix(history.PREFIX).partition("/")[0], []).append(ref)

        def recorded(conn: Connection) -> dict[str, set[str]]:
            return {
                task_id: loop_rows.commits(conn, task_id)
                for task_id in of_loop
                if loop_rows.is_over(conn, task_id, before)
            }

        commits = self.db.read(recorded)
        return [
            ref for task_id, loop_refs in of_loop.items() for ref in loop_refs if ref.sha in commits.get(task_id, ())
        ]

    def landed(self, ages: Ages, now: datetime) -> LandedTips:
        """The old refs of what landed."""
        moment = retention_policy.cutoff(ages, "landed", now)
        return find(self.git, self.db, moment) if moment is not None else LandedTips()

    def saved(self, ages: Ages, now: datetime) -> tuple[list[Ref], list[Ref]]:
        """Old saved states: those that something else holds, and those that nothing else does."""
        moment = retention_policy.cutoff(ages, "salvage", now)
        old = salvage.old_salvage(self.git, moment) if moment is not None else []
        if not old:
            return [], []
        trees = salvage.trees_since(self.git, old[0].created_at - timedelta(days=7))
        held = [ref for ref in old if salvage.is_held_elsewhere(self.git, ref, trees)]
        return held, [ref for ref in old if ref not in held]

    def _watch_budget(self, ages: Ages, now: datetime) -> None:
        excess, fault = self.excess(ages), Fault(self.faults, "disk_budget", "retention")
        if excess <= 0:
            fault.end()
            return
        what = (
            f"Corral's database, logs and exports take {excess / 1e6:.0f} MB more than `retention.disk_mb` ({ages.disk_mb}); "
            "everything else in them is needed or not old enough."
        )
        remedy = "`corral gc --dry-run` shows what is kept and why; raise `retention.disk_mb`, or lower an age."
        fault.show(what, remedy, now)

    def _show(self, result: Round, now: datetime) -> None:
        fault = Fault(self.faults, "retention", "retention")
        if not result.problems:
            fault.end()
            return
        what = "; ".join(f"{part}: {reason}" for part, reason in result.problems.items())
        remedy = "Remove the cause; the next round, within the hour, tries again."
        fault.show(f"Old data could not be deleted. {what}", remedy, now)
        log.warning("not_removed", problems=result.problems)


@contextlib.contextmanager
def _reported(result: Round, part: str) -> Iterator[None]:
    """Note why a part failed, and let the others go on."""
    try:
        yield
    except DatabaseDamaged:
        raise
    except CorralError as error:
        result.problems[part] = f"{error.message} {error.cause}"
    except OSError as error:
        result.problems[part] = f"{Path(error.filename).name if error.filename else 'files'}: {error.strerror}"


def _unlink(result: Round, part: str, files: Sequence[LogFile], logs_dir: Path) -> None:
    """Delete files, and the folders of tasks that are empty then; a file that cannot be deleted does not stop the others."""
    removed, failure = 0, None
    for file in files:
        try:
            file.path.unlink(missing_ok=True)
        except OSError as error:
            failure = error
            continue
        removed += 1
        result.bytes += file.size
        crash_point(f"retention.{part}")
        if file.path.parent.parent.parent == logs_dir:
            with contextlib.suppress(OSError):  # it holds more
                file.path.parent.rmdir()
    result.removed[part] = removed
    if failure is not None:
        raise failure


def _timed(operation: Callable[[Connection], int], conn: Connection) -> tuple[float, int]:
    """Run an operation; returns the writer's time that it took, without the wait for the writer, and its result."""
    began = time.perf_counter()
    result = operation(conn)
    return time.perf_counter() - began, result


def job(services: Services) -> Step:
    """The job of this module."""
    rules, is_stopping = lambda: services.settings().retention, lambda: services.stopping
    retention = Retention(
        services.db, services.git, services.project, rules, services.faults, is_stopping, state_dir=services.state_dir
    )
    services.bring(retention)
    return Step("retention", retention.step)


# -- Which refs of landed commits may go: old ones whose landing this database has recorded


@dataclass(frozen=True)
class LandedTips:
    """The old refs below ``refs/corral/landed/``.

    Attributes:
        old: May go.
        undecided: Lost by a target, and nobody has decided: stays.
        unknown: No landing is recorded with it; of another database, or a person's: stays.
    """

    old: list[Ref] = field(default_factory=list)
    undecided: list[Ref] = field(default_factory=list)
    unknown: list[Ref] = field(default_factory=list)


def find(repo: Git, db: Store, before: datetime) -> LandedTips:
    """Sort the old refs of landed commits by what may happen to them.

    Args:
        before: A commit that landed, or was lost, after this instant stays.

    Raises:
        GitFailed: The repository could not be read.
    """
    tips, ours = LandedTips(), dict[str, list[MergeRow]]()
    for target in db.read(landed.targets):
        with db.reading() as conn:
            ours[kept.folder(target)] = landed.on(conn, target)
    for ref in refs.listing(repo, kept.PREFIX):
        state, _, rest = ref.name.removeprefix(kept.PREFIX).partition("/")
        rows = ours.get(rest.partition("/")[0], [])
        aside = kept.parse(ref)
        if state == kept.TIPS:
            is_old = all(str(row["finished_at"]) < iso(before) for row in rows)
        else:
            is_old = aside is None or aside.at < before
        if not is_old:
            continue
        if state == kept.LOST and aside is not None and rows:
            tips.undecided.append(ref)
        elif _is_recorded(repo, ref.sha, rows) and (
            aside or (state == kept.TIPS and kept.is_on_a_branch(repo, ref.sha))
        ):
            tips.old.append(ref)
        else:
            tips.unknown.append(ref)
    return tips


def _is_recorded(repo: Git, sha: str, rows: list[MergeRow]) -> bool:
    """Whether a commit is one with which something landed, or has one of those in its history."""
    commits = {str(row["landed_sha"]) for row in rows}
    return sha in commits or not commits.isdisjoint(repo.must("rev-list", sha).split() if commits else ())
