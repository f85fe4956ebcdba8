"""Deleting old data when a person asks for it, and the report: what went or would go, and what is kept for which reason."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime

from corral.config.sections.upkeep import Retention as Ages
from corral.core.errors import RACED, Conflict, NotFound
from corral.core.instants import iso
from corral.core.logs import logger
from corral.git import refs
from corral.git.refs import Ref
from corral.observe.audit import store as audit_rows
from corral.observe.retention import ages as retention_policy
from corral.observe.retention import store as retention_rows
from corral.observe.retention.api import Collected, Kept, Removed, SavedState
from corral.observe.retention.retention import Retention

LONGEST_S = 100.0
"""How long one request deletes; what is left goes with the next one, or with the hourly job."""
MOST_NAMED = 100
"""Saved states that a report names."""
HELD_NOWHERE = "work that nothing else has; `corral gc --unlanded` asks about it"
IGNORED_ALONE = "files that git ignores, the only copy of them; `corral worktree recover` lists them for a person"

log = logger("retention")


class Collection:
    """Runs the rounds of :class:`corral.observe.retention.retention.Retention` at once. Thread-safe."""

    def __init__(self, retention: Retention) -> None:
        self._retention = retention

    def run(self, now: datetime, *, dry_run: bool, forget: Sequence[str] = ()) -> Collected:
        """Delete finished data that is old, or only report what would go.

        Args:
            forget: Saved states, by their full refs, that go although nothing else has their work: a person named them.

        Raises:
            NotFound: A ref to forget is no saved state that is old enough; nothing was deleted.
            Conflict: A ref was changed meanwhile; the others are gone.
        """
        with self._retention.lock:
            chosen = self._chosen(now, forget)
            if dry_run:
                return self._planned(now, chosen)
            removed, freed, more, problems = self._rounds(now)
            for name, sha in chosen.items():
                if not refs.delete(self._retention.git, name, sha):
                    raise Conflict(
                        f"{name} was changed meanwhile.", cause=RACED, remedy="Look at it again: `corral gc --dry-run`."
                    )
                log.warning("saved_work_forgotten", ref=name, sha=sha)
                removed["salvage"] = removed.get("salvage", 0) + 1
            shown: list[Removed] = [
                {"kind": kind, "count": count} for kind, count in removed.items() if count and kind != "pages"
            ]
            return self._report(False, shown, now, freed, more, problems)

    def _chosen(self, now: datetime, names: Sequence[str]) -> dict[str, str]:
        if not names:
            return {}
        _held, alone = self._retention.saved(self._retention.ages(), now)
        known = {ref.name: ref.sha for ref in alone}
        if missing := [name for name in names if name not in known]:
            raise NotFound(
                f"{missing[0]} is no old saved state that nothing else has.",
                cause="It is recent, other refs have it too, or it is gone already.",
                remedy="`corral gc --dry-run` names those that there are.",
            )
        return {name: known[name] for name in names}

    def _rounds(self, now: datetime) -> tuple[dict[str, int], int, bool, dict[str, str]]:
        until, removed, freed = time.monotonic() + LONGEST_S, dict[str, int](), 0
        while True:
            result = self._retention.round(now)
            for kind, count in result.removed.items():
                removed[kind] = removed.get(kind, 0) + count
            freed += result.bytes
            if not result.more or time.monotonic() > until or self._retention.is_stopping():
                return removed, freed, result.more, result.problems

    def _planned(self, now: datetime, chosen: dict[str, str]) -> Collected:
        retention = self._retention
        ages = retention.ages()
        removed: list[Removed] = []
        for kind in retention_rows.KINDS:
            if (before := retention.before(kind, ages, now)) is not None:
                going, _kept = self._counts(kind, before)
                removed.append({"kind": kind, "count": going})
        if (moment := retention_policy.cutoff(ages, "audit", now)) is not None:
            count = retention.db.read(audit_rows.count_before, at=iso(moment))
            removed.append({"kind": "audit", "count": count})
        files = {"logs": retention.old_logs(ages, now), "backups": retention.old_backups(ages, now)}
        removed += [{"kind": kind, "count": len(group)} for kind, group in files.items()]
        held, _alone = retention.saved(ages, now)
        removed.append({"kind": "salvage", "count": len(held) + len(chosen)})
        removed.append({"kind": "ignored", "count": len(retention.ignored(ages, now)[0])})
        removed.append({"kind": "loops", "count": len(retention.old_loops(ages, now))})
        removed.append({"kind": "landed", "count": len(retention.landed(ages, now).old)})
        freed = sum(file.size for group in files.values() for file in group)
        return self._report(True, [entry for entry in removed if entry["count"]], now, freed, False, {})

    def _counts(self, kind: str, before: str) -> tuple[int, int]:
        """How many old rows of a kind go, and how many stay."""
        db = self._retention.db
        going, staying = db.read(retention_rows.counts, kind=kind, before=before)
        if kind != "worktrees" or not going:
            return going, staying
        keys = db.read(retention_rows.old, kind=kind, before=before, limit=going)
        held = going - len(self._retention.without_branch(keys))
        return going - held, staying + held

    def _report(
        self, dry_run: bool, removed: list[Removed], now: datetime, freed: int, more: bool, problems: dict[str, str]
    ) -> Collected:
        return {
            "dry_run": dry_run,
            "removed": removed,
            "kept": self._staying(self._retention.ages(), now),
            "freed_bytes": freed,
            "more": more,
            "problems": problems,
        }

    def _staying(self, ages: Ages, now: datetime) -> list[Kept]:
        """The old data that stays, by kind, each with the reason."""
        retention = self._retention
        groups: list[Kept] = []

        def add(kind: str, count: int, reason: str, named: Sequence[SavedState] = ()) -> None:
            if count:
                groups.append({"kind": kind, "count": count, "reason": reason, "refs": [*named]})

        for kind, rows in retention_rows.KINDS.items():
            if (before := retention.before(kind, ages, now)) is not None:
                _going, count = self._counts(kind, before)
                add(kind, count, rows.kept)
        if (moment := retention_policy.cutoff(ages, "logs", now)) is not None:
            owners = retention.db.read(retention_rows.owners_of_logs)
            logs = retention_policy.all_logs(retention.project.logs_dir)
            old = [file for file in logs if file.at < moment.timestamp() and not file.owners.isdisjoint(owners)]
            add("logs", len(old), "of an open task, an open merge or a worktree in use")
        _held, alone = retention.saved(ages, now)
        add("salvage", len(alone), HELD_NOWHERE, [_saved(ref) for ref in alone[:MOST_NAMED]])
        add("ignored", len(retention.ignored(ages, now)[1]), IGNORED_ALONE)
        tips = retention.landed(ages, now)
        add("landed", len(tips.undecided), "a rewound branch lost it, and nobody has decided: `corral status`")
        add("landed", len(tips.unknown), "no landing is recorded with it here: `git for-each-ref refs/corral/landed`")
        return groups


def _saved(ref: Ref) -> SavedState:
    return {"ref": ref.name, "sha": ref.sha, "created_at": iso(ref.created_at)}
