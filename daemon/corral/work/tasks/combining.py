"""Several agents at one task: each works on a copy of it, and the task's rule makes one result of theirs.

The task itself waits while its members work. Every contribution is kept in its member's task, with its branch. Rules that
choose one (``first``, ``vote``) land the chosen branch for the task; ``synthesize`` gives all of them to one more agent; with
``all`` and ``concat`` each member lands by itself, and the task is completed once that has happened.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from corral.config.sections.work import Tasks as TaskRules
from corral.core.events import Event, EventKind
from corral.core.instants import iso
from corral.core.payload import Payload
from corral.core.states import RETURNED_MERGES, TERMINAL_TASKS, Combine, MergeState, TaskStatus
from corral.store import events
from corral.store.rows import Columns
from corral.store.rows.tasks import TaskRow
from corral.work.merges.store import merges
from corral.work.merges.store import of_tasks as merge_tasks
from corral.work.tasks.dependencies import reconsider
from corral.work.tasks.store import family, tasks

if TYPE_CHECKING:
    from corral.core.event_payloads import TaskSetback

CHOOSES_ONE = (Combine.FIRST, Combine.VOTE, Combine.SYNTHESIZE)
"""Rules by which members do not land by themselves."""

CONTRIBUTION = "contribution"
"""The key of a member's result under which its work is named: ``{merge_id, branch, target, base_sha, head_sha}``."""


def is_any_decided(conn: Connection) -> bool:
    """Whether the members of any task have done what its rule needs."""
    return bool(family.decided(conn))


def settle_all(conn: Connection, now: datetime, rules: TaskRules) -> None:
    """Decide the tasks whose members have done what their rule needs."""
    for row in family.decided(conn):
        _settle(conn, row, now, rules)


def failed_members(conn: Connection, row: TaskRow) -> list[str]:
    """The members of a task that did not succeed, to be run again with it."""
    hopeless = (TaskStatus.FAILED, TaskStatus.DEAD, TaskStatus.CANCELLED)
    return [
        member["task_id"] for member in _members(conn, row) if member["status"] in hopeless or came_back(conn, member)
    ]


def came_back(conn: Connection, row: TaskRow) -> bool:
    """Whether a task is completed, but its merge request came back or was cancelled."""
    merge = merge_tasks.decisive(conn, row["task_id"]) if row["status"] == TaskStatus.COMPLETED else None
    return merge is not None and merge["state"] in (*RETURNED_MERGES, MergeState.CANCELLED)


def is_held_back(conn: Connection, row: TaskRow) -> bool:
    """Whether a task is a member whose work does not land by itself, since the rule chooses among the members."""
    if row["parent_task_id"] is None:
        return False
    parent = tasks.get(conn, row["parent_task_id"])
    is_member = (row["idempotency_key"] or "").startswith(family.member_key(row["parent_task_id"], 0)[:-1])
    return parent is not None and is_member and parent["combine"] in CHOOSES_ONE


def _members(conn: Connection, row: TaskRow) -> list[TaskRow]:
    return family.members(conn, row["task_id"], row["agents_wanted"] or 0)


def synthesis(conn: Connection, task: TaskRow) -> str | None:
    """The part of a prompt with the contributions to synthesize; None: the task has another rule."""
    if task["combine"] != Combine.SYNTHESIZE:
        return None
    completed = [row for row in _members(conn, task) if row["status"] == TaskStatus.COMPLETED]
    parts = [_as_text(number, row) for number, row in enumerate(completed, 1)]
    request = (
        "Other agents did this task independently. Make one result of their contributions; take over with `git merge` or "
        "`git cherry-pick` what is good of their branches."
    )
    return "\n\n".join([request, *parts])


def _settle(conn: Connection, row: TaskRow, now: datetime, rules: TaskRules) -> None:
    members = _members(conn, row)
    succeeded = [
        member for member in members if member["status"] == TaskStatus.COMPLETED and not came_back(conn, member)
    ]
    ended = [member for member in members if member["status"] in TERMINAL_TASKS]
    rule, is_over = Combine(row["combine"] or Combine.ALL), len(ended) == len(members)

    def end(values: Columns, result: Payload, event: Event, winner: TaskRow | None = None) -> None:
        kept = {**values, "result": {**result, "contributions": _contributions(members)}, "completed_at": iso(now)}
        if tasks.transition(conn, row["task_id"], (TaskStatus.WAITING,), kept) is None:
            return
        events.record(conn, now, event, task_id=row["task_id"])
        if winner is not None and (work := (winner["result"] or {}).get(CONTRIBUTION)):
            merges.submit(
                conn, task_id=row["task_id"], session_id=winner["session_id"], title=row["title"], priority=row["priority"],
                now=now, **work,
            )  # fmt: skip
        reconsider(conn, [row["task_id"]], now, unblock_on=rules.unblock_on)

    def complete(result: Payload, winner: TaskRow | None = None) -> None:
        work = (winner["result"] or {}).get(CONTRIBUTION) if winner is not None else None
        head = work["head_sha"] if work else None
        event = EventKind.TASK_COMPLETED({"attempt": 0, "head_sha": head})
        end({"status": TaskStatus.COMPLETED}, result, event, winner)

    def fail(code: str, message: str) -> None:
        why: TaskSetback = {"error_code": code, "error_message": message}
        end({"status": TaskStatus.FAILED, **why}, {}, EventKind.TASK_FAILED(why))

    if rule is Combine.FIRST and succeeded:
        winner = min(succeeded, key=lambda member: (member["completed_at"] or "", member["seq"]))
        complete(_own(winner), winner)
    elif not is_over:
        return
    elif not succeeded or (rule is Combine.ALL and len(succeeded) < len(members)):
        fail("agents_failed", f"{len(members) - len(succeeded)} of its {len(members)} agents did not succeed.")
    elif rule is Combine.SYNTHESIZE:
        moved = tasks.transition(conn, row["task_id"], (TaskStatus.WAITING,), {"status": TaskStatus.PENDING})
        if moved is not None:
            events.record(conn, now, EventKind.TASK_UNBLOCKED, task_id=row["task_id"])
    elif rule is Combine.VOTE:
        votes = Counter(_vote(member) for member in succeeded)
        (most, number), *_ = votes.most_common(1)
        if 2 * number <= len(members):
            most_frequent = f"the most frequent one has {number} of {len(members)} votes"
            fail("no_majority", f"No result has a majority: {most_frequent}.")
        else:
            winner = next(member for member in succeeded if _vote(member) == most)
            complete({**_own(winner), "votes": {"for": number, "of": len(members)}}, winner)
    else:
        joined = "\n\n".join(filter(None, (_output(member) for member in succeeded)))
        complete({"output": joined} if rule is Combine.CONCAT else {})


def _contributions(members: Sequence[TaskRow]) -> list[Payload]:
    return [
        {"task_id": member["task_id"], "status": member["status"], "result": member["result"]} for member in members
    ]


def _own(member: TaskRow) -> Payload:
    return {name: value for name, value in (member["result"] or {}).items() if name != CONTRIBUTION}


def _output(member: TaskRow) -> str:
    own = _own(member)
    output = own.get("output", own.get("text", own.get("result")))
    return output if isinstance(output, str) else json.dumps(own, ensure_ascii=False, sort_keys=True)


def _vote(member: TaskRow) -> str:
    """The vote of a member: its output, whatever spaces are around it."""
    return _output(member).strip()


def _as_text(number: int, member: TaskRow) -> str:
    work = (member["result"] or {}).get(CONTRIBUTION)
    where = f"branch {work['branch']}, commit {work['head_sha'][:12]}" if work else "no changed files"
    return f"Contribution {number} ({where}):\n{_output(member)}"
