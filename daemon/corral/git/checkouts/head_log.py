"""The log of a worktree's HEAD: which commits it was at, and how it came there."""

from __future__ import annotations

import re
from typing import NamedTuple

from corral.git import refs
from corral.git.process.command import OID, Git

_GONE_TO = re.compile(r"checkout: moving from \S+ to (\S+)")
_ROOT = "commit (initial)"

_MADE = re.compile(
    r"commit\b|cherry-pick\b|revert\b|am\b|rebase (?:\(-?i?\) )?\((?:pick|squash|fixup|reword|edit|continue)\)"
    r"|merge [^:]*: Merge made by|pull\b[^:]*: Merge made by"
)


class Step(NamedTuple):
    """HEAD was moved to a commit, and what git said of that."""

    sha: str
    said: str

    @property
    def is_made(self) -> bool:
        """Whether the commit was made by that step, and not only gone to."""
        return _MADE.match(self.said) is not None


def steps(checkout: Git) -> list[Step]:
    """The steps of HEAD, the oldest first; read from the file, which tells also where HEAD's branch is gone."""
    try:
        data = (checkout.git_dir / "logs" / "HEAD").read_bytes()
    except OSError:  # not kept, or not in a file
        result = checkout.run("log", "--walk-reflogs", "--format=%H %gs", "HEAD")
        lines = result.text.splitlines() if result.ok else []
        return [Step(sha, said) for sha, _, said in (line.partition(" ") for line in reversed(lines))]
    found = []
    for line in data.decode("utf-8", "replace").split("\n"):
        moved, _, said = line.partition("\t")
        fields = moved.split(" ")
        if len(fields) > 1 and OID.fullmatch(fields[1]):
            found.append(Step(fields[1], said))
    return found


def restore(checkout: Git, own: str | None) -> bool:
    """Where HEAD's branch was deleted under a worktree: take HEAD off it, to the last commit that it was at.

    No file, no index and no branch changes. An unborn branch that HEAD was never at is somebody's beginning, and left alone.

    Args:
        own: The full ref that the worktree was made with; None: none.

    Returns:
        Whether HEAD was restored.

    Raises:
        GitFailed: Git refused.
    """
    branch = checkout.branch()
    if branch is None or checkout.head():
        return False
    found = steps(checkout)
    gone_to = next((match[1] for step in reversed(found) if (match := _GONE_TO.match(step.said))), None)
    if branch != own and branch.removeprefix("refs/heads/") != gone_to:
        return False
    last = next((step.sha for step in reversed(found) if refs.exists(checkout, step.sha)), None)
    if last is None:
        return False
    checkout.must("update-ref", "--no-deref", "-m", "corral: its branch was deleted", "HEAD", last)
    return True


def before_root(checkout: Git, head: str) -> str | None:
    """The commit that HEAD was at before a commit without a parent was made, from which ``head`` comes.

    Git makes such a commit where the branch of a worktree was deleted: it has all files, and none of the history.
    """
    found = steps(checkout)
    for before, step in zip(reversed(found[:-1]), reversed(found[1:]), strict=True):
        if (
            step.said.startswith(_ROOT)
            and refs.exists(checkout, step.sha)
            and refs.is_ancestor(checkout, step.sha, head)
        ):
            return before.sha if refs.exists(checkout, before.sha) else None
    return None
