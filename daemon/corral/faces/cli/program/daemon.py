"""``corral daemon``."""

from __future__ import annotations

import json
import os
import shlex
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from corral import __version__
from corral.client.connection import Client, adopt_database
from corral.config import crashes
from corral.config.paths import Project
from corral.core.errors import Conflict, DaemonUnreachable, DatabaseDamaged, DatabaseUnavailable, NotFound, OwnDaemon
from corral.core.marks import started_by_work_of
from corral.core.visible import one_line
from corral.faces.cli.parsing import Exit, Group, Option
from corral.faces.cli.program import service
from corral.faces.cli.terminal.options import argument, client, guarded_project, project
from corral.faces.cli.terminal.output import echo, emit, for_programs, paint, printed, report
from corral.faces.cli.terminal.person import confirm, refuse_agents
from corral.faces.cli.terminal.progress import progress
from corral.runners.environment import lasting_environment

app = Group("The background process that owns the database and the worktrees.")

STOP_S = 20.0
"""The daemon itself stops within 15 seconds."""


@app.command(prints="faces.cli.api.DaemonRunning")
def start(
    detach: Annotated[bool, Option("--detach", hidden=True, help="Accepted and ignored.")] = True,
) -> None:
    """Start the daemon, if it does not run."""
    crashes.forget(project())
    health = client().ensure_daemon()
    report(_state(project(), health), _running(health))


@app.command(prints="faces.cli.api.DaemonStopped")
def stop(drain: Annotated[bool, Option("--drain", help="Let running tasks finish first.")] = False) -> None:
    """Stop the workers, mark their tasks interrupted, and wait for the daemon to exit."""
    try:
        stopped = stop_and_wait(guarded_project(), drain=drain, until_asked=True)
        line = "stopped" if stopped else "The daemon was not running."
    except DatabaseUnavailable as error:
        if error.name != DatabaseDamaged.name:
            raise
        stopped = False  # none can start to end what outlived the last one
        line = "The daemon was not running. Its workers go on until one starts with a new database, which ends them."
    report({"stopped": stopped, "running": False}, line)


def stop_and_wait(
    where: Project, *, drain: bool = False, until_asked: bool = False, leave_workers: bool = False
) -> bool:
    """Stop a project's daemon and wait for its exit; False if none ran, and no worker of one that died.

    Args:
        drain: Let running tasks finish first.
        until_asked: Read-only commands do not start it again (:attr:`Project.stopped_file`).
        leave_workers: Workers and verifications go on; the next daemon follows them.

    Raises:
        OwnDaemon: This process is part of the work of that daemon.
        DaemonUnreachable: The daemon did not stop in time.
    """
    refuse_own_work(where)
    speaker = Client(where, autostart=False)
    health = speaker.health() or _starting(where, speaker)
    if health is None and not leave_workers and _has_workers(where):
        health = speaker.ensure_daemon()  # they outlived it, and only a daemon may judge which are its own
    if health is None:
        return False
    if until_asked:
        where.stopped_file.touch(0o600)
    with progress("stopping the daemon") as update:
        speaker.request("POST", "/daemon/stop", {"drain": drain, "leave_workers": leave_workers})
        speaker.close()
        began = time.monotonic()
        while _holds_lock(where, int(health["pid"])) or _runs(int(health["pid"])):
            if not drain and time.monotonic() - began > STOP_S:
                raise _stuck(where, "The daemon did not stop in time.", health["pid"])
            update("stopping the daemon" + (", waiting for running tasks" if drain else ""))
            time.sleep(0.05)
    return True


def _starting(where: Project, speaker: Client) -> dict[str, Any] | None:
    """The health of a daemon that was just being started, once it answers; None: none is there, or it has ended.

    Raises:
        DaemonUnreachable: One has the lock, and neither answers nor ends.
    """
    began = time.monotonic()
    while _is_locked(where):
        if (health := speaker.health()) is not None:
            return health
        if time.monotonic() - began > STOP_S:
            raise _stuck(where, "A daemon is there that does not answer.", _announced(where).get("pid"))
        time.sleep(0.05)
    return None


def _stuck(where: Project, what: str, pid: int | None) -> DaemonUnreachable:
    holder = "A process" if pid is None else f"Process {pid}"
    return DaemonUnreachable(
        what, cause=f"{holder} still holds {where.lock_file}.", remedy="Read `corral daemon logs`."
    )


def _has_workers(where: Project) -> bool:
    """Whether a daemon that died left workers or verifications here; those in a copy are another repository's."""
    for folder in (*where.attempts_dir.glob("*"), *where.verifications_dir.glob("*")):
        with suppress(OSError, ValueError, KeyError):
            plan, _, _ = (folder / "record").read_text(encoding="utf-8").partition("\n")
            if json.loads(plan)["folder"] == str(folder):
                return True
    return False


def refuse_own_work(where: Project) -> None:
    """Raise :class:`OwnDaemon` if this process was started by the project's daemon."""
    if who := started_by_work_of(os.environ, str(where.root)):
        raise OwnDaemon(f"{who} may not stop the daemon that runs it.")


def _holds_lock(where: Project, pid: int) -> bool:
    """Whether that daemon still holds its lock; it releases the lock last."""
    return _is_locked(where) and _announced(where).get("pid") in (pid, None)


def _is_locked(where: Project) -> bool:
    """Whether a daemon is there, answering or not."""
    import portalocker  # of all commands only those that stop a daemon need it

    try:
        with where.lock_file.open() as handle:
            if os.fstat(handle.fileno()).st_nlink > 1:  # a copy made of hard links: another repository's daemon has it
                return False
            portalocker.lock(handle, portalocker.LockFlags.SHARED | portalocker.LockFlags.NON_BLOCKING)
    except FileNotFoundError:
        return False
    except portalocker.AlreadyLocked:
        return True
    return False


def _runs(pid: int) -> bool:
    """Whether the process is alive; a zombie is not."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):  # the second: another process has that id now
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return not Path("/proc/self").exists()  # without /proc only the signal tells


def _announced(where: Project) -> dict[str, Any]:
    """The content of ``daemon.json``; empty if it cannot be read."""
    try:
        content = json.loads(where.daemon_json.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


@app.command(prints="faces.cli.api.DaemonRunning")
def restart(drain: Annotated[bool, Option("--drain", help="Let running tasks finish first.")] = False) -> None:
    """Stop the daemon if it runs, and start it; workers and verifications go on meanwhile."""
    where = project()
    stop_and_wait(where, drain=drain, leave_workers=True)
    crashes.forget(where)
    health = client().ensure_daemon()
    report(_state(where, health), _running(health))


@app.command("install", prints="faces.cli.api.ServiceInstalled")
def install(yes: Annotated[bool, Option("--yes", "-y", help="Do not prompt.")] = False) -> None:
    """Let your system's service manager start the daemon, also after a crash; records this terminal's environment.

    A systemd user unit, or a launchd agent. Verifications get the recorded environment, whoever starts the daemon.
    """
    refuse_agents("Installing a service", "corral daemon install")
    where = project()
    unit = service.planned(where, lasting_environment(os.environ))
    if not for_programs():
        echo(f"{paint('will write', 'bold')} {unit.file}")
        echo("The daemon and the verifications get this environment from now on; no key is in it:")
        for name, value in unit.environment.items():
            echo(f"    {name}={one_line(value)}")
    if not yes and not confirm("Install it?", default=True):
        raise Exit(1)
    service.install(where, unit)
    running = Client(where, autostart=False).health() is not None
    if not running:
        client().ensure_daemon()
    if printed({"name": unit.name, "file": str(unit.file), "environment": dict(unit.environment)}):
        return
    echo(paint(f"{unit.name} is installed" + ("." if running else ", and the daemon runs."), "green"))
    if running:
        echo("  The running daemon was started otherwise; to start it by the unit: corral daemon restart")
    echo(f"  {service.linger_remedy()}")
    echo("  A key of the Messages API: corral config set-key. To take it back: corral daemon uninstall")


@app.command("uninstall", prints="faces.cli.api.ServiceRemoved")
def uninstall() -> None:
    """Stop the daemon, and delete its unit. Afterwards commands and sessions start it, as before."""
    refuse_agents("Removing a service", "corral daemon uninstall")
    where = guarded_project()
    if service.of(where) is None:
        raise NotFound(
            "No unit is installed for this project.",
            cause="It never was, or was taken back.",
            remedy="`corral daemon install` installs one.",
        )
    stopped = stop_and_wait(where, until_asked=True)
    unit = service.remove(where)
    line = f"{unit.name if unit else 'The unit'} is removed" + (", and the daemon stopped." if stopped else ".")
    report({"removed": str(unit.file) if unit else None, "stopped": stopped}, line)


@app.command(prints="faces.cli.api.DaemonState")
def status() -> None:
    """Show whether the daemon runs. Starts nothing; exits with 5 if it does not run."""
    where = guarded_project()
    answer = _state(where, Client(where, autostart=False).health())
    line = f"{_running(answer)} at {answer['address'] or answer['socket']}" if answer["running"] else "not running"
    report(answer, line)
    if not answer["running"]:
        raise Exit(DaemonUnreachable.exit_code)


def _running(health: dict[str, Any]) -> str:
    return f"running (pid {health['pid']}, version {health['version']})"


def _state(where: Project, health: dict[str, Any] | None) -> dict[str, Any]:
    if health is None:
        return {"running": False, "pid": None, "address": None, "version": __version__}
    announced = _announced(where)
    return {
        "running": True,
        "pid": health["pid"],
        "address": announced.get("address"),
        "socket": announced.get("socket"),
        "version": health["version"],
        "started_at": health["started_at"],
    }


@app.command(prints="faces.cli.api.DatabaseAdopted")
def adopt(
    file: Annotated[Path, argument("A database that Corral set aside, or one from a backup.", "FILE")],
    yes: Annotated[bool, Option("--yes", "-y", help="Do not prompt.")] = False,
) -> None:
    """Take over the tasks of a copied or restored repository's database."""
    where = project()
    refuse_agents("Adopting a database", f"corral daemon adopt {shlex.quote(str(file))}")
    if Client(where, autostart=False).health() is not None:
        raise Conflict(
            "The daemon is running.",
            cause="A database is taken over while no daemon has one open.",
            remedy="Run `corral daemon stop`, then try again.",
        )
    question = (
        f"Its open tasks will run in {where.root}. If another repository still uses this database, they run "
        "there too. Adopt it?"
    )
    if not yes and not confirm(question, default=False):
        raise Exit(1)
    with progress("adopting the database"):
        answer = adopt_database(where, file.absolute())
    replaced = f" The previous database is now {answer['replaced']}." if answer["replaced"] else ""
    report(answer, f"adopted {answer['adopted']}.{replaced} `corral status` starts the daemon.")


@app.command(prints="faces.cli.api.LogLine[]")
def logs(
    lines: Annotated[int, Option("--lines", "-n", help="Number of lines.", min=1)] = 50,
    follow: Annotated[bool, Option("--follow", "-f", help="Follow the log.")] = False,
) -> None:
    """Show the daemon's log (JSON, one event per line)."""
    file = guarded_project().logs_dir / "corral.log"
    if not file.exists():
        raise NotFound(
            "There is no log yet.", cause="The daemon has not run here.", remedy="Run `corral daemon start`."
        )
    with file.open(encoding="utf-8", errors="replace") as handle:
        last = handle.readlines()[-lines:]
        if for_programs() and not follow:
            emit([json.loads(line) for line in last if line.endswith("}\n")])
            return
        for line in last:
            echo(one_line(line.rstrip("\n")))
        while follow:
            line = handle.readline()
            if line:
                echo(one_line(line.rstrip("\n")))
            else:
                time.sleep(0.2)
