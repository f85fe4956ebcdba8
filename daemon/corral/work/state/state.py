"""Values that the agents at one task share by key: atomic, compared before they are set, deleted when the task ends."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from corral.core.errors import Conflict, InvalidInput, NotFound
from corral.core.instants import iso
from corral.core.states import TERMINAL_TASKS
from corral.store.rows.tasks import SharedValue
from corral.work.state import store as shared_state
from corral.work.tasks import followers
from corral.work.tasks.store import family
from corral.work.tasks.tasks import find

MOST_KEYS = 1000
MOST_BYTES = 65_536
"""Of one value, as JSON."""


def task_of(conn: Connection, session_id: str | None) -> str:
    """The task whose values a session shares where it names none: the one that it works on, or the first that leads that.

    Raises:
        InvalidInput: It works on no task, or on several.
    """
    mine = followers.task_of(conn, session_id)
    return [mine, *family.ancestors(conn, mine)][-1]


def read(conn: Connection, task_id: str, key: str) -> SharedValue:
    """The value of a key.

    Raises:
        NotFound: No such task, or no such key.
    """
    row = find(conn, task_id)
    stored = shared_state.get(conn, row["task_id"], key)
    if stored is None:
        raise _missing(row["task_id"], key)
    return stored


def listing(conn: Connection, task_id: str) -> list[SharedValue]:
    """All values of a task, by key.

    Raises:
        NotFound: No such task.
    """
    return shared_state.of_task(conn, find(conn, task_id)["task_id"])


def write(
    conn: Connection,
    task_id: str,
    key: str,
    value: Any,
    now: datetime,
    *,
    by: str | None = None,
    if_version: int | None = None,
) -> SharedValue:
    """Set the value of a key.

    Args:
        value: Any JSON value of at most 64 KiB.
        by: The session that sets it.
        if_version: The version that it must have; 0: it must not be there yet.

    Returns:
        The value with its new version, which is 1 where the key is new.

    Raises:
        NotFound: No such task.
        Conflict: The key has another version; ``details`` hold its present value. Or the task has ended.
        InvalidInput: The value is too large, or there are too many keys.
    """
    row = find(conn, task_id)
    if row["status"] in TERMINAL_TASKS:
        raise Conflict(
            f"Task {row['task_id']} is {row['status']}: its shared state is gone.",
            cause="The shared state of a task is for the agents at work on it, and is deleted when it ends.",
            remedy="Put what should last into the task's result, or into `corral memory`.",
        )
    if len(json.dumps(value, ensure_ascii=False).encode(errors="replace")) > MOST_BYTES:
        raise InvalidInput(
            f"The value of {key!r} is larger than {MOST_BYTES // 1024} KiB.",
            remedy="Write it to a file and share its path.",
        )
    values = {"value": value, "updated_by": by, "updated_at": iso(now)}
    before = shared_state.get(conn, row["task_id"], key)
    if if_version is not None and if_version != (before["version"] if before else 0):
        raise _moved_on(row["task_id"], key, if_version, before)
    if before is None:
        if shared_state.count(conn, row["task_id"]) >= MOST_KEYS:
            raise InvalidInput(f"Task {row['task_id']} has {MOST_KEYS} keys already.", remedy="Delete some of them.")
        return shared_state.create(conn, row["task_id"], key, values)
    changed = shared_state.change(conn, row["task_id"], key, values, if_version=before["version"])
    if changed is None:  # only another daemon at the same database can have been faster
        raise _moved_on(row["task_id"], key, before["version"], shared_state.get(conn, row["task_id"], key))
    return changed


def remove(conn: Connection, task_id: str, key: str, *, if_version: int | None = None) -> None:
    """Delete a key.

    Raises:
        NotFound: No such task, or no such key.
        Conflict: The key has another version.
    """
    row = find(conn, task_id)
    if shared_state.remove(conn, row["task_id"], key, if_version=if_version):
        return
    stored = shared_state.get(conn, row["task_id"], key)
    if stored is None:
        raise _missing(row["task_id"], key)
    raise _moved_on(row["task_id"], key, if_version or 0, stored)


def _missing(task_id: str, key: str) -> NotFound:
    return NotFound(
        f"Task {task_id} has no key {key[:80]!r}.",
        cause="Nobody has set it, or it was deleted.",
        remedy=f"`corral state list {task_id[:8]}` shows them all.",
    )


def _moved_on(task_id: str, key: str, expected: int, stored: SharedValue | None) -> Conflict:
    is_now = f"at version {stored['version']}" if stored else "not there"
    return Conflict(
        f"The key {key[:80]!r} of task {task_id} is {is_now}, not at version {expected}.",
        cause="Somebody else changed it since you read it.",
        remedy="Read it again, and set it with the version that you read.",
        details={"current": stored},
    )
