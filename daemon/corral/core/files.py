"""Put a whole file in place at once, and what was written on its disk. Standard library only."""

from __future__ import annotations

import os
from pathlib import Path


def replace(file: Path, data: bytes, *, mode: int = 0o666, durable: bool = False) -> None:
    """Write a file as a new one that is renamed, so that nobody reads a part of it, and no link in its place is followed.

    Args:
        mode: Of the new file, but for what the process's umask takes away.
        durable: Whether its content is on the disk when it gets its name.

    Raises:
        OSError: It cannot be written; what was there stays.
    """
    partial = file.with_name(f"{file.name}.corral-new")
    partial.unlink(missing_ok=True)  # of a process that was killed
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            if durable:
                stream.flush()
                os.fsync(descriptor)
        partial.replace(file)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def settle(*paths: Path) -> None:
    """Wait until what was written in these files is on their disk.

    Raises:
        OSError: It cannot be written there.
    """
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def flush(folder: Path) -> None:
    """Wait until all that was written so far to the file system of a folder is on its disk, whoever wrote it.

    Raises:
        OSError: It cannot be written there.
    """
    import ctypes  # clients never come here

    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        os.sync()
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(descriptor)
