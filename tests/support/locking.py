"""Reserving paths in one transaction, all or none, as a session that does not wait for them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from corral.coordination.locks import table
from corral.coordination.locks.keys import LockKey
from corral.coordination.locks.table import Holder, LockRequest
from corral.store.rows.sessions import LockRow


def acquire(conn: Connection, keys: Sequence[LockKey], holder: Holder, now: datetime, **terms: Any) -> list[LockRow]:
    """Reserve the keys, or raise what says who is in the way of which."""
    taken, refused = table.acquire_each(conn, LockRequest(keys, **terms), holder, now, whole=True)
    if refused:
        raise table.held([row for conflict in refused.values() for row in conflict])
    return taken
