"""What a clone brings with it is not believed: a database, a socket or a log that git tracks is somebody else's."""

from __future__ import annotations

from fnmatch import fnmatchcase

from corral.errors import Unsupported
from corral.git.command import Git

LOCAL = ("corral.db*", "run", "logs", "local.yaml", "metadata.json", "worktrees")
"""What stands in ``.corral/`` belongs to one clone on one machine where it is called so."""


def refuse_what_a_clone_brought(git: Git) -> None:
    """Insist that nothing of a clone's own is tracked.

    A database that came by a clone names tasks whose commands would be run, ``run/`` a program, ``local.yaml`` settings.

    Raises:
        Unsupported: Git tracks such a path, or ``.corral`` itself as a link or a file.
    """
    tracked = git.must("ls-files", "-z", "--", ":(icase).corral").split("\0")
    found = [path for path in tracked if path and _is_local(path)]
    if not found:
        return
    named = " ".join(found[:5]) + (" …" if len(found) > 5 else "")
    raise Unsupported(
        f"Git tracks what must belong to this clone alone: {named}",
        cause="It came with the clone, or was added with `git add --force`; whoever made it could have commands run here.",
        remedy="Take it out, unread: `git rm -r -- PATH`, and commit. If this very clone made it, with `--cached`.",
    )


def _is_local(path: str) -> bool:
    """Whether that path, on a file system that ignores case too, is one of :data:`LOCAL` or ``.corral`` itself."""
    _, _, below = path.casefold().partition("/")
    return not below or any(fnmatchcase(below.partition("/")[0], pattern) for pattern in LOCAL)
