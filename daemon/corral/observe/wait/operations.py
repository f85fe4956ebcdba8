"""Waiting until work is settled: completed and landed, or failed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import Annotated

from pydantic import Field
from sqlalchemy import Connection

from corral.coordination.services import Services
from corral.coordination.sessions.registry import PERSON
from corral.coordination.sessions.store import sessions
from corral.core.errors import ConfigInvalid, NotFound
from corral.core.instants import parse
from corral.core.outcomes import Outcome
from corral.core.payload import Payload
from corral.core.routing import EVERYONE, PROJECT, Called, Routes
from corral.core.states import OPEN_MERGES, TERMINAL_TASKS, MergeState, SessionStatus, TaskStatus
from corral.git.land.landing import OVERLAP
from corral.git.refs import branch_ref
from corral.landing import stacks
from corral.landing.blockers import LONGEST_WAIT
from corral.landing.land import LONGEST_UNREST
from corral.landing.pauses import explained, red_tips
from corral.observe.view.needs_you import needs_you_for
from corral.observe.wait.api import WaitAnswer
from corral.store.rows.merges import FreezeRow, MergeRow
from corral.store.rows.sessions import SessionRow
from corral.store.rows.tasks import TaskRow, TaskStanding
from corral.work.merges.store import freezes, merges, of_tasks, pauses
from corral.work.merges.wire import (
    is_parked,
    needs_approval,
    outcome_of,
    standing_of,
    tells_of_all,
    waits_for_red_target,
)
from corral.work.tasks import submitting as app_tasks
from corral.work.tasks import tasks
from corral.work.tasks.store import dependencies, family, outcomes, work_pause
from corral.work.tasks.store import tasks as task_rows
from corral.work.trust.trust import TrustGate
from corral.work.workers.supervisor import Supervisor

router = Routes("tasks", scope=PROJECT, callers=EVERYONE)

MOST_EXPLAINED = 200
"""Tasks in an answer that say what became of them, and why."""

MOST_DELAYED = 50
"""Tasks in an answer that say why they do not start."""

_WITHOUT_RESULT = (TaskStatus.FAILED, TaskStatus.DEAD, TaskStatus.CANCELLED)

LOOK_EVERY_S = 1.0
"""Seconds between two looks while no change was announced."""

REST = 4.0
"""The pause after a look, as a multiple of its duration: thousands of tasks change all the time."""


def snapshot(conn: Connection, standing: list[TaskStanding], requests: list[MergeRow], default_target: str) -> Payload:
    """Where tasks and merge requests stand.

    Returns:
        ``tasks`` and ``merges`` as ``corral wait`` prints them, each with the ``reason`` why it has not landed where one is
        known; ``settled``, ``done`` (all landed or had nothing to land), and ``paused``: those of their targets where nothing
        lands at present, with the reason.
    """
    statuses = {row["status"] for row in standing}
    states = {standing_of(row) for row in requests} | {row["merge_state"] for row in standing} - {None}
    waiting = [row["merge_id"] for row in (*standing, *requests) if row["merge_id"] is not None][:MOST_EXPLAINED]
    why = _reasons(conn, waiting)
    targets = {row["target"] or default_target for row in (*standing, *requests)}
    outcome = outcomes.of_tasks(conn, [row["task_id"] for row in standing[:MOST_EXPLAINED]])
    return {
        "tasks": [
            {
                **{key: row[key] for key in ("task_id", "title", "status", "merge_state", "merge_id")},
                "number": row["seq"],
                "outcome": outcome.get(row["task_id"], row["status"]),
                **why.get(row["merge_id"] or "", {}),
            }
            for row in standing
        ],
        "merges": [
            {
                **{key: row[key] for key in ("merge_id", "title")},
                "state": standing_of(row),
                "outcome": outcome_of(row),
                **why.get(row["merge_id"], {}),
            }
            for row in requests
        ],
        "settled": statuses <= {*TERMINAL_TASKS} and states.isdisjoint(OPEN_MERGES),
        "done": all(
            row["status"] == TaskStatus.COMPLETED or outcome.get(row["task_id"]) == Outcome.LANDED for row in standing
        )
        and states <= {MergeState.LANDED},
        "paused": [
            {"target": target, "reason": row["reason"], "look_at": row["look_at"]}
            for target, row in pauses.paused(conn).items()
            if target in targets
        ],
        "targets": targets,
    }


def _reasons(conn: Connection, merge_ids: list[str]) -> dict[str, Payload]:
    """Why requests have not landed: ``{"reason": …}`` by id, for those of which something is known."""
    rows = [row for merge_id in dict.fromkeys(merge_ids) if (row := merges.find(conn, merge_id)) is not None]
    shown = [row for row in explained(conn, rows) if row["reason"] and standing_of(row) != MergeState.LANDED]
    return {row["merge_id"]: {"reason": row["reason"]} for row in shown}


def open_work(conn: Connection) -> tuple[list[str], list[str]]:
    """The ids of every open task and merge request, and of every failed one that nobody has settled.

    So the answer is the same whether something failed before the question or after it.
    """
    returned = outcomes.open_requests(conn, without_task=True)
    pending = {row["merge_id"]: None for row in (*merges.listing(conn, OPEN_MERGES), *returned)}
    return outcomes.open_tasks(conn), list(pending)


def look(
    services: Services, conn: Connection, task_ids: list[str], merge_ids: list[str], watched_s: float, *, is_last: bool
) -> Payload | None:
    """The answer; None while something goes on by itself, unless this look is the last one.

    A look that finds something at work reads no more than that, since most looks of a wait do.
    """
    requests = [merges.get(conn, merge_id) for merge_id in merge_ids]
    open_requests = [row for row in requests if standing_of(row) in OPEN_MERGES]
    now = services.now()
    waits = PersonalWaits(services, conn, now, timedelta(seconds=watched_s))
    goes_on = not (
        all(map(waits.has_task, task_rows.under_way(conn, task_ids))) and all(map(waits.has_request, open_requests))
    )
    if goes_on and not is_last:
        return None
    standing = task_rows.standing(conn, task_ids) if task_ids else []
    answer = snapshot(conn, standing, requests, services.settings.target().removeprefix("refs/heads/"))
    answer["waits_for_person"] = not (goes_on or answer["settled"])
    _tell_delays(services, conn, answer["tasks"], now)
    return _with_needs(services, conn, answer)


def _tell_delays(services: Services, conn: Connection, rows: list[Payload], now: datetime) -> None:
    """Add ``delay`` to each task that something keeps from starting, or that a person has."""
    delayed = [row for row in rows if row["status"] in (TaskStatus.PENDING, TaskStatus.WAITING)]
    delayed += [row for row in rows if row["status"] == TaskStatus.RUNNING]
    for row in delayed[:MOST_DELAYED]:
        task = task_rows.get(conn, row["task_id"])
        if task and (text := app_tasks.delay_of(services, conn, task, now)):
            row["delay"] = text


def _with_needs(services: Services, conn: Connection, answer: Payload) -> Payload:
    """The answer, with the entries of needs_you that block its unfinished tasks and merge requests, or what these wait for."""
    undone = [row for row in answer["tasks"] if row["merge_state"] != MergeState.LANDED]
    undone += [row for row in answer["merges"] if row["state"] != MergeState.LANDED]
    waits, targets = PersonalWaits(services, conn, services.now(), LOOKS), answer.pop("targets")
    for row in undone[:MOST_EXPLAINED]:
        if row.get("status") == TaskStatus.WAITING:
            waits.has_task(row["task_id"])
        elif row.get("merge_state", row.get("state")) == MergeState.QUEUED:
            waits.has_request(merges.get(conn, row["merge_id"]))
    ids = {row[key] for row in undone for key in ("task_id", "merge_id") if row.get(key)} | waits.behind
    needs = [] if answer["done"] else needs_you_for(services, conn, ids, targets)
    explained = {need["ids"].get("task_id") for need in needs}
    for row in answer["tasks"][:MOST_EXPLAINED]:
        if row["status"] in _WITHOUT_RESULT and row["task_id"] not in explained:
            task = task_rows.get(conn, row["task_id"])
            if task is not None and (text := task["error_message"] or task["cancel_reason"]):
                row["reason"] = text
    return {**answer, "needs_you": needs}


def _named(conn: Connection, references: list[str]) -> tuple[list[str], list[str]]:
    """The ids of the tasks, and of the merge requests without a task, that texts name."""
    task_ids, merge_ids = list[str](), list[str]()
    for reference in references:
        try:
            task_ids.append(tasks.find(conn, reference)["task_id"])
        except NotFound as unknown:
            try:
                merge_ids.append(of_tasks.named(conn, reference)["merge_id"])
            except NotFound:
                raise unknown from None
    return task_ids, merge_ids


@router.get("/wait", answer=WaitAnswer, errors=(NotFound,))
async def wait(
    services: Services,
    task: Annotated[Sequence[str], Field(description="Tasks or merge requests to wait for.")] = (),
    merge: Annotated[Sequence[str], Field(description="Merge requests to wait for, by whole ids.")] = (),
    everything: Annotated[
        bool, Called("all"), Field(description="Wait for every open task and merge request.")
    ] = False,
    timeout_s: Annotated[float, Field(ge=0, le=25)] = 25,
) -> Payload:
    """Answer when all that was named is settled, when the rest waits for a person, or after the time-out.

    Ask again with the ids of the answer.
    """
    task_ids, merge_ids = list(task), list(merge)
    if everything:
        more_tasks, more_merges = await services.store.read(open_work)
        task_ids += [task_id for task_id in more_tasks if task_id not in task_ids]
        merge_ids += [merge_id for merge_id in more_merges if merge_id not in merge_ids]
    if task:
        task_ids, others = await services.store.read(_named, task_ids)
        merge_ids += [merge_id for merge_id in others if merge_id not in merge_ids]
    start = time.monotonic()
    deadline = start + timeout_s
    services.nudge("landing")  # what held a request may be gone
    while True:
        began = time.monotonic()
        change = asyncio.create_task(
            services.changes.next(LOOK_EVERY_S)
        )  # before the look, so that no change is missed
        is_last = began >= deadline or services.stopping
        seen = partial(look, services, task_ids=task_ids, merge_ids=merge_ids, watched_s=began - start, is_last=is_last)
        if (answer := await services.store.read(seen)) is not None:
            change.cancel()
            return answer
        took, remaining_s = time.monotonic() - began, max(0.0, deadline - time.monotonic())
        await asyncio.sleep(min(remaining_s, took * REST))
        await asyncio.wait((change,), timeout=remaining_s)
        change.cancel()


# -- Which open work goes on only once a person has done something, and what else it waits for.
#
# Only what is certain counts: a worker that runs, a verification, a retry after a fault of the machine and a limit
# that ends by itself are waited for. Everything is read from rows of one transaction; nothing is changed.

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
        watched: Since when the queue was asked to look. A cause may have gone since the queue last looked.
    """

    def __init__(self, services: Services, conn: Connection, now: datetime, watched: timedelta = timedelta(0)) -> None:
        self._conn, self._now, self._has_watched = conn, now, watched >= LOOKS
        self._services, self._settings = services, services.settings
        self._tasks: dict[str, bool] = {}
        self._refused: dict[str, bool] = {}
        self._behind_held: dict[str, bool] = {}
        self._stacks: dict[str, dict[str, stacks.Stack]] = {}
        self.behind: set[str] = set()
        """The ids of the tasks and merge requests that were asked about, and of those that they wait for."""

    def has_task(self, task_id: str) -> bool:
        """Whether a task, or what it made, goes on only once a person has done something; False where it has ended."""
        if task_id not in self._tasks:
            self._tasks[task_id] = False  # a circle of tasks is refused at submission
            self.behind.add(task_id)
            row = task_rows.get(self._conn, task_id)
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
            is_behind_red = red_since is not None and merge["created_at"] <= red_since
            return self._is_paused or is_behind_red or self._is_behind_held(merge)
        if merge["state"] != MergeState.HELD or needs_approval(merge):
            is_missing = standing_of(merge) == Outcome.MISSING
            return merge["state"] == MergeState.HELD or (is_missing and not self._may_come_back(merge["target"]))
        is_certain = (
            waits_for_red_target(merge)
            or tells_of_all(merge)
            or is_parked(merge["state"], merge["reason"])
            or OVERLAP in str(merge["reason"])
        )
        age = self._now - parse(merge["updated_at"])
        return self._has_watched and age >= (LOOKED_AGAIN if is_certain else GIT_RESTS)

    def _may_come_back(self, target: str) -> bool:
        """Whether what a target lost may be on its way there again, or is there already and nobody has looked yet."""
        coming = (*merges.in_state(self._conn, MergeState.QUEUED), *merges.in_state(self._conn, MergeState.VERIFYING))
        return not self._has_watched or any(row["target"] == target and not self.has_request(row) for row in coming)

    def _is_behind_held(self, merge: MergeRow) -> bool:
        """Whether a queued request lands only after one that is held: the one that stops its target, or one that it builds on."""
        if not self._has_watched:
            return False
        if merge["merge_id"] not in self._behind_held:
            self._behind_held[merge["merge_id"]] = False
            self._behind_held[merge["merge_id"]] = self._lands_after_held(merge)
        return self._behind_held[merge["merge_id"]]

    def _lands_after_held(self, merge: MergeRow) -> bool:
        if merge["target"] not in self._stacks:
            self._stacks[merge["target"]] = stacks.of_target(self._conn, merge["target"])
        behind = self._stacks[merge["target"]].get(merge["merge_id"], stacks.Stack()).behind
        held = [row for row in self._held if tells_of_all(row) and row["target"] == merge["target"]]
        return any(self.has_request(row) for row in (*held, *(merges.get(self._conn, other) for other in behind)))

    def _of_task(self, row: TaskRow) -> bool:
        status = row["status"]
        if status == TaskStatus.RUNNING:
            return row["task_id"] in self._asking or row["session_id"] in self._people
        if status == TaskStatus.PENDING:
            is_kept_back = (
                self._has_watched
                and row["runner"] is not None
                and (not self._settings().supervisor.max_agents or self._gate.reason(row) is not None)
            )
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
        """Whether a task has not ended, or what it made has not, or is missing from its target again."""
        row, merge = task_rows.get(self._conn, task_id), of_tasks.decisive(self._conn, task_id)
        lands = merge is not None and standing_of(merge) in (*OPEN_MERGES, Outcome.MISSING)
        return lands or (row is not None and row["status"] not in TERMINAL_TASKS)

    @cached_property
    def _gate(self) -> TrustGate:
        return self._services.of(Supervisor).gate

    @cached_property
    def _is_paused(self) -> bool:
        return work_pause.current(self._conn) is not None

    @cached_property
    def _red(self) -> dict[str, str]:
        """Since when targets are red; what was submitted later is tried, as it may repair them."""
        by_commits = {target: row["seen_at"] for target, row in red_tips(self._conn).items()}
        return {row["target"]: row["updated_at"] for row in self._held if waits_for_red_target(row)} | by_commits

    @cached_property
    def _held(self) -> list[MergeRow]:
        return merges.in_state(self._conn, MergeState.HELD)

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
