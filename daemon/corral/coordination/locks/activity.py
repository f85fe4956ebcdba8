"""Signs of activity of lock holders, from the disk, git and their mail; read before a lock is taken from its holder.

The judgement is :mod:`corral.coordination.locks.stale_holders`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import Connection

from corral.config.paths import find_checkout
from corral.coordination.locks.keys import LockKey, spellings, stored_key
from corral.coordination.locks.stale_holders import QUIET_S, Activity
from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.locks.store.activity import last_mail_at
from corral.coordination.services import Services
from corral.core.errors import GitFailed
from corral.core.instants import iso, parse
from corral.git import activity
from corral.git.process.command import open_checkout
from corral.store.rows.sessions import LockOfHolder


async def signs(services: Services, keys: Sequence[LockKey], lock_ids: Sequence[str]) -> dict[str, Activity]:
    """By ``lock_id``, the activity of the holders of the locks on the keys and with the ids."""
    now, match_keys = services.now(), [spelling for key in keys for spelling in spellings(key)]

    def held(conn: Connection) -> list[tuple[LockOfHolder, str | None]]:
        locks = lock_rows.named(conn, iso(now), match_keys=match_keys, lock_ids=lock_ids)
        return [(lock, last_mail_at(conn, lock["session_id"])) for lock in locks]

    rows = await services.store.read(held)
    return await services.work(lambda: {lock["lock_id"]: _look(services, lock, mail, now) for lock, mail in rows})


def _look(services: Services, lock: LockOfHolder, mail: str | None, now: datetime) -> Activity:
    mailed = parse(mail) if mail else None
    key = stored_key(lock)
    if key.is_logical:
        return Activity(mailed)
    specs = activity.pathspecs(key.file_path.removeprefix("./"), is_pattern=key.is_pattern, fold=services.fold)
    tops = {services.project.root} if not services.project.bare else set()
    tops |= {Path(place) for place in (lock["checkout"], lock["worktree"]) if place}
    written = [at for top in tops if (at := _written(services, top, specs))]
    return Activity(
        mailed,
        max(written, default=None),
        activity.last_committed_at(services.git, specs, now - timedelta(seconds=QUIET_S)),
    )


def _written(services: Services, top: Path, specs: Sequence[str]) -> datetime | None:
    checkout = find_checkout(top) if top.is_dir() else None
    if checkout is None or checkout.common_dir != services.project.common_dir:
        return None
    try:
        return activity.last_written_at(open_checkout(checkout.top), specs)
    except GitFailed:
        return services.now()  # nothing proves that the holder is inactive there
