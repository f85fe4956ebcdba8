"""The service of a project: the unit of the user's service manager that starts its daemon, and the environment that it records.

The record is in the user's state folder, by the path of the git common directory, where no clone can bring it. Standard
library only.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from corral.config.account import base_folder
from corral.config.ownership import is_own
from corral.config.paths import Project


class Service(NamedTuple):
    """A unit that is installed.

    Attributes:
        name: The unit's, as the service manager knows it.
        file: The unit.
        environment: What the daemon has when the unit starts it, and what verifications get whoever started it.
    """

    name: str
    file: Path
    environment: Mapping[str, str]


class Manager(NamedTuple):
    """A service manager: where its units are, and the commands for one; ``{name}``, ``{file}`` and ``{uid}`` are filled in.

    Attributes:
        folder: Of the user's units, below the home folder; systemd's below that of configurations.
        enable: After the unit was written: it starts with the user's services.
        start: Now; only the last one has to succeed.
        state: Prints ``failed`` where a start failed; empty: nothing tells.
        jobs: Prints what is being done, as lines of number, unit and what; empty: nothing tells.
        disable: Before the unit is removed.
        forget: After that.
    """

    folder: str
    suffix: str
    enable: tuple[str, ...]
    start: tuple[str, ...]
    state: str
    jobs: str
    disable: tuple[str, ...]
    forget: tuple[str, ...]


SYSTEMD = Manager(
    "systemd/user",
    ".service",
    ("systemctl --user daemon-reload", "systemctl --user enable {name}.service"),
    ("systemctl --user reset-failed {name}.service", "systemctl --user start {name}.service"),
    "systemctl --user is-active {name}.service",
    "systemctl --user list-jobs --no-legend --plain",
    ("systemctl --user disable {name}.service",),
    ("systemctl --user daemon-reload",),
)
LAUNCHD = Manager(
    "Library/LaunchAgents",
    ".plist",
    ("launchctl bootstrap gui/{uid} {file}",),
    ("launchctl kickstart gui/{uid}/{name}",),
    "",
    "",
    ("launchctl bootout gui/{uid}/{name}",),
    (),
)


def manager() -> Manager:
    """The service manager of this system."""
    return LAUNCHD if sys.platform == "darwin" else SYSTEMD


def words(command: str, service: Service) -> list[str]:
    """A manager's command about a unit."""
    values = {"name": service.name, "file": service.file, "uid": os.getuid()}
    return [word.format(**values) for word in command.split()]


def unit_file(project: Project, environ: Mapping[str, str], home: Path) -> Path:
    """Where a project's unit is written."""
    chosen = manager()
    top = base_folder("CONFIG", environ, home) if chosen is SYSTEMD else home
    return top / chosen.folder / f"{name_of(project)}{chosen.suffix}"


def record_file(project: Project, environ: Mapping[str, str], home: Path) -> Path:
    """The file that says that a unit is installed: ``corral/services/….json`` in the user's state folder."""
    return base_folder("STATE", environ, home) / "corral" / "services" / f"{_digest(project)}.json"


def name_of(project: Project) -> str:
    """The name of a project's unit: of its folder, and of the whole path."""
    folder = re.sub(r"[^A-Za-z0-9]+", "-", project.root.name).strip("-")[:40]
    return f"corral-{folder}-{_digest(project)[:12]}" if folder else f"corral-{_digest(project)[:12]}"


def installed(project: Project, environ: Mapping[str, str], home: Path) -> Service | None:
    """The unit of a project; None if there is none, or its record is no valid one of this user's."""
    file = record_file(project, environ, home)
    try:
        with file.open("rb") as stream:
            if not is_own(os.fstat(stream.fileno()).st_uid):
                return None
            record = json.load(stream)
        variables = {str(name): str(value) for name, value in record["environment"].items()}
        service = Service(str(record["name"]), Path(record["file"]), variables)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return service if service.file.is_file() else None


def _digest(project: Project) -> str:
    return hashlib.sha256(os.fsencode(project.common_dir)).hexdigest()
