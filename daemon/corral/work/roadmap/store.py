"""SQL for the queue tasks of a roadmap, and for whether the roadmap is worked on."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, and_, delete, insert, select, update

from corral.core.instants import iso
from corral.store.engine.dialect import Dialect, dialect_of
from corral.store.engine.fetch import fetch_all
from corral.store.engine.prepared import Prepared
from corral.store.rows import columns_of
from corral.store.rows.tasks import OwnRoadmapTask, RoadmapTaskRow
from corral.store.schema import tasks
from corral.store.schema_project import roadmap_supervision
from corral.work.merges.store.of_tasks import of_decisive, standing

_key = tasks.c.idempotency_key
_SINCE = Prepared[object](select(roadmap_supervision.c.since_at))


def since(conn: Connection) -> str | None:
    """Since when the roadmap is worked on; None: it is not."""
    return _SINCE.text(conn, {})


def begin(conn: Connection, now: datetime) -> str:
    """Work on the roadmap from now on; a second call changes nothing. Returns since when."""
    before = since(conn)
    if before is None:
        conn.execute(insert(roadmap_supervision).values(id=1, since_at=iso(now)))
    return before or iso(now)


def end(conn: Connection) -> bool:
    """Work on the roadmap no longer; whether it was worked on."""
    return conn.execute(delete(roadmap_supervision)).rowcount > 0


def with_keys(conn: Connection, prefix: str) -> list[RoadmapTaskRow]:
    """The tasks whose idempotency key begins like that, and the state of the merge request of each that counts.

    Args:
        prefix: Ends with a colon.
    """
    # SQLite finds a range by the index; a PostgreSQL server may sort punctuation in ways of its own.
    in_range = and_(_key >= prefix, _key < f"{prefix[:-1]};")
    begins = in_range if dialect_of(conn) is Dialect.SQLITE else _key.startswith(prefix, autoescape=True)
    state = of_decisive(standing()).correlate(tasks).scalar_subquery().label("merge_state")
    return fetch_all(conn, select(*columns_of(tasks, OwnRoadmapTask), state).where(begins), RoadmapTaskRow)


def rename_key(conn: Connection, task_id: str, key: str) -> None:
    """Give a task another idempotency key, so that a new task can have its own."""
    conn.execute(update(tasks).where(tasks.c.task_id == task_id).values(idempotency_key=key))


def set_metadata(conn: Connection, task_id: str, metadata: dict[str, object]) -> None:
    """Replace the metadata of a task."""
    conn.execute(update(tasks).where(tasks.c.task_id == task_id).values(metadata=metadata))
