"""Where a target's next candidate begins, with and without a remote.

With a remote its target is the truth: candidates are built upon what was fetched of it. Commits that only the target here has (a
person's own) are built upon too, and pushed with what lands next, which is said before and after.
Where each side has commits that the other has not, both are merged first, and the candidate begins there.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from corral.core.instants import UTC
from corral.core.remedies import with_remedy
from corral.core.visible import one_line
from corral.git import refs
from corral.git.commits import effective
from corral.git.land import candidates, upstream
from corral.git.process.command import Git
from corral.store.rows.merges import Intent

_MOST_NAMED = 5


@dataclass(frozen=True)
class Place:
    """Where a chain begins, and where it goes.

    Attributes:
        tip: The commit that it is built upon.
        ref: At the commit whose settings count.
        local_sha: Where the target is here.
        remote: That it is pushed to first; empty: none.
        remote_sha: Where the target is there.
        branches_to: The remote that the branches of landed tasks are published on; empty: none.
        ahead: Commits that the target has here and not there.
        trouble: Why nothing can be pushed now; verifications go on meanwhile.
    """

    tip: str
    ref: str
    local_sha: str
    remote: str = ""
    remote_sha: str = ""
    branches_to: str = ""
    ahead: int = 0
    trouble: str = ""

    @property
    def sides(self) -> tuple[str, ...]:
        """The two commits that the tip joins; none where it is one of them."""
        ends = (self.remote_sha, self.local_sha)
        return ends if self.remote and self.tip not in ends else ()


@dataclass(frozen=True)
class Waits:
    """Nothing can be built now; without a reason the remote is just being asked."""

    reason: str = ""


def find(repo: Git, target: str, remote: str, local_sha: str, seen_sha: str, known_sha: str | None) -> Place | Waits:
    """Where to begin on a target that was fetched.

    Args:
        target: Short name.
        seen_sha: Where it is on its remote.
        known_sha: Where it was there when it was last built upon.
    """
    ref = refs.branch_ref(target)
    if lost := _lost(repo, local_sha, seen_sha, known_sha):
        reason = (
            f"{target} of {remote} was rewound: it is at {seen_sha[:12]} and lacks {lost[:12]}, which {target} has here"
        )
        remedy = (
            f"Bring it back: git push {remote} {lost}:{ref}. Or take it off here too: git reset --keep {seen_sha[:12]}"
        )
        return Waits(with_remedy(reason, remedy))
    if refs.is_ancestor(repo, local_sha, seen_sha):
        return Place(seen_sha, upstream.seen_ref(target), local_sha, remote, seen_sha)
    ahead = int(repo.must("rev-list", "--count", local_sha, f"^{seen_sha}"))
    if refs.is_ancestor(repo, seen_sha, local_sha):
        return Place(local_sha, ref, local_sha, remote, seen_sha, ahead=ahead)
    joined = _join(repo, target, remote, local_sha, seen_sha)
    if isinstance(joined, Waits):
        return joined
    return Place(joined, upstream.joined_ref(target), local_sha, remote, seen_sha, ahead=ahead)


def _lost(repo: Git, local_sha: str, seen_sha: str, known_sha: str | None) -> str:
    """A commit that the remote's target has lost, and that would come back with the one here."""
    if known_sha in (None, seen_sha) or not refs.exists(repo, str(known_sha)):
        return ""
    shared = refs.merge_base(repo, str(known_sha), local_sha)
    return "" if shared is None or refs.is_ancestor(repo, shared, seen_sha) else shared


def _join(repo: Git, target: str, remote: str, local_sha: str, seen_sha: str) -> str | Waits:
    """Merge both sides; the same commit for the same two, so that nothing is built again after a start."""
    newest = max(int(repo.must("show", "-s", "--format=%ct", sha)) for sha in (local_sha, seen_sha))
    message = f"Merge {target} of {remote} with commits made here\n"
    built = candidates.build(
        repo, seen_sha, local_sha, message, effective(repo, None), datetime.fromtimestamp(newest, UTC)
    )
    if isinstance(built, candidates.Candidate):
        if refs.read(repo, joined_ref := upstream.joined_ref(target)) != built.sha:
            repo.check("update-ref", joined_ref, built.sha)
        return built.sha
    paths = ", ".join(f"{item.path} ({item.kind})" for item in built.paths[:_MOST_NAMED]) if built is not None else ""
    reason = f"{target} here and on {remote} have conflicting commits: {paths}"
    return Waits(with_remedy(reason, f"Merge them in your checkout: git pull --no-rebase {remote} {target}"))


def went_along(repo: Git, intent: Intent) -> str:
    """The commits that a push brought beside its requests, in a sentence; empty: none."""
    commits = repo.must("log", "--format=%h %s", str(intent["old_sha"]), f"^{intent['remote_sha']}").splitlines()
    if not commits:
        return ""
    named = ", ".join(one_line(line)[:80] for line in commits[:_MOST_NAMED])
    more = f" and {len(commits) - _MOST_NAMED} more" if len(commits) > _MOST_NAMED else ""
    return f"With it {intent['remote']} got commits of {intent['target']} that it did not have: {named}{more}."
