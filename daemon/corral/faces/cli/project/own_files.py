"""Write Corral's files into a repository all at once or not at all, and restore the previous contents.

When Corral is removed, its own files in ``.corral`` go, and a person's stay.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from corral.config.links import OWN_FOLDERS, refuse_links
from corral.config.paths import Project
from corral.core.errors import InvalidInput
from corral.git.process.command import open_repository
from corral.work.templates.project.lock import Lock, change_of

_OWN_FILES = (".gitignore", "metadata.json", "template.lock")
_OWN_BEGINNINGS = ("corral.db", "template-change", "template-backups")
_EXPORTS = ("analytics", "evidence")
_EXPORT_BEGINNINGS = ("supervisor_leases.jsonl", ".roadmap-")
"""What Corral writes into ``state/``, where a person may have other files."""
_PARTIAL = ".corral-new"
_ROADMAP = "state/roadmap.yaml"
_SETTINGS = ("config.yaml", "teams.yaml", "local.yaml", _ROADMAP)
_TEMPLATES = "templates"
_STAY = (_TEMPLATES, "template.lock", "teams.yaml", "local.yaml")


def write(project: Project, contents: dict[Path, bytes]) -> None:
    """Write all files, or leave everything as it was."""
    fresh = not project.home.exists()
    before: dict[Path, bytes | None] = {}
    try:
        for folder in (project.home, project.run_dir, project.logs_dir, project.database.parent):
            folder.mkdir(mode=0o755 if folder == project.home else 0o700, parents=True, exist_ok=True)
        for file, content in contents.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            before[file] = content_of(file)
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


def content_of(file: Path) -> bytes | None:
    """The content of a file; None if there is none."""
    return file.read_bytes() if file.exists() else None


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
    """Restore a file's content; None deletes the file, and folders that are empty then; a link stays."""
    if content is not None:
        if file.exists() and file.read_bytes() != content:
            replace_file(file, content)
        return
    if not file.is_symlink():
        file.unlink(missing_ok=True)
    for folder in file.parents:
        if folder.is_symlink() or not folder.is_dir() or any(folder.iterdir()):
            break
        folder.rmdir()


def kept_at_home(project: Project, lock: Lock | None) -> dict[str, str]:
    """The files of a person in ``.corral``: by path from the project's root, why each stays.

    A task template stays if the project's template has another one, or none of that name; settings stay if nothing else
    has their content: neither the project's template nor the last commit. Files that Corral did not make stay too.
    """
    reasons = {}
    for name in _SETTINGS:
        path, file = _path(project, name), project.home / name
        if file.is_file() and not _is_as_installed(file, path, lock) and not _is_committed(project, file, path):
            reasons[path] = "you changed it, and no commit has it"
    for file in sorted((project.home / _TEMPLATES).rglob("*")):
        path = _path(project, file.relative_to(project.home).as_posix())
        if (file.is_file() or file.is_symlink()) and not _is_as_installed(file, path, lock):
            reasons[path] = "you changed it" if lock is not None and path in lock.files else "it is yours"
    state = project.home / "state"
    inside = [entry for entry in state.iterdir() if not _is_export(entry.name)] if state.is_dir() else []
    unknown = [entry for entry in project.home.iterdir() if not _is_known(entry.name) and not _is_empty(entry)]
    for entry in sorted([*unknown, *inside]):
        if (path := _path(project, entry.relative_to(project.home).as_posix())) == _path(project, _ROADMAP):
            continue  # one of the settings
        earlier = entry.name.startswith(_aside(project).name)
        reasons[path] = "an earlier removal kept it" if earlier else "Corral did not make it"
    return reasons


def clear_home(project: Project, staying: Mapping[str, str]) -> dict[str, str]:
    """Delete ``.corral`` but for the files that stay; settings that stay get another name, since they mark a prepared repository.

    Args:
        staying: As :func:`kept_at_home` found them.

    Returns:
        The files that stay, by their present path, with the reason.

    Raises:
        FolderLinked: ``.corral`` is a symbolic link.
    """
    refuse_links(project.home, project.root)
    left = dict(staying)
    config = _path(project, project.config_file.name)
    if config in left:
        aside = _free_name(_aside(project))
        project.config_file.rename(aside)
        reason = left.pop(config)
        left[_path(project, aside.name)] = f"{config} until now; {reason}"
    _clear(project.home, {project.root / path for path in left})
    return left


def is_cleared(project: Project) -> bool:
    """Whether nothing of Corral's is left in ``.corral``, which may still have files of a person."""
    left = [entry for entry in project.home.iterdir() if _is_known(entry.name) and entry.name not in _STAY]
    return all(entry.name == "state" and not any(_is_export(file.name) for file in entry.iterdir()) for entry in left)


def _clear(folder: Path, staying: set[Path]) -> None:
    for entry in folder.iterdir():
        if entry in staying:
            continue
        if entry.is_symlink() or not entry.is_dir():
            entry.unlink()
        elif any(path.is_relative_to(entry) for path in staying):
            _clear(entry, staying)
        else:
            shutil.rmtree(entry)
    if not any(folder.iterdir()):
        folder.rmdir()


def _is_known(name: str) -> bool:
    folders = {*OWN_FOLDERS, _TEMPLATES, *(path.split("/")[0] for path in _SETTINGS)}
    return name in {*folders, *_OWN_FILES} or name.startswith(_OWN_BEGINNINGS) or name.endswith(_PARTIAL)


def _is_export(name: str) -> bool:
    """Whether Corral wrote this into ``state/``."""
    return name in _EXPORTS or name.startswith(_EXPORT_BEGINNINGS)


def _is_empty(entry: Path) -> bool:
    return not entry.is_symlink() and entry.is_dir() and not any(entry.iterdir())


def _is_as_installed(file: Path, path: str, lock: Lock | None) -> bool:
    if file.is_symlink() or lock is None or path not in lock.files or path in lock.had:
        return False
    return change_of(file, lock.files[path]) == "unchanged"


def _is_committed(project: Project, file: Path, path: str) -> bool:
    if project.bare:
        return False
    blob = open_repository(project.common_dir).run("cat-file", "blob", f"HEAD:{path}")
    return blob.ok and blob.stdout == file.read_bytes()


def _aside(project: Project) -> Path:
    return project.config_file.with_name(f"{project.config_file.name}.kept")


def _free_name(file: Path) -> Path:
    """The name, with a number if it is taken."""
    place, number = file, 2
    while place.exists() or place.is_symlink():
        place, number = file.with_name(f"{file.name}{number}"), number + 1
    return place


def _path(project: Project, name: str) -> str:
    return (project.home / name).relative_to(project.root).as_posix()
