"""Which folder stands at a path, told by the file system and not by its name. Standard library only."""

from __future__ import annotations

from pathlib import Path


def folder_id(folder: Path) -> str:
    """What tells a folder from every other that exists now, whatever it is called: ``device:inode``, links not followed.

    Raises:
        OSError: Nothing stands there.
    """
    found = folder.lstat()
    return f"{found.st_dev}:{found.st_ino}"


def repository_has_left(git_dir: Path, known: str) -> bool:
    """Whether a repository is at its place no more: moved, replaced, deleted or being deleted; not where that cannot be told.

    Args:
        known: The :func:`folder_id` of its git directory.
    """
    try:
        found = folder_id(git_dir)
        (git_dir / "HEAD").lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return found != known
