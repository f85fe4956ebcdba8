"""Write Corral's files into a repository all at once or not at all, and restore the previous contents."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from corral.config.paths import Project
from corral.errors import InvalidInput


def write(project: Project, contents: dict[Path, bytes]) -> None:
    """Write all files, or leave everything as it was."""
    fresh = not project.home.exists()
    before: dict[Path, bytes | None] = {}
    try:
        for folder in (project.home, project.run_dir, project.logs_dir, project.database.parent):
            folder.mkdir(mode=0o755 if folder == project.home else 0o700, parents=True, exist_ok=True)
        for file, content in contents.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            before[file] = file.read_bytes() if file.exists() else None
            replace_file(file, content)
    except OSError as error:
        for file, content_before in before.items():
            with contextlib.suppress(OSError):
                give_back(file, content_before)
        if fresh:
            shutil.rmtree(project.home, ignore_errors=True)
        raise InvalidInput(
            f"Cannot write {error.filename or project.home}.",
            cause=str(error.strerror),
            remedy="Make it writable, or free space, and run `corral init` again; nothing was changed.",
        ) from error


def replace_file(file: Path, content: bytes) -> None:
    """Write a temporary file and rename it into place; a symlink's target is replaced, not the link."""
    target = Path(os.path.realpath(file))
    partial = target.with_name(f".{target.name}.corral-new")
    try:
        partial.write_bytes(content)
        if target.exists():
            shutil.copymode(target, partial)
        partial.replace(target)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def give_back(file: Path, content: bytes | None) -> None:
    """Restore a file's content; None deletes the file, and folders that are empty then."""
    if content is not None:
        if file.exists() and file.read_bytes() != content:
            replace_file(file, content)
        return
    if not file.is_symlink():
        file.unlink(missing_ok=True)
    for folder in file.parents:
        if not folder.is_dir() or any(folder.iterdir()):
            break
        folder.rmdir()
