"""Requests that were begun on the work of others: each lands behind it, and waits where it came back.

Everything is derived, in each step, from the row of a branch's worktree (``stacked_on``) and from the requests that count for the
tasks named there. So whatever becomes of those (landed in any style, tried again, submitted again, given up, lost by a rewind),
those that stand on them follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection

from corral.core.instants import parse
from corral.core.outcomes import Outcome
from corral.core.remedies import with_remedy
from corral.core.states import OPEN_MERGES, MergeState
from corral.core.visible import one_line
from corral.landing import order
from corral.store.protocol import Store
from corral.store.rows.merges import MergeRow
from corral.work.merges.settling import OnSettled
from corral.work.merges.store import merges, of_tasks, stacks
from corral.work.merges.wire import CAME_BACK, is_parked, standing_of

_GONE = (MergeState.CONFLICT, MergeState.FAILED, MergeState.CANCELLED, MergeState.SUPERSEDED, Outcome.MISSING)


@dataclass(frozen=True)
class Stack:
    """What a request stands on.

    Attributes:
        behind: The open requests of the tasks that its own waited for: they have to land before it, or with it.
        begun_on: The commits that its branch was made on, which are no part of it.
        gone: The request that came back, or that its target lost, on whose work it was made, perhaps by way of others.
    """

    behind: frozenset[str] = frozenset()
    begun_on: tuple[str, ...] = ()
    gone: MergeRow | None = None


def of_target(conn: Connection, target: str) -> dict[str, Stack]:
    """What each open request of a target stands on, by its id; most stand on nothing, and are left out."""
    begun_on, waited_for = stacks.open_of(conn, target), stacks.waited_for(conn, target)
    standing = {
        merge_id: _stack(conn, begun_on.get(merge_id, {}), waited_for.get(merge_id, ()))
        for merge_id in (*waited_for, *begun_on)
    }
    order_of = order.in_order(list(standing), {merge_id: stack.behind for merge_id, stack in standing.items()})
    for merge_id in order_of:  # those below come first
        stack = standing[merge_id]
        below = (standing[other].gone for other in sorted(stack.behind) if other in standing)
        standing[merge_id] = replace(stack, gone=stack.gone or next((gone for gone in below if gone is not None), None))
    return standing


def _stack(conn: Connection, begun_on: Mapping[str, str], waited_for: Sequence[str]) -> Stack:
    decisive = {task_id: of_tasks.decisive(conn, task_id) for task_id in {*begun_on, *waited_for}}
    below = [row for task_id in begun_on if (row := decisive[task_id]) is not None]
    return Stack(
        frozenset(row["merge_id"] for row in decisive.values() if row is not None and row["state"] in OPEN_MERGES),
        tuple(begun_on.values()),
        next((row for row in below if standing_of(row) in _GONE), None),
    )


def in_order(
    requests: Sequence[MergeRow], standing: Mapping[str, Stack], ageing_s: float, now: datetime
) -> list[MergeRow]:
    """Requests in landing order: as :mod:`corral.landing.order` has it."""

    def rank(row: MergeRow) -> tuple[int, str, int]:
        since = row["skipped_at"] or row["created_at"]  # one that was skipped counts from that moment
        return -order.lifted(row["priority"], (now - parse(since)).total_seconds(), ageing_s), since, row["seq"]

    by_id = {row["merge_id"]: row for row in sorted(requests, key=rank)}
    behind = {merge_id: stack.behind for merge_id, stack in standing.items()}
    return [by_id[merge_id] for merge_id in order.in_order(list(by_id), behind)]


def settle(
    db: Store, requests: Sequence[MergeRow], standing: Mapping[str, Stack], on_settled: OnSettled, now: datetime
) -> list[MergeRow]:
    """Hold requests whose base came back, and queue those again whose base goes on.

    Returns:
        The requests that do not wait for such a base, as they are stored now.
    """

    def move(conn: Connection, merge: MergeRow, reason: str | None) -> MergeRow | None:
        which = merge["merge_id"]
        row = merges.requeue(conn, which, now) if reason is None else merges.hold(conn, which, reason, now)
        if row is not None:
            on_settled(conn, row, now)
        return row

    ready = []
    for merge in requests:
        gone = standing.get(merge["merge_id"], Stack()).gone
        reason = None if gone is None else _reason(merge, gone)
        row: MergeRow | None = merge
        if (merge["reason"] if is_parked(merge["state"], merge["reason"]) else None) != reason:
            row = db.write(move, merge=merge, reason=reason)
        if reason is None and row is not None:
            ready.append(row)
    return ready


def _reason(merge: MergeRow, gone: MergeRow) -> str:
    """Why a request waits for what it was begun on, and what to type."""
    title, branch, which = one_line(gone["title"])[:80], one_line(gone["branch"]), gone["merge_id"][:8]
    text = (
        f"{CAME_BACK}: {title!r} ({branch}, merge request {which}) ended as {standing_of(gone)}. Its own work is kept in "
        f"{one_line(merge['branch'])}, and lands once that goes on."
    )
    remedy = f"`corral merge cancel {merge['merge_id'][:8]}` gives it up; else "
    if standing_of(gone) == Outcome.MISSING:
        remedy += f"decide what becomes of what {one_line(gone['target'])} lost: `corral status` has the commands."
    else:
        remedy += (
            f"fix {branch}, then `corral merge retry {which} --follow-branch`, or have that task run again: "
            f"`corral task retry {(gone['task_id'] or '')[:8]}`."
        )
    return with_remedy(text, remedy)


def explained(conn: Connection, requests: list[MergeRow]) -> list[MergeRow]:
    """The same requests; those that are queued behind one that cannot go on get that as their reason."""
    standing = {
        merge_id: stack
        for target in {row["target"] for row in requests if row["state"] == MergeState.QUEUED}
        for merge_id, stack in of_target(conn, target).items()
    }
    return (
        [_explained(conn, row, standing.get(row["merge_id"], Stack()).behind) for row in requests]
        if standing
        else requests
    )


def _explained(conn: Connection, row: MergeRow, behind: frozenset[str]) -> MergeRow:
    below = [merges.get(conn, merge_id) for merge_id in sorted(behind)]
    below = [other for other in below if other["state"] == MergeState.HELD or other["not_before_at"] is not None]
    if row["state"] != MergeState.QUEUED or row["reason"] or not below:
        return row
    named = " and ".join(f"{one_line(other['branch'])} ({other['merge_id'][:8]}, {other['state']})" for other in below)
    return {**row, "reason": f"It lands behind {named}."}
