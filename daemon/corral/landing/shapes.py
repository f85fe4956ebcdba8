"""The shape in which a request lands, and what its commit says (`landing.style`, `landing.message`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from corral.config.sections.sharing import Landing
from corral.config.sections.values import filled
from corral.core.errors import Unsupported
from corral.core.remedies import with_remedy
from corral.git import history
from corral.git.land import candidates
from corral.git.land.candidates import Aborted, Behind, Candidate, Conflicted
from corral.git.process.command import Git, Identity
from corral.store.protocol import Store
from corral.store.rows.merges import MergeRow
from corral.work.merges import diffs
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
        Unsupported: It cannot land in that shape, upon whatever commit.
        GitFailed: It could not be tried.
    """
    head, own = merge["head_sha"], diffs.landed_at(db, repo, merge, on_sha)
    left = diffs.left_at(db, repo, merge, on_sha)
    below = [*begun_on, *(sha for sha in (own, left) if sha)]
    if left is not None and landing.style == "merge":
        landing = landing.model_copy(update={"style": "squash"})  # its history is one that the target was taken off
    if landing.style != "merge" and db.read(landed.is_landed_commit, merge["target"], head):
        landing = landing.model_copy(update={"style": "merge"})  # what a target lost comes back as it was
    text = message(landing, merge, _own_commits(repo, landing, head, [on_sha, *below]))
    built = candidates.build(repo, on_sha, head, text, identity, at, style=landing.style, begun_on=below, plain=plain)
    if not isinstance(built, Behind | Aborted) or on_sha != tip_sha:
        return built
    if isinstance(built, Aborted):
        raise Unsupported(
            f"Git fails when it merges {merge['branch']} and {merge['target']}: {built.in_words}",
            cause="A fault of git's own.",
            remedy=f"Bring it up to date in another way (`git rebase {merge['target']}`, or `git merge -s resolve "
            f"{merge['target']}`) and submit it again. A newer git may be able to merge it.",
        )
    reason = f"{merge['target']} takes fast-forwards only, and has commits that {merge['branch']} has not."
    remedy = (
        f"Bring it up to date (`git merge {merge['target']}`, or `git rebase {merge['target']}`) and submit it again."
    )
    return replace(built, text=with_remedy(reason, remedy))


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
