"""The log of a worktree's HEAD: which commits it was at, and how it came there."""

from __future__ import annotations

import re
from typing import NamedTuple

from corral.git import refs
from corral.git.process.command import OID, Git

_GONE_TO = re.compile(r"checkout: moving from \S+ to (\S+)")
_ROOT = "commit (initial)"

_CREATES = re.compile(
    r"commit\b|cherry-pick\b|revert\b|am\b|rebase (?:\(-?i?\) )?\((?:pick|squash|fixup|reword|edit|continue)\)"
    r"|merge [^:]*: Merge made by|pull\b[^:]*: Merge made by"
)


class Step(NamedTuple):
    """A move of HEAD to a commit, with git's message."""

    sha: str
    message: str

    @property
    def is_made(self) -> bool:
        """Whether that step created the commit; otherwise HEAD only went to it."""
        return _CREATES.match(self.message) is not None


def steps(git: Git, ref: str = "HEAD") -> list[Step]:
    """The steps of HEAD, or of a full ref, the oldest first; read from the file, which tells also where HEAD's branch is gone."""
    try:
        data = ((git.git_dir if ref == "HEAD" else git.common_dir) / "logs" / ref).read_bytes()
    except OSError:  # not kept, or not in a file
        result = git.run("log", "--walk-reflogs", "--format=%H %gs", ref)
        lines = result.text.splitlines() if result.ok else []
        return [Step(sha, message) for sha, _, message in (line.partition(" ") for line in reversed(lines))]
    moves = []
    for line in data.decode("utf-8", "replace").split("\n"):
        shas, _, message = line.partition("\t")
        fields = shas.split(" ")
        if len(fields) > 1 and OID.fullmatch(fields[1]):
            moves.append(Step(fields[1], message))
    return moves


def restore(checkout: Git, own: str | None) -> bool:
    """If HEAD's branch was deleted under a worktree: detach HEAD at the last commit that it was at.

    No file, no index and no branch changes. An unborn branch that HEAD was never at is somebody's new branch, and stays.

    Args:
        own: The full ref that the worktree was created with; None: none.

    Returns:
        Whether HEAD was restored.

    Raises:
        GitFailed: Git refused.
    """
    branch = checkout.branch()
    if branch is None or checkout.head():
        return False
    moves = steps(checkout)
    gone_to = next((match[1] for step in reversed(moves) if (match := _GONE_TO.match(step.message))), None)
    if branch != own and branch.removeprefix("refs/heads/") != gone_to:
        return False
    last = next((step.sha for step in reversed(moves) if refs.exists(checkout, step.sha)), None)
    if last is None:
        return False
    checkout.must("update-ref", "--no-deref", "-m", "corral: its branch was deleted", "HEAD", last)
    return True


def before_root(checkout: Git, head: str) -> str | None:
    """The commit that HEAD was at before somebody created a commit without a parent, from which ``head`` descends.

    Git creates such a commit if the branch of a worktree was deleted: it has all files, and none of the history.
    """
    moves = steps(checkout)
    for before, step in zip(reversed(moves[:-1]), reversed(moves[1:]), strict=True):
        if (
            step.message.startswith(_ROOT)
            and refs.exists(checkout, step.sha)
            and refs.is_ancestor(checkout, step.sha, head)
        ):
            return before.sha if refs.exists(checkout, before.sha) else None
    return None
