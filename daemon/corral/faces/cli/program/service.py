"""The unit of the user's service manager that starts a project's daemon: written, enabled, taken back."""

from __future__ import annotations

import contextlib
import json
import os
import plistlib
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from corral.config import account
from corral.config.ownership import write_private
from corral.config.paths import Project
from corral.config.service import LAUNCHD, Service, installed, manager, name_of, record_file, unit_file, words
from corral.core.errors import InvalidInput, Unsupported

_LIMIT_S = 30.0
_LAUNCHD_SCRIPT = '[ -e "$1" ] || exec "$2" -m corral.daemon --project "$3" --foreground'
"""launchd has no condition for a start: what was stopped stays so at the next login."""


def planned(project: Project, environment: Mapping[str, str]) -> Service:
    """The unit that an installation would write, with the environment that it would record."""
    file = unit_file(project, os.environ, account.home())
    return Service(name_of(project), file, dict(sorted(environment.items())))


def of(project: Project) -> Service | None:
    """The project's unit, if one is installed."""
    return installed(project, os.environ, account.home())


def install(project: Project, service: Service) -> None:
    """Write a unit and its record, and enable it.

    Raises:
        InvalidInput: They cannot be written.
        Unsupported: The service manager cannot be reached, or refuses it; nothing is left.
    """
    try:
        service.file.parent.mkdir(parents=True, exist_ok=True)
        write_private(service.file, unit_text(project, service))
        record = record_file(project, os.environ, account.home())
        record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(record, json.dumps({"version": 1, "root": str(project.root), **_wire(service)}, indent=2) + "\n")
        _ask(manager().enable, service)
    except OSError as error:
        _remove_files(project, service)
        raise InvalidInput(f"Cannot write {error.filename}.", cause=str(error.strerror)) from error
    except Unsupported:
        _remove_files(project, service)
        raise


def remove(project: Project) -> Service | None:
    """Disable a project's unit and delete it with its record; returns it, None if there was none."""
    service = of(project)
    if service is not None:
        with contextlib.suppress(Unsupported):  # nothing of it is left once its file is gone
            _ask(manager().disable, service)
        _remove_files(project, service)
        with contextlib.suppress(Unsupported):
            _ask(manager().forget, service)
    return service


def unit_text(project: Project, service: Service) -> str:
    """The unit's file."""
    stopped = project.stopped_file
    if manager() is LAUNCHD:
        unit = {
            "Label": service.name,
            "ProgramArguments": [
                "/bin/sh",
                "-c",
                _LAUNCHD_SCRIPT,
                "sh",
                str(stopped),
                sys.executable,
                str(project.root),
            ],
            "EnvironmentVariables": dict(service.environment),
            "WorkingDirectory": "/",
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "AbandonProcessGroup": True,
        }
        return plistlib.dumps(unit, sort_keys=False).decode()
    variables = "".join(f"Environment={_quoted(f'{name}={value}')}\n" for name, value in service.environment.items())
    command = " ".join(
        _quoted(word, "$")
        for word in (sys.executable, "-m", "corral.daemon", "--project", str(project.root), "--foreground")
    )
    return f"""\
[Unit]
Description=Corral's daemon of {_plain(project.root)}
# What a person has stopped stays so: a hook or a changing command ends that.
ConditionPathExists=!{_plain(stopped)}
StartLimitIntervalSec=60
StartLimitBurst=3

[Service]
ExecStart={command}
{variables}WorkingDirectory=/
Restart=on-failure
RestartSec=1
# Workers outlive their daemon, and one of them that takes too much memory does not take the others along.
KillMode=process
OOMPolicy=continue

[Install]
WantedBy=default.target
"""


def linger_remedy() -> str:
    """What makes the unit start before a login, and stay after a logout; empty where nothing has to."""
    if manager() is LAUNCHD:
        return "It starts at your login, and ends at your logout."
    user = account.user_name()
    if Path(f"/var/lib/systemd/linger/{user}").exists():
        return "Lingering is on: it starts with the machine, and stays when you log out."
    return (
        "It starts at your login, and ends with your last session. To start it with the machine, and keep it after a logout: "
        f"loginctl enable-linger {shlex.quote(user)}"
    )


def _wire(service: Service) -> dict[str, object]:
    return {"name": service.name, "file": str(service.file), "environment": dict(service.environment)}


def _remove_files(project: Project, service: Service) -> None:
    for file in (service.file, record_file(project, os.environ, account.home())):
        file.unlink(missing_ok=True)


def _ask(commands: Iterable[str], service: Service) -> None:
    for command in commands:
        argv = words(command, service)
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_LIMIT_S)
            trouble = (
                "" if done.returncode == 0 else (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            trouble = str(error)
        if trouble:
            raise Unsupported(
                "Nothing was installed: no service manager of your user answers here.",
                cause=f"{shlex.join(argv)}: {trouble}",
                remedy="Run it in a login session of a system with systemd or launchd. Without a unit, commands and sessions "
                "start the daemon.",
            )


def _quoted(text: str, *also: str) -> str:
    """A word of a unit, in quotes; signs of ``also`` are doubled, as in a command line."""
    for sign in ("%", *also):
        text = text.replace(sign, sign * 2)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _plain(path: Path) -> str:
    return str(path).replace("%", "%%")
