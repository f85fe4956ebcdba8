"""The shape in which a request lands, and what its commit says (`landing.style`, `landing.message`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from corral.config.sections.sharing import Landing
from corral.config.sections.values import filled
from corral.core.errors import Unsupported
from corral.git import history, refs
from corral.git.land import candidates
from corral.git.land.candidates import Behind, Candidate, Conflicted
from corral.git.process.command import Git, Identity
from corral.store.protocol import Store
from corral.store.rows.merges import MergeRow
from corral.work.merges.store import landed

MOST_NAMED = 100
"""Commits that a message lists, and whose authors it names."""

_TRAILER = re.compile(r"[A-Za-z0-9-]+: .*")
_USUAL = {"squash": "{title}\n\n{commits}", "rebase": "{title}\n\n{commits}"}
_USUAL_OF_A_MERGE = "Merge {branch}: {title}"


def build(
    db: Store,
    repo: Git,
    landing: Landing,
    merge: MergeRow,
    on_sha: str,
    tip_sha: str,
    identity: Identity,
    at: datetime,
    begun_on: Sequence[str] = (),
    plain: set[str] | None = None,
) -> Candidate | Conflicted | None:
    """The candidate of a request upon a commit, in the shape that its target wants; None: nothing of it is missing there.

    Args:
        on_sha: The target's tip, or another request's candidate.
        tip_sha: The target's tip.
        begun_on: See :func:`corral.git.land.candidates.build`, as for ``plain``.

    Raises:
        Unsupported: It cannot land in that shape, nor could it upon any other commit.
        GitFailed: It could not be tried.
    """
    head, own = merge["head_sha"], _begins_at(db, repo, merge, on_sha)
    below = [*begun_on, *([own] if own else [])]
    if landing.style != "merge" and db.read(lambda conn: landed.is_landed_commit(conn, merge["target"], head)):
        landing = landing.model_copy(update={"style": "merge"})  # what a target lost comes back as it was
    text = message(landing, merge, _own_commits(repo, landing, head, [on_sha, *below]))
    built = candidates.build(repo, on_sha, head, text, identity, at, style=landing.style, begun_on=below, plain=plain)
    if not isinstance(built, Behind) or on_sha != tip_sha:
        return built
    raise Unsupported(
        f"{merge['target']} has commits that {merge['branch']} has not, and takes fast-forwards only.",
        remedy=f"Bring it up to date (`git merge {merge['target']}`, or `git rebase {merge['target']}`) and submit it again.",
    )


def message(landing: Landing, merge: MergeRow, commits: Sequence[history.Written] = ()) -> str:
    """The message of the commit that is made for a request: whose work it is, and the ids that lead back to it.

    Args:
        commits: The branch's own, oldest first, where they do not themselves land.
    """
    template = (landing.message or _USUAL.get(landing.style, _USUAL_OF_A_MERGE)).strip()
    values = {
        "title": " ".join(merge["title"].split()), "branch": merge["branch"], "target": merge["target"],
        "task": merge["task_id"] or "", "merge": merge["merge_id"],
        "commits": "\n".join(f"* {commit.subject}" for commit in commits),
    }  # fmt: skip
    others = dict.fromkeys(commit.author for commit in commits if commit.author != commits[-1].author)
    trailers = [f"Co-authored-by: {author}" for author in others]
    trailers += [f"Corral-Task: {merge['task_id']}"] if merge["task_id"] else []
    trailers += [f"Corral-Merge: {merge['merge_id']}"]
    # Judged by the template: what stands in a title is no trailer, whatever it looks like.
    *before, last = template.split("\n\n")
    goes_on = bool(before) and all(_TRAILER.fullmatch(line) for line in last.split("\n"))
    return "\n".join([filled(template, values).strip(), *([] if goes_on else [""]), *trailers, ""])


def _own_commits(repo: Git, landing: Landing, head: str, without: Sequence[str]) -> list[history.Written]:
    if landing.style not in landed.RESHAPING and "{commits}" not in (landing.message or ""):
        return []
    return history.written_between(repo, without, head, limit=MOST_NAMED)


def _begins_at(db: Store, repo: Git, merge: MergeRow, on_sha: str) -> str | None:
    """A commit of the branch that what it is built upon has under another name, so that what is left of the branch begins there.

    Merged by what both sides have in common as commits, a squashed branch that went on would meet its own changes.
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
