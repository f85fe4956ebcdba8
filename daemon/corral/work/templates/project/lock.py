"""``.corral/template.lock``: which template a project was prepared from, with the checksum of each file as the template has it.

The team shares the file. ``.corral/metadata.json``, which stays on this machine, holds the same commit: one of the two alone
cannot be exchanged unnoticed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from corral.config.paths import Project
from corral.core.errors import ConfigInvalid, NotFound, NotTrusted
from corral.git.remote.parts import MERGED_BY_KEY, Part
from corral.work.templates.api import FileState
from corral.work.templates.project.merging import added

SHIPPED = "built-in"
"""The source of the template that ships with Corral."""


@dataclass(frozen=True)
class Lock:
    """The template of a project.

    Attributes:
        source: Its address, without the subfolder.
        version: The tag, branch or commit.
        kind: ``tag``, ``branch`` or ``commit``.
        asked: The version as the person named it, such as ``latest``.
        signer: Whose signature was verified; None: no key is configured.
        files: By path, the checksum of the template's own content.
        had: The paths that the project had before the template; they are its own.
        added: By path of a JSON file that is merged by key, what the template added to it.
        values: Of the shipped template, the target and the verification that its settings were written with.
    """

    source: str
    subfolder: str
    version: str
    kind: Literal["tag", "branch", "commit"]
    asked: str
    commit: str
    fetched_at: str
    signer: str | None = None
    files: dict[str, str] = field(default_factory=dict)
    had: list[str] = field(default_factory=list)
    added: dict[str, dict[str, Any]] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """The file's content."""
        return json.dumps({"lock": 1, **asdict(self)}, indent=2, sort_keys=True) + "\n"

    def pin(self) -> dict[str, Any]:
        """The part that ``metadata.json`` holds."""
        return {"source": self.source, "subfolder": self.subfolder, "version": self.version, "commit": self.commit}


def lock_file(project: Project) -> Path:
    """The place of the lock."""
    return project.home / "template.lock"


def read_lock(project: Project) -> Lock | None:
    """The lock; None if there is none.

    Raises:
        ConfigInvalid: It cannot be read.
        NotTrusted: It and the record of this machine name different commits.
    """
    file = lock_file(project)
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _damaged(file, str(error.strerror or error)) from error
    try:
        fields = json.loads(data)
        if fields.pop("lock") != 1:
            raise ValueError("another version of Corral wrote it")
        lock = Lock(**fields)
        if not all(isinstance(part, str) for part in (lock.source, lock.commit, *lock.files, *lock.files.values())):
            raise ValueError("it lacks checksums")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _damaged(file, str(error)) from error
    pinned = pin_of(project)
    if pinned is not None and pinned.get("source") == lock.source and pinned["commit"] != lock.commit:
        _refuse_other_commit(lock, pinned)
    return lock


def _refuse_other_commit(lock: Lock, pinned: Mapping[str, Any]) -> None:
    if pinned.get("version") != lock.version or lock.kind != "tag":
        return  # somebody in the team has updated it
    raise NotTrusted(
        f"The template's commit in template.lock is not the one that was installed here as {lock.version}.",
        cause=f"metadata.json has {pinned['commit'][:12]}, template.lock {lock.commit[:12]}.",
        remedy="See `git log -p .corral/template.lock`. To accept it, remove `template_pin` from .corral/metadata.json.",
    )


def require_lock(project: Project) -> Lock:
    """The lock.

    Raises:
        NotFound: There is none.
    """
    lock = read_lock(project)
    if lock is None:
        raise NotFound(
            "The template of this project is not recorded.",
            cause="There is no .corral/template.lock: an earlier Corral prepared the project, or the file was removed.",
            remedy="Restore the file with git, or install a template: `corral init --template URL`.",
        )
    return lock


def pin_of(project: Project) -> dict[str, Any] | None:
    """The template that this machine installed; None if it is unknown."""
    pin = metadata_of(project).get("template_pin")
    return pin if isinstance(pin, dict) and isinstance(pin.get("commit"), str) else None


def metadata_of(project: Project) -> dict[str, Any]:
    """The content of ``.corral/metadata.json``; empty if it cannot be read."""
    try:
        metadata = json.loads((project.home / "metadata.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return metadata if isinstance(metadata, dict) else {}


def change_of(file: Path, checksum: str) -> FileState:
    """Whether a file has this checksum."""
    try:
        return "unchanged" if hashlib.sha256(file.read_bytes()).hexdigest() == checksum else "changed"
    except OSError:
        return "missing"


def owned(project: Project, parts: Mapping[str, Part], before: Lock | None) -> dict[str, Any]:
    """The fields ``had`` and ``added`` of a lock, as the project is before the template's files are written.

    Args:
        before: The lock of the version that is installed; None: none is.
    """
    known, had = (before.files, before.had) if before is not None else ({}, [])
    contents = {path: _content(project.root / path) for path in parts}
    return {
        "had": sorted(
            path for path, mine in contents.items() if path in had or (mine is not None and path not in known)
        ),
        "added": {
            path: _added(contents[path], parts[path].data, before.added.get(path, {}) if before is not None else {})
            for path in sorted(MERGED_BY_KEY & parts.keys())
        },
    }


def _content(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None


def _added(mine: bytes | None, theirs: bytes, before: dict[str, Any]) -> dict[str, Any]:
    try:
        return added(mine, theirs, before)
    except ValueError:
        return before  # it cannot be merged either, and stays


def checksums(parts: Mapping[str, Part]) -> dict[str, str]:
    """The checksums of a template's files."""
    return {path: part.sha256 for path, part in sorted(parts.items())}


def _damaged(file: Path, reason: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"{file} cannot be read.", cause=reason, remedy="Restore it: git checkout -- .corral/template.lock"
    )
