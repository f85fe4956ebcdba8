"""The queue of sessions that wait for locks, and the locks and waits that block each.

The queue is fair: no session takes what an earlier one waits for, unless both only share it. A session waits for all that it
asked for, and gets it at once. A session that holds something may wait for something else; the one that would
complete a deadlock is refused instead, so that no session waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from corral.coordination.locks.keys import LockKey, key_covers, keys_overlap, stored_key
from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.locks.store import waits as lock_wait_rows
from corral.core.instants import iso, parse
from corral.core.payload import Payload
from corral.store.rows.sessions import HeldLock

if TYPE_CHECKING:
    from corral.core.event_payloads import LockConflict


def conflict(row: HeldLock, key: LockKey, now: datetime) -> LockConflict:
    """An overlap as answers show it; ``waiting``: another session waits for the key, and does not hold it."""
    return {
        "requested": key.file_path,
        "file_path": row["file_path"],
        "holder": row["agent_name"],
        "session_id": row["session_id"],
        "task": row["current_task"],
        "task_id": row["task_id"],
        "reason": row["reason"],
        "exclusive": bool(row["exclusive"]),
        "automatic": bool(row["automatic"]),
        "waiting": False,
        "checkout": row["checkout"] or None,
        "expires_at": row["expires_at"],
        "expires_in_s": _left_s(row["expires_at"], now),
    }


def _left_s(expires_at: str, now: datetime) -> int:
    return max(0, round((parse(expires_at) - now).total_seconds()))


class Ahead:
    """The sessions that wait and came before a request. Reads the queue once, and the session's own locks only if needed.

    Args:
        kin: Sessions that neither block this one nor are blocked by it.
        exclusive: Whether the session asks for locks that nobody else shares.
        before: The session's own place in the queue; None: it comes now.
    """

    def __init__(
        self,
        conn: Connection,
        session_id: str,
        kin: Collection[str],
        now: datetime,
        *,
        exclusive: bool,
        before: int | None = None,
    ) -> None:
        self._conn = conn
        self._session_id = session_id
        self._now = now
        self._held: list[LockKey] | None = None
        self._waits = [
            (wait, [stored_key(key) for key in wait["keys"]])
            for wait in lock_wait_rows.waiting(conn, iso(now))
            if wait["session_id"] != session_id
            and wait["session_id"] not in kin
            and (exclusive or wait["exclusive"])
            and (before is None or wait["seq"] < before)
        ]

    def of(self, key: LockKey) -> Iterator[LockConflict]:
        """The sessions that wait for a key that overlaps this one; ``file_path`` is the key that they wait for.

        A session may renew what it holds already: the others wait for it.
        """
        for wait, keys in self._waits:
            overlapping = next((other for other in keys if keys_overlap(key, other)), None)
            if overlapping is not None and not self._has(key):
                yield {
                    "requested": key.file_path,
                    "file_path": overlapping.file_path,
                    "holder": wait["agent_name"],
                    "session_id": wait["session_id"],
                    "task": wait["current_task"],
                    "task_id": None,
                    "reason": wait["reason"],
                    "exclusive": wait["exclusive"],
                    "automatic": False,
                    "waiting": True,
                    "checkout": None,
                    "expires_at": wait["expires_at"],
                    "expires_in_s": _left_s(wait["expires_at"], self._now),
                }

    def _has(self, key: LockKey) -> bool:
        if self._held is None:
            rows = lock_rows.listing(self._conn, iso(self._now), [self._session_id])
            self._held = [stored_key(row) for row in rows if not row["automatic"]]
        return any(key_covers(held_key, key) for held_key in self._held)


def find_deadlock(first: str, blockers: Callable[[str], Sequence[Payload]]) -> list[Payload]:
    """The deadlock of a session that waits for itself: one blocker for each session in it; empty if there is none.

    Args:
        blockers: Those of a session (``session_id``: their owner); asked once for each session.
    """
    ways: list[list[Payload]] = [[]]
    seen = {first}
    while ways:
        way = ways.pop()
        for obstacle in blockers(way[-1]["session_id"] if way else first):
            whose = obstacle["session_id"]
            if whose == first:
                return [*way, obstacle]
            if whose not in seen:
                seen.add(whose)
                ways.append([*way, obstacle])
    return []
