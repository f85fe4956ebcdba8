"""Merge the lines of three versions of a file, as git does."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from corral.git.process.command import Git

_MOST_CONFLICTS = 127


@dataclass(frozen=True)
class TextMerge:
    """The result of a merge of lines; ``conflicts`` is None if it is no text."""

    data: bytes
    conflicts: int | None


def merge_text(git: Git, base: bytes, mine: bytes, theirs: bytes) -> TextMerge:
    """Merge; places that both sides changed are marked.

    Raises:
        GitFailed: Git cannot do it.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("mine", "base", "theirs")]
        for file, data in zip(files, (mine, base, theirs), strict=True):
            file.write_bytes(data)
        labels = ("-L", "yours", "-L", "as installed", "-L", "new version")
        result = git.run("merge-file", "-p", "--diff3", *labels, *map(str, files))
    if 0 <= result.rc <= _MOST_CONFLICTS:
        return TextMerge(result.stdout, result.rc)
    if "binary" in result.stderr:
        return TextMerge(mine, None)
    raise result.failure()
