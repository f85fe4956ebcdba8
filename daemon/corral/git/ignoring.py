"""Whether git tracks or ignores a file of a checkout."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from corral.git.process.command import Git, open_checkout


def is_tracked(path: Path) -> bool | None:
    """Whether git tracks a file in the top folder of a checkout; None if it neither tracks nor ignores it.

    Raises:
        GitFailed: Git cannot tell.
        NotAProject: The folder is not the top of a checkout.
    """
    git = open_checkout(path.parent)
    # Without regard to case: where the file system ignores it, the file has every spelling of its name.
    if git.check("ls-files", "-z", "--", f":(icase,literal,top){path.name}").names:
        return True
    return False if git.run("check-ignore", "--quiet", "--", path.name).ok else None


def ignored(checkout: Git, paths: Iterable[str]) -> set[str]:
    """Those of some repository-relative paths that git ignores in a checkout; a tracked one is none of them.

    Raises:
        GitFailed: Git could not tell.
    """
    checked = checkout.run("check-ignore", "-z", "--stdin", input=os.fsencode("\0".join(paths)))
    if checked.rc > 1 or checked.rc < 0:
        raise checked.failure()
    return set(checked.names)
