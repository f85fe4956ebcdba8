"""Which locks of others overlap what a session asks for.

A key that lies somewhere is looked up by index. A glob that begins with a wildcard may meet anything: for those that one call
names, all locks are read once, and each glob finds the plain paths among them in one go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from functools import cached_property
from itertools import islice

from sqlalchemy import Connection

from corral.coordination.locks.keys import (
    LockKey,
    PathIndex,
    ancestors,
    first_character,
    keys_overlap,
    meets_all,
    reach,
    stored_key,
)
from corral.coordination.locks.store import locks as lock_rows
from corral.core.errors import InvalidInput
from corral.core.instants import iso
from corral.store.rows.sessions import HeldLock

MOST_COMPARED = 10_000_000
"""Characters of the keys of locks that the globs of one call are compared with, if those may be anywhere."""


class Overlaps:
    """The live locks of others, for the keys of one request.

    Args:
        mine: The sessions whose locks do not count: the one that asks, and those that it belongs to.
        exclusive_only: Shared locks do not count.
    """

    def __init__(self, conn: Connection, mine: Collection[str], now: datetime, *, exclusive_only: bool = False) -> None:
        self._conn = conn
        self._mine = mine
        self._now = iso(now)
        self._exclusive_only = exclusive_only
        self._compared = 0

    def of(self, key: LockKey, most: int | None = None) -> list[HeldLock]:
        """Those that overlap a key, the longest lasting last.

        Args:
            most: So many of them, those that expire first.

        Raises:
            InvalidInput: There are too many locks for globs that may be anywhere.
        """
        below = reach(key)
        candidates: Iterable[HeldLock]
        if meets_all(key):
            candidates = lock_rows.by_expiry(self._conn, self._now)
        elif below:
            candidates = lock_rows.candidates(
                self._conn, below, ancestors(below), first_character(below), now=self._now
            )
        else:
            candidates = [*self._globs, *self._on_paths(key, most)]
        overlapping = (
            row
            for row in candidates
            if row["session_id"] not in self._mine
            and (row["exclusive"] or not self._exclusive_only)
            and keys_overlap(key, stored_key(row))
        )
        rows = islice(overlapping, most) if meets_all(key) else overlapping
        return sorted(rows, key=lambda row: (row["expires_at"], row["lock_id"]))[:most]

    @cached_property
    def _globs(self) -> list[HeldLock]:
        return lock_rows.globs(self._conn, self._now)

    @cached_property
    def _plain(self) -> PathIndex:
        return PathIndex(lock_rows.plain_keys(self._conn, self._now, self._mine, exclusive_only=self._exclusive_only))

    def _on_paths(self, key: LockKey, most: int | None) -> Sequence[HeldLock]:
        self._compared += len(self._plain.text)
        if self._compared > MOST_COMPARED:
            raise InvalidInput(
                f"There are too many locks to compare {key.file_path!r} with.",
                cause=f"It may mean anything, anywhere, and {self._plain.count} paths are locked.",
                remedy="Begin it with a folder, or name fewer such globs at once.",
            )
        match_keys = list(islice(self._plain.met(key), most))
        return lock_rows.named(self._conn, self._now, match_keys=match_keys) if match_keys else []
