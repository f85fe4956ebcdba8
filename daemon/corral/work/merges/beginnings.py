"""Where a request's own work begins, where git does not know: on others' work, or on what landed under another name."""

from __future__ import annotations

from corral.git import refs
from corral.git.land import candidates
from corral.git.process.command import Git
from corral.store.protocol import Store
from corral.store.rows.merges import MergeRow
from corral.work.merges.store import landed, stacks


def landed_at(db: Store, repo: Git, merge: MergeRow, on_sha: str) -> str | None:
    """A commit of the branch that another commit has under another name, so that what is left of the branch begins there.

    Merged by what both sides have in common as commits, a squashed branch that went on would meet its own changes.

    Args:
        on_sha: A tip of the request's target, or what it is built upon.
    """
    head, target = merge["head_sha"], merge["target"]
    if not db.read(lambda conn: landed.has_other_shapes(conn, target)):
        return None
    commits = repo.must("rev-list", f"--max-count={candidates.MOST_REPLAYED}", head, f"^{on_sha}").split()
    rows = db.read(lambda conn: landed.in_other_shapes(conn, target, commits))
    others = {row["head_sha"]: row["candidate_sha"] for row in rows if row["merge_id"] != merge["merge_id"]}
    for sha in commits:
        # One that the branch has merged meanwhile is in the history of both.
        if (other := others.get(sha)) is not None and refs.is_ancestor(repo, other, on_sha):
            return None if refs.is_ancestor(repo, other, head) else sha
    return None


def bases(db: Store, repo: Git, merge: MergeRow, tip: str) -> list[str]:
    """The commits that count, beside what both have in common, as bases of a merge of a request with its target's tip."""
    begun, own = db.read(lambda conn: stacks.begun(conn, merge["branch"])), landed_at(db, repo, merge, tip)
    heads = [*((begun["stacked_on"] or {}).values() if begun is not None else ()), *([own] if own else [])]
    return [sha for sha in dict.fromkeys(heads) if _is_below(repo, sha, merge, tip)]


def own_from(db: Store, repo: Git, merge: MergeRow, tip: str) -> str | None:
    """The commit since which the changes of a branch are its own; None: its target's tip does not even have its history.

    Args:
        tip: Of its target.
    """
    begun, own = db.read(lambda conn: stacks.begun(conn, merge["branch"])), landed_at(db, repo, merge, tip)
    below = [sha for sha in (begun and begun["base_sha"], own) if sha is not None and _is_below(repo, sha, merge, tip)]
    if len(below) > 1 and refs.is_ancestor(repo, below[1], below[0]):
        below.reverse()
    return below[-1] if below else refs.merge_base(repo, tip, merge["head_sha"])


def _is_below(repo: Git, sha: str, merge: MergeRow, tip: str) -> bool:
    return (
        refs.exists(repo, sha)
        and refs.is_ancestor(repo, sha, merge["head_sha"])
        and not refs.is_ancestor(repo, sha, tip)
    )
