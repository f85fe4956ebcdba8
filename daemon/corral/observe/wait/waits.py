"""Which open work goes on only once a person has done something, and what else it waits for.

Only what is certain counts: a worker that runs, a verification, a retry after a fault of the machine and a limit that ends by
itself are waited for. Everything is read from rows of one transaction; nothing is changed.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cached_property

from sqlalchemy import Connection

from corral.coordination.services import Services
from corral.coordination.sessions.registry import PERSON
from corral.coordination.sessions.store import sessions
from corral.core.errors import ConfigInvalid
from corral.core.instants import parse
from corral.core.states import OPEN_MERGES, TERMINAL_TASKS, MergeState, SessionStatus, TaskStatus
from corral.git.land.landing import OVERLAP
from corral.git.refs import branch_ref
from corral.landing.blockers import LONGEST_WAIT
from corral.landing.land import LONGEST_UNREST
from corral.landing.pauses import red_tips
from corral.store.rows.merges import FreezeRow, MergeRow
from corral.store.rows.sessions import SessionRow
from corral.store.rows.tasks import TaskRow
from corral.work.merges.store import freezes, merges, of_tasks
from corral.work.merges.wire import needs_approval, waits_for_red_target
from corral.work.tasks.store import dependencies, family, tasks, work_pause
from corral.work.workers.supervisor import Supervisor

LOOKED_AGAIN = timedelta(seconds=5)
"""After that long a request that a person's changes hold was looked at again, more than once."""
LOOKS = timedelta(seconds=2)
"""In that time a queue that was asked to look has looked, and settings that were changed have been read."""
GIT_RESTS = LONGEST_UNREST + LONGEST_WAIT
"""After that long no git that just runs in the target's checkout holds a request any more."""


class PersonalWaits:
    """What waits for a person at one moment.

    Args:
        conn: A read transaction, used while this object is.
        watched: Since when the queue was asked to look. What holds something may be gone, and not be looked at again yet.
    """

    def __init__(self, services: Services, conn: Connection, now: datetime, watched: timedelta = timedelta(0)) -> None:
        self._conn, self._now, self._has_watched = conn, now, watched >= LOOKS
        self._gate = services.of(Supervisor).gate
        self._settings = services.settings
        self._tasks: dict[str, bool] = {}
        self._refused: dict[str, bool] = {}
        self.behind: set[str] = set()
        """The ids of the tasks and merge requests that were asked about, and of those that they wait for."""

    def has_task(self, task_id: str) -> bool:
        """Whether a task, or what it made, goes on only once a person has done something; False where it has ended."""
        if task_id not in self._tasks:
            self._tasks[task_id] = False  # a circle of tasks is refused at submission
            self.behind.add(task_id)
            row = tasks.get(self._conn, task_id)
            self._tasks[task_id] = row is not None and self._of_task(row)
        return self._tasks[task_id]

    def has_request(self, merge: MergeRow) -> bool:
        """Whether a merge request lands only once a person has done something; False where it has ended."""
        self.behind.add(merge["merge_id"])
        if merge["state"] in (MergeState.QUEUED, MergeState.HELD) and self._is_refused(merge["target"]):
            return True
        if merge["state"] in (MergeState.QUEUED, MergeState.HELD) and merge["target"] in self._frozen:
            return True
        if merge["state"] == MergeState.QUEUED:
            red_since = self._red.get(merge["target"])
            return self._is_paused or (red_since is not None and merge["created_at"] <= red_since)
        if merge["state"] != MergeState.HELD or needs_approval(merge):
            return merge["state"] == MergeState.HELD
        is_certain = waits_for_red_target(merge) or OVERLAP in str(merge["reason"])
        age = self._now - parse(merge["updated_at"])
        return self._has_watched and age >= (LOOKED_AGAIN if is_certain else GIT_RESTS)

    def _of_task(self, row: TaskRow) -> bool:
        status = row["status"]
        if status == TaskStatus.RUNNING:
            return row["task_id"] in self._asking or row["session_id"] in self._people
        if status == TaskStatus.PENDING:
            is_kept_back = self._has_watched and row["runner"] is not None and self._gate.reason(row) is not None
            return self._is_paused or is_kept_back or (row["runner"] is None and not self._takers)
        if status == TaskStatus.WAITING:
            parents = [
                *dependencies.parents_of(self._conn, row["task_id"]),
                *family.children(self._conn, row["task_id"]),
            ]
            waits = [self.has_task(parent) for parent in parents if self._is_open(parent)]
            return any(waits) if row["combine"] is None else bool(waits) and all(waits)
        merge = of_tasks.decisive(self._conn, row["task_id"]) if status == TaskStatus.COMPLETED else None
        return merge is not None and self.has_request(merge)

    def _is_refused(self, target: str) -> bool:
        """Whether nothing lands on a target until a person approves what its settings run, or mends them."""
        if not self._has_watched:
            return False
        if target not in self._refused:
            try:
                self._settings.for_target(branch_ref(target))
                self._refused[target] = False
            except ConfigInvalid:
                self._refused[target] = True
        return self._refused[target]

    def _is_open(self, task_id: str) -> bool:
        """Whether a task has not ended, or what it made has not."""
        row, merge = tasks.get(self._conn, task_id), of_tasks.decisive(self._conn, task_id)
        lands = merge is not None and merge["state"] in OPEN_MERGES
        return lands or (row is not None and row["status"] not in TERMINAL_TASKS)

    @cached_property
    def _is_paused(self) -> bool:
        return work_pause.current(self._conn) is not None

    @cached_property
    def _red(self) -> dict[str, str]:
        """Since when targets are red; what was submitted later is tried, as it may repair them."""
        rows = merges.in_state(self._conn, MergeState.HELD)
        by_commits = {target: row["seen_at"] for target, row in red_tips(self._conn).items()}
        return {row["target"]: row["updated_at"] for row in rows if waits_for_red_target(row)} | by_commits

    @cached_property
    def _frozen(self) -> dict[str, FreezeRow]:
        return freezes.frozen(self._conn)

    @cached_property
    def _asking(self) -> set[str | None]:
        """The tasks whose sessions ask their person in the middle of a turn."""
        return {row["task_id"] for row in self._live if row["waiting_for"] and row["status"] == SessionStatus.ACTIVE}

    @cached_property
    def _people(self) -> set[str | None]:
        """The sessions by which people hold what they have claimed."""
        return {row["session_id"] for row in self._live if row["agent_type"] == PERSON}

    @cached_property
    def _takers(self) -> list[SessionRow]:
        """The sessions that may take a task by themselves."""
        return [row for row in self._live if row["agent_type"] != PERSON]

    @cached_property
    def _live(self) -> list[SessionRow]:
        return sessions.live(self._conn)
