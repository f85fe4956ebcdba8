"""Identify a folder by its inode, not by its name. Standard library only."""

from __future__ import annotations

from pathlib import Path


def folder_id(folder: Path) -> str:
    """Identify an existing folder independent of its name: ``device:inode``, links not followed.

    Raises:
        OSError: Nothing exists there.
    """
    status = folder.lstat()
    return f"{status.st_dev}:{status.st_ino}"


def repository_has_left(git_dir: Path, recorded: str) -> bool:
    """Whether a repository was moved, replaced or deleted; False if that cannot be determined.

    Args:
        recorded: The :func:`folder_id` of its git directory.
    """
    try:
        current = folder_id(git_dir)
        (git_dir / "HEAD").lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return current != recorded
