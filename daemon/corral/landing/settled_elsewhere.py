"""Returned requests whose commits have reached their target in another way since: they have landed."""

from __future__ import annotations

from datetime import timedelta

from corral.core.errors import CorralError
from corral.core.logs import logger
from corral.git import refs
from corral.git.process.command import Git
from corral.store.protocol import Store
from corral.store.rows.merges import MergeRow
from corral.work.tasks.store import outcomes

log = logger("landing")
LOOK_AGAIN = timedelta(seconds=60)
"""Between two looks at the targets of returned requests: nothing announces a person's merge or pull."""


class ReturnedRequests:
    """The returned requests. Checks one again only when its target has moved; only the queue's step may call it."""

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}

    def landed(self, db: Store, repo: Git) -> tuple[list[MergeRow], bool]:
        """Find those whose head is part of their target by now. One that cannot be looked at waits until its target moves.

        Returns:
            Their rows, and whether others have to be looked at again.
        """
        returned = [row for row in db.read(outcomes.open_requests) if row["finished_at"] is not None]
        landed, tips = [], {}
        for row in returned:
            tip = refs.read(repo, refs.branch_ref(row["target"]))
            if tip is None:
                continue
            if self._seen.get(row["merge_id"]) != tip and _has(repo, tip, row):
                landed.append(row)
            else:
                tips[row["merge_id"]] = tip
        self._seen = tips
        return landed, len(returned) > len(landed)


def _has(repo: Git, tip: str, row: MergeRow) -> bool:
    try:
        return refs.is_ancestor(repo, row["head_sha"], tip)
    except (CorralError, OSError) as error:  # its branch was deleted, say, and git has collected its commits
        log.warning("returned_request_not_looked_at", merge_id=row["merge_id"], reason=str(error))
        return False
