"""Files that come with a clone are not trusted: a database, a socket or a log that git tracks is somebody else's."""

from __future__ import annotations

from fnmatch import fnmatchcase

from corral.core.errors import Unsupported
from corral.git.process.command import Git

LOCAL = ("corral.db*", "run", "logs", "local.yaml", "metadata.json", "verify", "worktrees")
"""Names in ``.corral/`` of files that belong to one clone on one machine."""


def refuse_what_a_clone_brought(git: Git) -> None:
    """Refuse a repository in which git tracks files that belong to one clone.

    A database that came by a clone names tasks whose commands would be run, ``run/`` a program, ``local.yaml`` settings.

    Raises:
        Unsupported: Git tracks such a path, or ``.corral`` itself as a link or a file.
        GitFailed: Neither the index nor the commit that is checked out can be read.
    """
    result = git.run("ls-files", "-z", "--", ":(icase).corral")
    if not result.ok:  # a damaged index blocks landings there, and not the daemon
        committed = git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", "HEAD")
        if not committed.ok:
            raise result.failure()
        result = committed
    tracked = result.text.strip("\0").split("\0")
    local_paths = [path for path in tracked if path and _is_local(path)]
    if not local_paths:
        return
    shown = " ".join(local_paths[:5]) + (" …" if len(local_paths) > 5 else "")
    raise Unsupported(
        f"Git tracks what must belong to this clone alone: {shown}",
        cause="It came with the clone, or was added with `git add --force`; its author could run commands here.",
        remedy="Take it out, unread: `git rm -r -- PATH`, and commit. If this very clone made it, with `--cached`.",
    )


def _is_local(path: str) -> bool:
    """Whether that path, on a file system that ignores case too, is one of :data:`LOCAL` or ``.corral`` itself."""
    top, _, below = path.casefold().partition("/")
    return top == ".corral" and (not below or any(fnmatchcase(below.partition("/")[0], pattern) for pattern in LOCAL))
