"""Requests that came back, and whose commits have reached their target by another way since: they have landed."""

from __future__ import annotations

from datetime import timedelta

from corral.git import refs
from corral.git.process.command import Git
from corral.store.protocol import Store
from corral.store.rows.merges import MergeRow
from corral.work.tasks.store import outcomes

LOOK_AGAIN = timedelta(seconds=60)
"""Between two looks at the targets of requests that came back: a person's merge or pull tells nobody."""


class ReturnedRequests:
    """Looks at each of them again only when its target has moved; for the queue's step alone."""

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}

    def landed(self, db: Store, repo: Git) -> tuple[list[MergeRow], bool]:
        """Find those whose head is part of their target by now.

        Returns:
            Their rows, and whether others have to be looked at again.

        Raises:
            GitFailed: The repository could not be read.
        """
        returned = [row for row in db.read(outcomes.open_requests) if row["finished_at"] is not None]
        landed, seen = [], {}
        for row in returned:
            tip = refs.read(repo, refs.branch_ref(row["target"]))
            if tip is None:
                continue
            if self._seen.get(row["merge_id"]) != tip and refs.is_ancestor(repo, row["head_sha"], tip):
                landed.append(row)
            else:
                seen[row["merge_id"]] = tip
        self._seen = seen
        return landed, len(returned) > len(landed)
