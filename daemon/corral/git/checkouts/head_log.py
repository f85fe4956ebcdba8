"""The log of a worktree's HEAD: which commits it was at, and how it came there."""

from __future__ import annotations

import re
from typing import NamedTuple

from corral.git.process.command import OID, Git

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
