"""Worktrees of tasks whose worker is gone: given back at once, and those that could not go, again later."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime, timedelta

from corral.core.sealing import seal_where_possible
from corral.core.states import WorktreePurpose, WorktreeState
from corral.store.rows.tasks import WorktreeRow
from corral.work.loops import continuing
from corral.work.worktrees import ownership
from corral.work.worktrees import store as worktree_rows
from corral.work.worktrees.allocation import WorktreeContext, roll_back, trim_pool
from corral.work.worktrees.pool import state
from corral.work.worktrees.removal import tidy_branches

Report = Callable[[Callable[[datetime], None]], None]

SWEEP_EVERY_S = 30.0
"""Between two tries to remove a worktree that could not be removed."""


class Sweeper:
    """For the supervisor's step; what is slow runs in the server's threads.

    Args:
        spawn: Runs a function in one of the server's threads.
        report: Has something done in the next step, by what a thread found.
        nudge: Asks for a step of ``"landing"``.
    """

    def __init__(
        self,
        context: WorktreeContext,
        *,
        spawn: Callable[[Callable[[], None]], None],
        report: Report,
        nudge: Callable[[str], None],
    ) -> None:
        self._context = context
        self._spawn = spawn
        self._report = report
        self._nudge = nudge
        self._rolling_back: set[str] = set()
        self._bounds: tuple[int, int] | None = None
        self.due: datetime | None = None

    def recover(self, interrupted: Collection[str]) -> None:
        """At the start: repair what an earlier daemon left half-done; not of tasks whose worker may still be alive.

        Args:
            interrupted: The tasks that are ended and resumed first.
        """
        logs = self._context.project.logs_dir
        self._spawn(lambda: seal_where_possible(logs, logs / "worktrees"))
        for row in self._context.db.read(worktree_rows.listing):
            is_kept = row["state"] == WorktreeState.POOLED
            half_done = row["state"] != WorktreeState.READY and not is_kept
            if _is_queues(row):
                continue
            if (half_done or (_is_tasks(row) and not is_kept)) and row["task_id"] not in interrupted:
                self._spawn(self.rolling_back(row))
            elif row["state"] == WorktreeState.READY:
                self._check(row)

    def sweep(self, now: datetime, at_work: Collection[str]) -> None:
        """Try again what could not be removed, if that is due; a clock that was set back makes it due.

        Worktrees of the warm pool go at once where the settings allow fewer than before.

        Args:
            at_work: Tasks that are starting, at work or being closed.
        """
        if (bounds := state.bounds(self._context)) != self._bounds:
            self._bounds = bounds
            self._spawn(lambda: trim_pool(self._context))
        if self._context.kept:
            for row in self._context.db.read(continuing.forsaken, self._context):
                self._spawn(self.rolling_back(row))
        if self.due is None or now < self.due <= now + timedelta(seconds=SWEEP_EVERY_S):
            return
        self.due = None
        for row in self._context.db.read(worktree_rows.listing):
            if _is_queues(row):
                continue
            going = row["state"] == WorktreeState.RECLAIMING or row["purpose"] == WorktreePurpose.VERIFY
            is_kept = row["state"] == WorktreeState.POOLED
            if ((going or is_kept) and row["note"] is not None) or (going and self._is_forsaken(row, at_work)):
                self._spawn(self.rolling_back(row))
            elif row["state"] == WorktreeState.READY and row["note"] is not None:
                self._check(row)
        self._spawn(lambda: trim_pool(self._context))
        self._spawn(lambda: tidy_branches(self._context))

    def later(self, now: datetime) -> None:
        """Sweep again in a while: something may have had to stay."""
        self.due = self.due or now + timedelta(seconds=SWEEP_EVERY_S)

    def of_task(self, task_id: str) -> list[WorktreeRow]:
        """The worktrees that a task has: its worker's first, then that in which its work is judged."""
        rows = self._context.db.read(worktree_rows.listing)
        return [row for row in rows if _is_tasks(row) and row["task_id"] == task_id]

    def rolling_back(self, worktree: WorktreeRow) -> Callable[[], None]:
        """Make the function that gives a worktree back, for a thread."""
        worktree_id = worktree["worktree_id"]
        self._rolling_back.add(worktree_id)

        def roll_back_and_report() -> None:
            gone = False
            try:
                gone = roll_back(self._context, worktree)
            finally:
                self._report(lambda now: self._was_rolled_back(worktree_id, gone, now))

        return roll_back_and_report

    def _check(self, row: WorktreeRow) -> None:
        """Check that a worktree in use was not replaced; while it is, check it again with every sweep."""

        def check() -> None:
            if not ownership.check_ready(self._context, row):
                self._report(self.later)

        self._spawn(check)

    def _was_rolled_back(self, worktree_id: str, gone: bool, now: datetime) -> None:
        self._rolling_back.discard(worktree_id)
        if gone:
            self._nudge("landing")  # a branch that has landed may have waited for this
        else:
            self.later(now)

    def _is_forsaken(self, worktree: WorktreeRow, at_work: Collection[str]) -> bool:
        """A task's worktree whose removal failed before a note could say why it stays."""
        is_free = worktree["worktree_id"] not in self._rolling_back and worktree["task_id"] not in at_work
        return _is_tasks(worktree) and is_free


def _is_tasks(row: WorktreeRow) -> bool:
    """Whether it is a worker's, or one in which the work of one is judged."""
    return row["purpose"] == WorktreePurpose.TASK or (row["purpose"] == WorktreePurpose.VERIFY and not _is_queues(row))


def _is_queues(row: WorktreeRow) -> bool:
    """Whether it is the merge queue's, which takes care of it."""
    return row["purpose"] == WorktreePurpose.VERIFY and row["task_id"] is None
