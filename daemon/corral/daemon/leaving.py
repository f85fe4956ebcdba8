"""The end of a daemon that may write nothing any more: its repository is gone from its path, or another daemon serves it."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum

from corral.config.paths import Project
from corral.coordination.services import Services
from corral.core import logs
from corral.daemon.jobs import Job
from corral.observe.exports.state_files import KEPT
from corral.runners.process import signal_each, survivors
from corral.runners.tags import PROJECT_MARK
from corral.work.workers.supervisor import Supervisor

GRACE_S = 2.0
"""Seconds from SIGTERM to SIGKILL for the processes of a repository that is gone."""

PATIENCE_S = 5.0
"""Seconds to wait for the jobs, and for processes after SIGKILL."""

_PUT_BACK = frozenset({"corral.db", "corral.db-wal", "corral.db-shm", "corral.db.next", "run", "logs"})
"""Everything in ``.corral/`` that a daemon restores after somebody removed it."""

_LEASES = "supervisor_leases.jsonl"
_EXPORTS = frozenset({"analytics", "evidence", _LEASES, *(f"{_LEASES}.{number}" for number in range(1, KEPT + 1))})
"""The same in the folder of the supervisor's files, which may also hold a person's roadmap."""

_LOCKS = frozenset({"corral.lock", "corral.worktrees"})
"""The same in the git directory."""

log = logs.logger("daemon")


class Reason(Enum):
    """Why a daemon leaves without writing."""

    MOVED = "The repository was moved or deleted; the daemon ends, and the next command goes on where it is now."
    DISPLACED = "The lock file was removed, and another daemon holds the new one: this one ends."


def leave(services: Services, jobs: Mapping[str, Job], project_id: str, reason: Reason) -> None:
    """End the jobs and, where the repository is gone, every process that carries the project's mark; bounded in time.

    Nothing is stored: the next start finds the tasks running and resumes them, as after a kill.
    """
    log.warning("leaving", message=reason.value, path=str(services.project.root))
    services.of(Supervisor).stop_all()
    for job in jobs.values():
        job.stop()
    if reason is Reason.MOVED:  # processes of another daemon on the same database carry the same mark
        _end_processes(project_id)
    deadline = time.monotonic() + PATIENCE_S
    for job in jobs.values():
        job.join(max(0.0, deadline - time.monotonic()))
    if reason is Reason.MOVED:
        _end_processes(project_id)
        _remove_restored_files(services.project)


def _end_processes(project_id: str) -> None:
    marks = {PROJECT_MARK: project_id}
    began = time.monotonic()
    signal_each(survivors(None, marks), signal.SIGTERM)
    while (alive := survivors(None, marks)) and time.monotonic() < began + GRACE_S + PATIENCE_S:
        if time.monotonic() > began + GRACE_S:
            signal_each(alive, signal.SIGKILL)
        time.sleep(0.1)


def _remove_restored_files(project: Project) -> None:
    """Remove files that were restored while somebody was deleting the repository; folders only if they hold nothing else."""
    if (project.common_dir / "HEAD").exists():
        return
    places = (
        (project.common_dir, _LOCKS),
        (project.home / "state", _EXPORTS),
        (project.home, _PUT_BACK),
        (project.root, frozenset[str]()),
    )
    for folder, ours in places:
        with suppress(OSError):  # it is gone
            if {entry.name for entry in folder.iterdir()} <= ours:
                shutil.rmtree(folder, ignore_errors=True)
