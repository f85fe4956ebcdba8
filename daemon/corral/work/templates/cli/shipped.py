"""The template that ships with Corral: what ``corral init`` writes, recorded in the lock like one that was fetched."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from corral.config.initial import default_config
from corral.config.paths import Project, bundle_dir
from corral.faces.cli.project.project_copies import COPIES
from corral.git.remote.address import Address
from corral.git.remote.parts import CONFIG, Part
from corral.work.templates.project.lock import SHIPPED, read_lock

ADDRESS = Address(SHIPPED, "file", "shipped")


def parts(target: str, verify: list[str], copies: Iterable[str]) -> dict[str, Part]:
    """The files of this version.

    Args:
        target: The branch that work lands on.
        verify: Commands that must pass before it does.
        copies: The files of the plugin that the project has copies of.
    """
    copied = {name: Part((bundle_dir() / COPIES[name]).read_bytes()) for name in copies if name in COPIES}
    return {CONFIG: Part(default_config(target, verify).encode()), **copied}


def of_project(project: Project) -> dict[str, Part]:
    """This version's files, with the values that a project was prepared with; none if it has another template."""
    lock = read_lock(project)
    if lock is None or lock.source != SHIPPED:
        return {}
    values: dict[str, Any] = lock.values
    return parts(str(values.get("target", "")), [str(command) for command in values.get("verify", ())], lock.files)
