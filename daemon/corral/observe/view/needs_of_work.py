"""Needs of a person for tasks to run: pauses, limits, starts that fail, workers and worktrees in trouble."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from corral.coordination.sessions.discovery import able
from corral.coordination.sessions.store import sessions
from corral.core.instants import iso
from corral.core.needs import Need
from corral.core.visible import one_line
from corral.store.rows import required
from corral.work.tasks.store import lists, tasks, work_pause
from corral.work.workers.limits import Parked, Throttle
from corral.work.workers.supervisor import Supervisor
from corral.work.worktrees import store as worktrees

if TYPE_CHECKING:
    from corral.coordination.services import Services

FAULTS_TO_TELL = 3
"""Starts of one task that the machine prevented in a row, after which a person should look."""

OF_A_DAY = ("limits.tokens_per_day", "limits.cost_usd_per_day")
"""Limits that hold work back for hours."""

LONG_PARK = timedelta(minutes=15)
"""A usage limit of a model that lasts as long or longer is shown to a person."""


def paused_work(_services: Services, conn: Connection) -> Iterator[Need]:
    """A pause that a person ordered."""
    pause = work_pause.current(conn)
    if pause is not None:
        yield Need("paused_work", work_pause.described(pause), "corral resume", pause["since_at"])


def paused_claiming(services: Services, _conn: Connection) -> Iterator[Need]:
    """No task is started, since starts keep failing."""
    pause = services.of(Supervisor).pause
    if pause is not None:
        yield Need(
            "paused_claiming",
            f"No task is started, since {pause.failures} starts failed in a row: {pause.reason}",
            f"{pause.remedy} One start is tried now and then, and all go on once it succeeds.",
            iso(pause.since),
        )


def limits_reached(services: Services, _conn: Connection) -> Iterator[Need]:
    """Limits that a person may want to raise; memory and requests per minute become free soon by themselves."""
    now = services.now()
    for hold in services.of(Supervisor).throttles:
        if isinstance(hold, Throttle):
            if hold.limit in OF_A_DAY:
                remedy = f"Wait until it is below; or raise `{hold.limit}` in .corral/config.yaml."
                yield Need("limit_reached", hold.reason, remedy)
        elif isinstance(hold, Parked) and hold.until - now >= LONG_PARK:
            yield Need("limit_reached", hold.reason, "Wait until then; or raise the limit with the model's provider.")


def tasks_that_cannot_start(services: Services, conn: Connection) -> Iterator[Need]:
    """Tasks whose starts the machine prevented again and again."""
    if services.of(Supervisor).pause is not None:  # the pause covers all of them
        return
    for row in tasks.cannot_start(conn, FAULTS_TO_TELL):
        reason = f"could not be started {row['faults']} times: {row['error_message']}"
        yield Need(
            "task_cannot_start",
            f"{row['title']!r} {reason}",
            f"corral task detail {row['task_id'][:8]}",
            None,
            {"task_id": row["task_id"]},
            row["title"],
            reason,
        )


def tasks_that_nobody_can_do(services: Services, conn: Connection) -> Iterator[Need]:
    """Tasks that require what nobody here is capable of, or for sessions, what no session has and no agent of the project."""
    rows = tasks.requiring(conn)
    if not rows:
        return
    gate, roster = services.of(Supervisor).gate, services.roster()
    found = able(conn, sessions.live(conn), services.teams().capabilities)
    present = [*(row["capabilities"] for row in found), *(agent.capabilities for agent in roster.known())]
    sets = [{capability.casefold() for capability in capabilities} for capabilities in present]
    for row in rows:
        required = (row["agent_requirements"] or {}).get("capabilities", [])
        reason = gate.lacking(row)
        if row["runner"] is None and not any({word.casefold() for word in required} <= known for known in sets):
            reason = f"No session and no agent here is capable of {one_line(', '.join(required))}."
        if reason is not None:
            yield Need(
                "nobody_capable",
                f"{one_line(row['title'])!r} waits: {reason}",
                "Add somebody who is to .corral/teams.yaml or .claude/agents: it then starts by itself. "
                f"To drop it: corral task cancel {row['task_id'][:8]}",
                row["created_at"],
                {"task_id": row["task_id"]},
                row["title"],
                f"waits: {reason}",
            )


def unobserved_workers(services: Services, conn: Connection) -> Iterator[Need]:
    """Workers whose output and end the supervisor cannot see just now, or that do not end."""
    reasons = services.of(Supervisor).unobserved()
    titles = lists.titles(conn, [*reasons])
    for task_id, reason in reasons.items():
        named = f"{one_line(titles[task_id])!r} ({task_id[:8]})" if task_id in titles else task_id[:8]
        yield Need(
            "unobserved_worker",
            f"The worker of task {named} {reason}",
            f"Fix what the reason names; or: corral task cancel {task_id[:8]}",
            ids={"task_id": task_id},
        )


def kept_worktrees(_services: Services, conn: Connection) -> Iterator[Need]:
    """Worktrees that are broken, or kept because their folder fails a proof."""
    held = worktrees.noted(conn)
    titles = lists.titles(conn, [row["task_id"] for row in held if row["task_id"]])
    for row in held:
        whose = f" of {one_line(titles[row['task_id']])!r}" if row["task_id"] in titles else ""
        why, _, remedy = required(row["note"]).partition("\n")
        yield Need(
            "kept_worktree",
            f"The worktree {row['name']}{whose} is held: {why}",
            remedy or "corral worktree list",
            ids={"worktree_id": row["worktree_id"], **({"task_id": row["task_id"]} if row["task_id"] else {})},
        )
