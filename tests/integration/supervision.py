"""A stand-in for the server around a supervisor: threads, nudges, process exits and the clock, all real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from corral.config.model import Settings
from corral.config.paths import Project, find_project
from corral.git.process.command import open_repository
from corral.runners.command import CommandRunner
from corral.runners.protocol import Runner
from corral.store.engine.database import Database
from corral.store.migrate import open_schema
from corral.work.tasks import tasks, views
from corral.work.tasks.store import tasks as task_rows
from corral.work.tasks.wire import TaskSubmission, read_submissions
from corral.work.workers.supervisor import Supervisor
from corral.work.worktrees.allocation import WorktreeContext
from corral.work.worktrees.worktrees import Worktrees
from tests.support.files import put

Row = dict[str, Any]


def utc_now() -> datetime:
    return datetime.now(timezone.utc)


def settings_with(**sections: Mapping[str, Any]) -> Settings:
    return Settings.model_validate({name: dict(values) for name, values in sections.items()})


def _without_pool(settings: Settings) -> Settings:
    """No warm pool where a test does not ask for one: what is given back is removed, and its absence can be seen."""
    if "pool_size" in settings.worktrees.model_fields_set:
        return settings
    return settings.model_copy(update={"worktrees": settings.worktrees.model_copy(update={"pool_size": 0})})


class House:
    """One coordinated repository with a supervisor that is driven by hand."""

    def __init__(
        self, root: Path, settings: Settings | None = None, runners: Mapping[str, Runner] | None = None
    ) -> None:
        self.project: Project = find_project(root, initialised=False)
        put(self.project.home / ".gitignore", "*\n")
        open_schema(self.project.database)
        self.db = Database(self.project.database)
        self.settings = _without_pool(settings or Settings())
        self.pool = ThreadPoolExecutor(8)
        self.skipped = timedelta(0)
        self.nudged = threading.Event()
        self.landing_nudges = 0
        self.failures: list[BaseException] = []
        self.worktree_context = WorktreeContext(
            self.db, self.project, open_repository(self.project.common_dir), lambda: self.settings, utc_now, "house"
        )
        self.worktrees = Worktrees(self.worktree_context)
        grace_s = self.settings.supervisor.stop_grace_s
        self.runners = runners or {"command": CommandRunner(os.environ, stop_grace_s=grace_s)}
        self.start: Callable[[Callable[[], None]], None] = self._spawn
        self.supervisor = self._supervisor()

    def _supervisor(self) -> Supervisor:
        made = Supervisor(
            self.worktree_context,
            self.runners,
            spawn=self._spawn,
            spawn_start=lambda function: self.start(function),
            nudge=self._nudge,
            watch_exit=self._watch,
        )
        made.recover(self.now())
        return made

    def restart(self) -> None:
        """Go on with a supervisor that knows nothing but the database."""
        self.supervisor = self._supervisor()

    def now(self) -> datetime:
        """The wall clock, as far as the test has moved it."""
        return utc_now() + self.skipped

    def submit(self, command: str = "true", **fields: Any) -> str:
        fields = {"title": f"run {command[:30]}", "command": command, **fields}
        return self.submit_all([fields])[0]

    def submit_all(self, items: list[dict[str, Any]]) -> list[str]:
        submissions: list[TaskSubmission] = read_submissions(items)
        rows = self.db.write(lambda conn: tasks.submit_batch(conn, submissions, self.now(), self.settings.tasks))
        return [row["task_id"] for row in rows]

    def detail(self, task_id: str) -> Row:
        return self.db.read(lambda conn: views.detail(conn, task_id))

    def status(self, task_id: str) -> str:
        row = self.db.read(lambda conn: task_rows.get(conn, task_id))
        assert row is not None
        return str(row["status"])

    def statuses(self, *task_ids: str) -> list[str]:
        return [self.status(task_id) for task_id in task_ids]

    def until(self, done: Callable[[], bool], timeout_s: float = 30.0) -> None:
        """Step as the server would, until something is so."""
        deadline = time.monotonic() + timeout_s
        while True:
            self.nudged.clear()
            due = self.supervisor.step(self.now())
            if done():
                break
            assert time.monotonic() < deadline, f"not within {timeout_s} s; running {self.supervisor.running_count()}"
            wait = 0.5 if due is None else max(0.0, min(0.5, (due - self.now()).total_seconds()))
            self.nudged.wait(wait)
        if self.failures:
            raise self.failures[0]

    def until_status(self, task_id: str, *statuses: str, timeout_s: float = 30.0) -> Row:
        self.until(lambda: self.status(task_id) in statuses, timeout_s)
        return self.detail(task_id)

    def settle(self, timeout_s: float = 30.0) -> None:
        """Until nothing is at work and every worktree that was to go is gone."""
        self.until(lambda: not self.supervisor.running_count(), timeout_s)

    def in_use(self) -> list[Row]:
        """The worktrees that are not merely kept for later tasks."""
        return [row for row in self.worktrees.listing() if row["state"] != "pooled"]

    def idle(self) -> bool:
        """Whether nothing is left to do: no open task, no worktree on its way out."""
        waiting = self.db.read(lambda conn: task_rows.standing(conn, only_open=True))
        return not waiting and not self.supervisor.running_count() and not self.in_use()

    def close(self) -> None:
        """As the server's stop: bounded, and nothing is left behind."""
        self.supervisor.stop_all()
        self.until(lambda: not self.supervisor.running_count(), 15)
        self.pool.shutdown(wait=True)
        self.db.close()

    def _spawn(self, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except BaseException as error:
                self.failures.append(error)
                raise

        self.pool.submit(guarded)

    def _nudge(self, name: str) -> None:
        if name == "landing":
            self.landing_nudges += 1
        self.nudged.set()

    def _watch(self, await_exit: Callable[[], None]) -> None:
        def wait() -> None:
            await_exit()
            self.nudged.set()

        threading.Thread(target=wait, daemon=True).start()


IMPATIENT = settings_with(
    tasks={"max_retries": 0, "retry_initial_s": 0.1, "retry_max_s": 0.5}, supervisor={"stop_grace_s": 1}
)


def live_on(root: Path, items: list[dict[str, Any]]) -> None:
    """Be the daemon of ``root`` until everything has ended; says ``up``, and each task's id once it is acknowledged."""
    print("up", flush=True)
    settings = os.environ.get("SETTINGS")
    house = House(root, Settings.model_validate_json(settings) if settings else IMPATIENT)
    for item in items:
        print(house.submit_all([item])[0], flush=True)
    house.until(lambda: house.idle(), 60)
    print("done", flush=True)
    house.close()


def in_a_process(root: Path, items: list[dict[str, Any]], **extra: str) -> subprocess.Popen[str]:
    """Start :func:`live_on` in a child process; ``CORRAL_CRASH_AT`` and ``SETTINGS`` (JSON) may be among ``extra``."""
    code = "import sys, json; from tests.integration.supervision import *; live_on(Path(sys.argv[1]), json.loads(sys.argv[2]))"
    top = Path(__file__).parents[2]
    env = {**os.environ, **extra, "PYTHONPATH": f"{top}{os.pathsep}{top / 'daemon'}"}
    argv = [sys.executable, "-c", code, str(root), json.dumps(items)]
    return subprocess.Popen(argv, cwd=top, env=env, stdout=subprocess.PIPE, text=True)


def houses(repo: Path) -> Iterator[Callable[..., House]]:
    """For a fixture: opens houses with the given settings, of this repository or of another one, and closes them in the end."""
    opened: list[House] = []

    def open_house(root: Path = repo, **sections: Any) -> House:
        opened.append(House(root, settings_with(**sections)))
        return opened[-1]

    yield open_house
    for house in opened:
        house.close()
