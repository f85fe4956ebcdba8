"""The words for how tasks and merge requests stand: shown and asked for alike."""

from __future__ import annotations

from itertools import product
from typing import Any

from sqlalchemy import Connection, select

from corral.core.outcomes import Outcome
from corral.core.states import OPEN_MERGES, TERMINAL_TASKS, MergeState, TaskStatus
from corral.landing.verify.verification_receipts import unverified
from corral.store.schema import merge_requests, tasks
from corral.work.merges.store import merges
from corral.work.merges.wire import MISSING, TAKEN_BACK, outcome_of
from corral.work.tasks.store import outcomes
from tests.unit.work.merges.store.test_of_tasks import AT, NOW, submit, task

STANDINGS: tuple[tuple[str | None, str | None], ...] = (
    *((str(state), None) for state in MergeState),
    ("landed", f"{MISSING}main"),
    ("landed", f"{TAKEN_BACK}main"),
    (None, None),
)


def every_case(conn: Connection) -> None:
    """A task in every status, with a request in every state, dismissed and not."""
    receipt = unverified(conn, "tree", "fingerprint", "no command", NOW)["receipt_id"]
    statuses = [status for status in TaskStatus if status != TaskStatus.RUNNING]
    for number, (status, (state, reason), dismissed) in enumerate(product(statuses, STANDINGS, (False, True))):
        values: dict[str, Any] = {"dismissed_at": AT if dismissed else None}
        ended = {"completed_at": AT, "error_code": "broken"} if status in TERMINAL_TASKS else {}
        task(conn, f"t-{number}", status=str(status), **ended, **(values if status != TaskStatus.COMPLETED else {}))
        if state is None:
            continue
        merge_id = submit(conn, f"b-{number}", number, f"t-{number}")
        final = {} if state in OPEN_MERGES else {"finished_at": AT}
        final |= {"landed_sha": "0" * 40, "receipt_id": receipt} if state == "landed" else {}
        row = merge_requests.update().where(merge_requests.c.merge_id == merge_id)
        conn.execute(row.values(state=state, reason=reason or "why", **final, **values))


def test_a_list_has_what_is_called_so_of_tasks_and_of_their_requests(any_database: Connection) -> None:
    every_case(any_database)
    all_tasks = list(any_database.execute(select(tasks.c.task_id, tasks.c.status)))
    shown = outcomes.of_tasks(any_database, [row.task_id for row in all_tasks])
    for word in (*TaskStatus.values(), *Outcome.values()):
        query = select(tasks.c.task_id).where(outcomes.tasks_called([word]))
        wanted = {row.task_id for row in all_tasks if word in (row.status, shown[row.task_id])}
        assert (wanted or word == "running") and {*any_database.execute(query).scalars()} == wanted, word
    requests = merges.listing(any_database)
    for word in dict.fromkeys((*MergeState.values(), *Outcome.values())):
        rows = merges.listing(any_database, only=[outcomes.requests_called([word])])
        by_state = {row["merge_id"] for row in requests if word == row["state"] and word != "conflict"}
        wanted = by_state | {row["merge_id"] for row in requests if word == outcome_of(row)}
        assert {row["merge_id"] for row in rows} == wanted, word
    decided = {row["task_id"]: outcome_of(row) for row in requests}
    completed = {row.task_id for row in all_tasks if row.status == TaskStatus.COMPLETED}
    assert {key: shown[key] for key in completed & {*decided}} == {key: decided[key] for key in completed & {*decided}}
