"""The one job that deletes what is over and old: rows in small batches, logs, saved work that is held elsewhere, leftovers.

A part that fails is shown (``status``, ``doctor``) with its reason and tried again with the next round; the others go on.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from sqlalchemy import Connection

from corral.app.runtime.needs import Need
from corral.config.paths import Project
from corral.config.sections.upkeep import Retention as Ages
from corral.errors import CorralError, DatabaseDamaged
from corral.git import refs
from corral.git.checkouts import forgetting
from corral.git.process.command import Git
from corral.log_files import shorten
from corral.models.instants import iso
from corral.observe import retention as retention_policy
from corral.observe.logs import logger
from corral.store import retention as retention_rows
from corral.store.engine import inspection
from corral.store.engine.database import Database, shrink

FIRST_AFTER = timedelta(seconds=60)
"""The first round after the start: those who wait for the daemon come first."""
EVERY = timedelta(hours=1)
SOON = timedelta(seconds=5)
"""Until the next round where one has left something over."""
CHECK_EVERY = timedelta(days=1)
"""Between two looks at the whole database for damage."""
ROWS_A_ROUND = 2000
"""Of each kind."""
BATCH_S = 0.005
"""How long a batch may keep the writer; the next one is as large as that allows."""
LEAST_IN_A_BATCH, MOST_IN_A_BATCH = 20, 200
PAGES_AT_ONCE = 32
SHRINK_FROM = 256
"""Free pages that are kept for new rows, and a tenth of all."""
REFS_A_ROUND = 50
MANY_SAVED = 100
"""Old saved states, held by nothing else, from which on a person is asked to look at them."""

log = logger("retention")


@dataclass
class Round:
    """The result of one round: ``removed`` by kind, ``problems`` by part, and whether something is left for the next one."""

    removed: dict[str, int] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    more: bool = False


@dataclass
class Retention:
    """Step: one round, when it is time.

    Attributes:
        git: The repository, for saved work.
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
    _due: datetime | None = field(default=None, init=False)
    _batch: int = field(default=LEAST_IN_A_BATCH, init=False)
    _checked: datetime | None = field(default=None, init=False)
    _unique: dict[str, str] = field(default_factory=dict, init=False)

    def step(self, now: datetime) -> datetime | None:
        """Do a round if one is due; when the next one is."""
        if self._due is None:
            self._due, self._checked = now + FIRST_AFTER, now  # the start has looked at the whole database itself
        if now >= self._due:
            done = self.round(now)
            self._due = now + (SOON if done.more else EVERY)
        return self._due

    def round(self, now: datetime) -> Round:
        """Delete what is due, in bounded time."""
        done, ages = Round(), self.ages()
        for kind in retention_rows.KINDS:
            with _reported(done, kind):
                self._rows(done, kind, ages, now)
        with _reported(done, "database"):
            self._shrink(done)
            self._check(now)
        with _reported(done, "logs"):
            self._logs(done, ages, now)
        with _reported(done, "salvage"):
            self._salvage(done, ages, now)
        self._show(done, now)
        if any(done.removed.values()):
            log.info("removed", **done.removed)
        return done

    # -- rows ------------------------------------------------------------------------------------------------------

    def _rows(self, done: Round, kind: str, ages: Ages, now: datetime) -> None:
        moment = retention_policy.cutoff(ages, kind, now)
        if moment is None:
            return
        before = iso(moment)
        keys = self.db.read(lambda conn: retention_rows.old(conn, kind, before, ROWS_A_ROUND))
        done.more |= len(keys) == ROWS_A_ROUND
        if kind == "worktrees" and keys:
            keys = self._without_branch(keys)
        removed = 0
        while keys and not self.is_stopping():
            some, keys = keys[: self._batch], keys[self._batch :]
            took_s, count = self.db.write(
                partial(_timed, partial(retention_rows.remove, kind=kind, keys=some, before=before))
            )
            removed += count
            self._adjust(took_s)
        done.removed[kind] = removed

    def _without_branch(self, worktree_ids: list[str]) -> list[str]:
        """Those whose branch is gone too: as long as it is there, the row proves that Corral made it."""
        there = {ref.name.removeprefix("refs/heads/") for ref in refs.listing(self.git, "refs/heads/")}
        branches = self.db.read(lambda conn: retention_rows.branches(conn, worktree_ids))
        return [one for one in worktree_ids if branches.get(one) not in there]

    def _adjust(self, took_s: float) -> None:
        """Make the next batch as large as its time allows, and leave the writer to others for as long."""
        if took_s > BATCH_S:
            self._batch = max(LEAST_IN_A_BATCH, self._batch // 2)
        elif took_s < BATCH_S / 3:
            self._batch = min(MOST_IN_A_BATCH, self._batch * 2)
        self.pause(took_s)

    def _shrink(self, done: Round) -> None:
        """Give free pages back, but for some that new rows will need."""
        free, pages = self.db.read(inspection.pages)
        spare = max(SHRINK_FROM, pages // 10)
        given_back = 0
        while free > spare and given_back < ROWS_A_ROUND and not self.is_stopping():
            took_s, left = self.db.write(partial(_timed, partial(shrink, pages=PAGES_AT_ONCE)))
            if left >= free or left == 0:
                break
            given_back, free = given_back + free - left, left
            self.pause(took_s)
        done.removed["pages"] = given_back
        done.more |= free > spare and given_back > 0

    def _check(self, now: datetime) -> None:
        if self._checked is not None and now - self._checked < CHECK_EVERY:
            return
        self._checked = now
        verdict = self.db.read(inspection.quick_health_of)
        if verdict != "ok":
            raise self.db.found_damaged(verdict)

    # -- files -----------------------------------------------------------------------------------------------------

    def _logs(self, done: Round, ages: Ages, now: datetime) -> None:
        folder = self.project.logs_dir
        shorten(folder / "hook.log")
        kept = self.db.read(retention_rows.owners_of_logs)
        going = retention_policy.old_logs(folder, ages, now, kept)
        for file in going:
            file.path.unlink(missing_ok=True)
            if file.path.parent.parent != folder:
                with contextlib.suppress(OSError):  # it holds more
                    file.path.parent.rmdir()
        done.removed["logs"] = len(going)
        moment = retention_policy.cutoff(ages, "backups", now)
        for copy in self.project.database.parent.glob(f"{self.project.database.name}.before-*"):
            if moment is not None and copy.lstat().st_mtime < moment.timestamp():
                copy.unlink()

    # -- saved work ------------------------------------------------------------------------------------------------

    def _salvage(self, done: Round, ages: Ages, now: datetime) -> None:
        moment = retention_policy.cutoff(ages, "salvage", now)
        if moment is None:
            return
        found = forgetting.old_salvage(self.git, moment)
        self._unique = {ref.name: sha for ref in found if (sha := self._unique.get(ref.name)) == ref.sha}
        unknown = [ref for ref in found if ref.name not in self._unique]
        trees = forgetting.trees_since(self.git, unknown[0].created_at - timedelta(days=7)) if unknown else frozenset()
        forgotten = 0
        for ref in unknown[:REFS_A_ROUND]:
            if self.is_stopping():
                return
            if not forgetting.is_held_elsewhere(self.git, ref, trees):
                self._unique[ref.name] = ref.sha
            elif refs.delete(self.git, ref.name, ref.sha):
                forgotten += 1
                log.info("salvage_forgotten", ref=ref.name, sha=ref.sha)
        done.removed["salvage"] = forgotten
        done.more |= len(unknown) > REFS_A_ROUND
        if len(self._unique) > MANY_SAVED:
            what = (
                f"{len(self._unique)} saved states older than {ages.salvage_days} days hold work that nothing else has."
            )
            remedy = "`corral worktree recover` lists them; delete what you do not need: `git update-ref -d REF`."
            self.faults["saved_work"] = Need("saved_work", what, remedy)
        else:
            self.faults.pop("saved_work", None)

    def _show(self, done: Round, now: datetime) -> None:
        if not done.problems:
            self.faults.pop("retention", None)
            return
        what = "; ".join(f"{part}: {reason}" for part, reason in done.problems.items())
        before = self.faults.get("retention")
        since = before.since if before is not None else iso(now)
        remedy = "Remove the cause; the next round, within the hour, tries again."
        self.faults["retention"] = Need("retention", f"Old data could not be deleted. {what}", remedy, since)
        log.warning("not_removed", problems=done.problems)


@contextlib.contextmanager
def _reported(done: Round, part: str) -> Iterator[None]:
    """Note that a part failed, and why; the others go on."""
    try:
        yield
    except DatabaseDamaged:
        raise
    except CorralError as error:
        done.problems[part] = f"{error.message} {error.cause}"
    except OSError as error:
        done.problems[part] = f"{Path(error.filename).name if error.filename else 'files'}: {error.strerror}"


def _timed(operation: Callable[[Connection], int], conn: Connection) -> tuple[float, int]:
    """The writer's time that an operation took, and its result; waiting for the writer does not count."""
    began = time.perf_counter()
    result = operation(conn)
    return time.perf_counter() - began, result
