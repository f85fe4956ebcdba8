"""Putting the daemon's parts together: the one place that knows which part needs which other."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from corral.config.model import Settings
from corral.config.paths import Project
from corral.config.teams import teams_file
from corral.errors import GitFailed
from corral.git.command import open_checkout, open_repository
from corral.landing import verification
from corral.landing.landfall import OnSettled
from corral.landing.queue import Queue
from corral.observe import logs
from corral.observe.redaction import remember_secrets
from corral.runners.claude import ClaudeRunner
from corral.runners.command import CommandRunner
from corral.runners.protocol import Runner
from corral.server.announcements import Announcer
from corral.server.jobs import Job, now
from corral.server.reload import Reloader
from corral.server.services import Services
from corral.server.settings import SettingsHolder
from corral.server.stale_locks import StaleLocks
from corral.server.teams import TeamsHolder
from corral.server.timers import SessionKeeper
from corral.server.trust import refuse_what_a_clone_brought
from corral.store.engine import Database
from corral.store.migrate import open_schema
from corral.work import residue, tasks
from corral.work.allocation import Grounds, environment, make_usable
from corral.work.supervisor import Supervisor
from corral.work.worktrees import Worktrees

FIRST_FREE_PORT = 1024

ATTEMPT_THREADS = 8

log = logs.logger("daemon")


def merge_settled(settings: SettingsHolder) -> OnSettled:
    """What the end of a merge request means: dependents become ready, or fail."""

    def settled(conn: Connection, merge: dict[str, Any], at: datetime) -> None:
        if merge["task_id"] is not None:
            tasks.merge_settled(conn, merge["task_id"], merge["state"], at, unblock_on=settings().tasks.unblock_on)

    return settled


def assemble(project: Project, pool: ThreadPoolExecutor) -> Services:
    """Open the database, recover what a dead daemon left, and build every part.

    Raises:
        CorralError: Settings, database or repository are not usable; nothing was changed.
    """
    git = open_repository(project.common_dir)
    if not project.bare:
        refuse_what_a_clone_brought(git)
    logs.configure(project.logs_dir / "corral.log", "INFO", 30, stderr=False)
    remember_secrets(os.environ)
    settings = SettingsHolder(project, git, os.environ)
    chosen = settings().logs
    logs.configure(project.logs_dir / "corral.log", chosen.level, chosen.keep_days, stderr=False)
    settings.on_change.append(lambda new: logs.set_level(new.logs.level))
    for warning in settings.loaded.warnings:
        log.warning("config_warning", detail=str(warning))
    if settings.loaded.overrides:
        log.info("config_overrides", overrides=settings.loaded.overrides)
    project.database.parent.mkdir(parents=True, exist_ok=True)
    open_schema(project.database)
    db = Database(project.database)
    jobs: dict[str, Job] = {}
    nudges: dict[str, Callable[[], None]] = {}

    def nudge(name: str) -> None:
        for job in (jobs.get(name), jobs.get("stale_locks"), jobs.get("announcements")):
            if job is not None:
                job.nudge()
        nudges.get("changed", lambda: None)()

    teams = TeamsHolder(teams_file(project))

    def reload() -> None:
        settings.reload()
        teams.reload()

    grounds = Grounds(db=db, project=project, repo=git, settings=settings, clock=now, team=teams)
    # A setup takes minutes: nobody who asks waits behind those of the workers.
    attempts = ThreadPoolExecutor(ATTEMPT_THREADS, thread_name_prefix="attempt")
    supervisor = Supervisor(
        grounds,
        _Runners(settings),
        spawn=lambda function: _spawn(attempts, function),
        nudge=nudge,
        watch_exit=lambda pid: _watch(pid, lambda: nudge("supervisor")),
    )

    def prepare(path: Path) -> Mapping[str, str]:
        return _made_usable(grounds, path)

    def landed() -> None:
        nudge("landing")
        nudge("supervisor")

    queue = Queue(
        db,
        project,
        lambda: git,
        settings,
        lambda target: settings.for_target(target).landing,
        prepare,
        merge_settled(settings),
        landed,
        lambda pid: _watch(pid, lambda: nudge("landing")),
        os.environ,
    )
    services = Services(
        project=project,
        db=db,
        git=git,
        settings=settings,
        teams=teams,
        supervisor=supervisor,
        queue=queue,
        worktrees=Worktrees(grounds),
        pool=pool,
        started_at=now(),
        fold=git.run("config", "--type=bool", "--get", "core.ignoreCase").text.strip() == "true",
        jobs=jobs,
        reloader=Reloader(reload, lambda: nudge("settings")),
    )
    nudges["changed"] = services.changed
    settings.on_change.append(lambda _new: services.nudge("supervisor"))
    settings.on_change.append(lambda _new: services.nudge("landing"))
    settings.on_change.append(lambda _new: services.nudge("sessions"))
    stale_locks = StaleLocks(db, git)
    stale_locks.at_start([Path(row["path"]) for row in services.worktrees.listing()])
    try:
        queue.recover(now())
    except GitFailed as error:  # e.g. a lock of the user's is in the way: every step of the queue looks again
        log.warning("landing_not_recovered", reason=f"{error.message} {error.cause}")
    supervisor.recover(now())
    jobs["supervisor"] = Job("supervisor", supervisor.step)
    jobs["landing"] = Job("landing", queue.step)
    jobs["settings"] = Job("settings", services.reloader.step)
    jobs["stale_locks"] = Job("stale_locks", stale_locks.step)
    jobs["announcements"] = Job("announcements", Announcer(db, git, services.changed).step, pause_s=0.1)
    jobs["sessions"] = Job("sessions", SessionKeeper(services).step, pause_s=0.2)
    return services


def _made_usable(grounds: Grounds, path: Path) -> Mapping[str, str]:
    """Make the verification worktree usable like any other; its ports lie just below those of the allocated ones."""
    chosen = grounds.settings().worktrees
    ports = chosen.port_first - chosen.ports_each
    checkout = open_checkout(path)
    residue.remove(checkout, path, chosen.setup)
    port_base = ports if chosen.ports_each and ports >= FIRST_FREE_PORT else None
    made = make_usable(grounds, path, port_base, {verification.MARK: str(path)})
    residue.remember(checkout, chosen.setup, made)
    return environment(grounds, path, made)


class _Runners(Mapping[str, Runner]):
    """The runners by name, made when one is asked for: each start follows the settings of its moment."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings

    def __getitem__(self, name: str) -> Runner:
        chosen = self._settings()
        grace_s = chosen.supervisor.stop_grace_s
        if name == CommandRunner.name:
            return CommandRunner(os.environ, stop_grace_s=grace_s)
        if name == ClaudeRunner.name:
            return ClaudeRunner(os.environ, command=chosen.runners.claude.command, stop_grace_s=grace_s)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter((CommandRunner.name, ClaudeRunner.name))

    def __len__(self) -> int:
        return 2


def _spawn(pool: ThreadPoolExecutor, function: Callable[[], None]) -> None:
    def run() -> None:
        try:
            function()
        except Exception:  # the edge of a thread; rows hold the truth, and the next step looks again
            log.exception("work_failed", function=getattr(function, "__qualname__", str(function)))

    pool.submit(run)


def _watch(pid: int, ended: Callable[[], None]) -> None:
    """Call ``ended`` when a child process ends, without taking its exit status from whoever waits for it."""

    def wait() -> None:
        try:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        except (ChildProcessError, AttributeError):
            return  # gone already, or a system without waitid: the regular look finds it
        ended()

    threading.Thread(target=wait, name=f"watch-{pid}", daemon=True).start()
