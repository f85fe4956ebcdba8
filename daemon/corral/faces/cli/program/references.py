"""What the settings refer to: files and recipes that must be there."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from corral.config.load import Loaded
from corral.config.paths import Project, bundle_dir


def missing(project: Project, loaded: Loaded) -> list[dict[str, str]]:
    """The files and recipes that the settings name and that are not there, as errors of those settings."""
    return [
        {"field": key, "reason": reason, "source": loaded.sources[key]} for key, reason in _missing(project, loaded)
    ]


def _missing(project: Project, loaded: Loaded) -> Iterator[tuple[str, str]]:
    settings = loaded.settings
    signers = settings.templates.allowed_signers
    if signers is not None and not (project.root / signers).is_file():
        yield "templates.allowed_signers", f"there is no file {signers}"
    known = sorted(file.stem for file in (bundle_dir() / "worktrees").glob("*.yaml"))
    for name in settings.worktrees.recipes or ():
        if name not in known:
            yield "worktrees.recipes", f"there is no recipe {name!r}; there are: {', '.join(known)}"
    named = [
        ("landing.verify", settings.landing.verify),
        ("landing.check", settings.landing.check),
        ("landing.affected", [settings.landing.affected] if settings.landing.affected else []),
        ("worktrees.setup", settings.worktrees.setup),
    ]
    for key, commands in named:
        for command in commands:
            if (program := _own_program(project.root, command)) is not None:
                yield key, f"there is no file {program}, which {command!r} starts"


def _own_program(root: Path, command: str) -> str | None:
    """The program of a command, if it is a path below the project's root and is not there."""
    try:
        first = next(iter(shlex.split(command)), "")
    except ValueError:
        return None  # the shell says what is wrong
    is_own = "/" in first and not first.startswith(("/", "~")) and not set(first) & set("$`*?=")
    return first if is_own and not (root / first).exists() else None
