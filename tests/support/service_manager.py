"""systemd's user manager: a real one of the test's own, and a stand-in that reads a unit and starts its command."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.files import executable
from tests.support.programs import MACHINE, program

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
        log = values.get("StandardOutput", os.devnull).removeprefix("append:")  # else the journal, which no test reads
        with open(log, "a") as out:
            argv = [word.replace("$$", "$") for word in shlex.split(values["ExecStart"])]
            daemon = subprocess.Popen(argv, env=environ, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                             cwd=values["WorkingDirectory"])
        (folder / "pid").write_text(str(daemon.pid))
elif verb == "list-jobs" and (folder / "jobs").exists():
    print((folder / "jobs").read_text())
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
        executable(folder / "systemctl", SYSTEMCTL.format(python=sys.executable))

    def started(self) -> int:
        """How often a unit was started."""
        file = self.folder / "calls"
        return sum(line.startswith("--user start ") for line in file.read_text().splitlines()) if file.exists() else 0


# Runs in mount and cgroup namespaces of its own, in a group of its own: systemd sees the machine as one that it has booted.
_BOOT = """
for top in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
    if [ -e $top/cgroup.procs ]; then mkdir $top/{name} && echo $$ > $top/{name}/cgroup.procs || exit 9; fi
done
exec {unshare} --mount --cgroup sh -c '
    mount -t tmpfs run /run && mkdir -p /run/systemd/system || exit 9
    if [ -d /sys/fs/cgroup/systemd ]; then
        umount -R /sys/fs/cgroup && mount -t tmpfs cgroup /sys/fs/cgroup && cd /sys/fs/cgroup && mkdir systemd unified &&
        mount -t cgroup -o none,name=systemd cgroup systemd && mount -t cgroup2 cgroup unified || exit 9
    else
        umount -R /sys/fs/cgroup && mount -t cgroup2 cgroup /sys/fs/cgroup || exit 9
    fi
    cd /
    exec {systemd} --user --unit=default.target --log-target=null'
"""


@contextlib.contextmanager
def real_systemd(folder: Path) -> Iterator[Path]:
    """Run a user manager for the test's HOME; yields a folder with a ``systemctl`` that speaks to it.

    It needs the rights of root over groups and mounts, not that the machine runs systemd; the test is skipped without them.
    """
    systemctl, systemd, unshare, nsenter = (program(name) for name in ("systemctl", "systemd", "unshare", "nsenter"))
    if os.geteuid() != 0:
        pytest.skip("only root may make groups and mounts")
    name = f"corral-test-{os.getpid()}"
    env = {"HOME": os.environ["HOME"], "XDG_RUNTIME_DIR": os.environ["XDG_RUNTIME_DIR"], "PATH": MACHINE}
    boot = _BOOT.format(name=name, unshare=unshare, systemd=systemd)
    manager = subprocess.Popen(["/bin/sh", "-c", boot], env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    folder.mkdir()
    command = executable(
        folder / "systemctl", f'#!/bin/sh\nexec {nsenter} --target {manager.pid} --mount --cgroup -- {systemctl} "$@"\n'
    )
    try:
        while subprocess.run([command, "--user", "is-system-running"], env=env, capture_output=True).returncode:
            if manager.poll() is not None:
                assert manager.stderr is not None
                pytest.skip(f"systemd does not run here: {manager.stderr.read().decode()}")
            time.sleep(0.1)
        yield folder
        subprocess.run([command, "--user", "exit"], env=env, check=True)
        manager.wait(timeout=30)
    finally:
        manager.kill()
        manager.communicate()
        for group in Path("/sys/fs/cgroup").glob(f"**/{name}"):
            _remove(group)


def _remove(group: Path) -> None:
    """Remove a group of processes that a test has made, and those below it."""
    until = time.monotonic() + 10
    for path, _folders, _files in os.walk(group, topdown=False):
        while Path(path).is_dir():
            for pid in Path(path, "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            try:
                Path(path).rmdir()
            except OSError:  # they die
                assert time.monotonic() < until, path
                time.sleep(0.05)
