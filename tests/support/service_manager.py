"""A stand-in for systemd's user manager: it reads a unit, and starts its command."""

from __future__ import annotations

import sys
from pathlib import Path

# Reads a unit as systemd does, as far as Corral's has it, and starts its command with no environment but the unit's.
SYSTEMCTL = """#!{python}
import os, re, shlex, subprocess, sys
from pathlib import Path

folder = Path(__file__).resolve().parent
with (folder / "calls").open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
if (folder / "unreachable").exists():
    sys.exit("Failed to connect to bus: No medium found")
verb, unit = sys.argv[2], Path.home() / ".config/systemd/user" / sys.argv[-1]
if verb == "start":
    lines = [line.partition("=") for line in unit.read_text().splitlines() if "=" in line and line[0] != "#"]
    plain = lambda text: text.replace("%%", "%")
    environ = dict(plain(shlex.split(value)[0]).split("=", 1) for name, _, value in lines if name == "Environment")
    values = {{name: plain(value) for name, _, value in lines}}
    if not Path(values["ConditionPathExists"].removeprefix("!")).exists():
        with open(values["StandardOutput"].removeprefix("append:"), "a") as log:
            argv = [word.replace("$$", "$") for word in shlex.split(values["ExecStart"])]
            daemon = subprocess.Popen(argv, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                             cwd=values["WorkingDirectory"])
        (folder / "pid").write_text(str(daemon.pid))
elif verb == "is-active":
    try:
        state = Path("/proc", (folder / "pid").read_text(), "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        state = "Z"
    print("failed" if state == "Z" else "active")
"""


class Manager:
    """A stand-in for systemd's user manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "systemctl").write_text(SYSTEMCTL.format(python=sys.executable))
        (folder / "systemctl").chmod(0o755)

    def started(self) -> int:
        """How often a unit was started."""
        file = self.folder / "calls"
        return sum(line.startswith("--user start ") for line in file.read_text().splitlines()) if file.exists() else 0
