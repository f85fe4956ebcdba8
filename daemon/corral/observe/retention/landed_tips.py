"""Which refs of landed commits may go: old ones whose landing this database has recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from corral.core.instants import iso
from corral.git import refs
from corral.git.land import kept
from corral.git.process.command import Git
from corral.git.refs import Ref
from corral.store.protocol import Store
from corral.store.rows.merges import MergeRow
from corral.work.merges.store import landed


@dataclass(frozen=True)
class LandedTips:
    """The old refs below ``refs/corral/landed/``.

    Attributes:
        old: May go.
        undecided: Lost by a target, and nobody has decided: stays.
        unknown: No landing is recorded with it; of another database, or a person's: stays.
    """

    old: list[Ref] = field(default_factory=list)
    undecided: list[Ref] = field(default_factory=list)
    unknown: list[Ref] = field(default_factory=list)


def find(repo: Git, db: Store, before: datetime) -> LandedTips:
    """Sort the old refs of landed commits by what may happen to them.

    Args:
        before: A commit that landed, or was lost, after this instant stays.

    Raises:
        GitFailed: The repository could not be read.
    """
    tips, ours = LandedTips(), dict[str, list[MergeRow]]()
    for target in db.read(landed.targets):
        with db.reading() as conn:
            ours[kept.folder(target)] = landed.on(conn, target)
    for ref in refs.listing(repo, kept.PREFIX):
        state, _, rest = ref.name.removeprefix(kept.PREFIX).partition("/")
        rows = ours.get(rest.partition("/")[0], [])
        aside = kept.parse(ref)
        if state == kept.TIPS:
            is_old = all(str(row["finished_at"]) < iso(before) for row in rows)
        else:
            is_old = aside is None or aside.at < before
        if not is_old:
            continue
        if state == kept.LOST and aside is not None and rows:
            tips.undecided.append(ref)
        elif _is_recorded(repo, ref.sha, rows) and (
            aside or (state == kept.TIPS and kept.is_on_a_branch(repo, ref.sha))
        ):
            tips.old.append(ref)
        else:
            tips.unknown.append(ref)
    return tips


def _is_recorded(repo: Git, sha: str, rows: list[MergeRow]) -> bool:
    """Whether a commit is one with which something landed, or has one of those in its history."""
    commits = {str(row["landed_sha"]) for row in rows}
    return sha in commits or not commits.isdisjoint(repo.must("rev-list", sha).split() if commits else ())
