"""Full volumes: the evidence that a failure was the machine's. Standard library only."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from corral.core.errors import CorralError, DatabaseUnavailable

FULL_BYTES = 1 << 20
"""A volume with less room than this for a user is full: the last write failed or will."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_VOLUME_FULL = re.compile(r"No space left on device|Disk quota exceeded")


def is_full(path: Path) -> bool:
    """Whether the volume of a folder has no room left, or no more files to give."""
    try:
        volume = os.statvfs(path)
    except OSError:
        return False
    return volume.f_bavail * volume.f_frsize < FULL_BYTES or (volume.f_files > 0 and volume.f_favail == 0)


def met_the_end(error: BaseException) -> bool:
    """Whether a full volume caused an error: by its errno, or by git's message in the C locale."""
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, OSError) and link.errno in _FULL:
            return True
        if isinstance(link, CorralError) and _VOLUME_FULL.search(
            f"{link.message} {link.cause} {link.details.get('stderr', '')}"
        ):
            return True
        link = link.__cause__ if link.__cause__ is not link else None
    return False


def no_room(what: str) -> DatabaseUnavailable:
    """The error of what failed because a volume is full."""
    return DatabaseUnavailable(
        what, cause="The disk is full.", remedy="Free some space and try again; nothing was lost."
    )
