"""Builds the daemon's parts. The jobs of the nouns are in :data:`JOBS`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from sqlalchemy import Connection

from corral.config.inodes import folder_id, repository_has_left
from corral.config.model import Settings
from corral.config.paths import Project
from corral.config.sections.sharing import MOST_SLOTS
from corral.config.sections.work import MOST_AT_ONCE
from corral.config.teams import teams_file
from corral.coordination.edits.runtime_state import RuntimeState
from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.services import Services
from corral.coordination.sessions.registry import UNTOLD
from corral.coordination.sessions.store import sessions as session_rows
from corral.coordination.settings import SettingsHolder
from corral.coordination.teams.holder import TeamsHolder
from corral.core import logs
from corral.core.changes import Changes
from corral.core.clock import now
from corral.core.instants import iso
from corral.core.needs import Fault
from corral.core.redaction import remember_secrets
from corral.core.steps import Step
from corral.daemon import damage, session_keeper
from corral.daemon.binding import Bound, hide_own_files, open_bound, refuse_what_a_clone_brought
from corral.daemon.jobs import Job
from corral.daemon.recovery import Recovery
from corral.daemon.reload import Reloader
from corral.daemon.stale_locks import StaleLocks
from corral.faces.hooks import held_files, unannounced
from corral.git.process import scratch
from corral.git.process.command import open_repository
from corral.landing import target_watch
from corral.landing.queue import Queue
from corral.landing.verify import dry_run
from corral.landing.verify.verification_context import VerificationContext, context_of
from corral.observe.alerts import watch as alerts
from corral.observe.alerts import webhook
from corral.observe.announcements import announcing
from corral.observe.audit import writing as audit
from corral.observe.events import log as event_log
from corral.observe.exports import exports
from corral.observe.metrics.latencies import Latencies
from corral.observe.retention import log_sealing, retention
from corral.observe.traces import export as traces
from corral.runners.api_key import ApiKeyHolder
from corral.runners.registry import Runners
from corral.work.agents import choices, improvements
from corral.work.merges.settling import merge_settled
from corral.work.roadmap import supervision as roadmap
from corral.work.tasks.leases import give_back
from corral.work.templates.project import journal
from corral.work.workers.supervisor import Supervisor
from corral.work.worktrees.allocation import WorktreeContext
from corral.work.worktrees.guardian import guardian
from corral.work.worktrees.guardian.guardian import Guardian
from corral.work.worktrees.worktrees import Worktrees

JOBS: tuple[Callable[[Services], Step], ...] = (
    target_watch.job, announcing.job, unannounced.job, session_keeper.job, roadmap.job, event_log.job, exports.job,
    alerts.job, webhook.job, audit.job, choices.job, improvements.job, log_sealing.job, retention.job, guardian.job,
    held_files.job,
)  # fmt: skip
"""The jobs of the nouns, beside those of the supervisor and of the queue."""

log = logs.logger("daemon")


@dataclass(frozen=True)
class Assembly:
    """The parts that the daemon's process runs and ends; requests know the services alone."""

    services: Services
    bound: Bound
    jobs: dict[str, Job]
    reloader: Reloader


def assemble(project: Project, pool: ThreadPoolExecutor) -> Assembly:
    """Open the database, recover what a dead daemon left, and build every part.

    Raises:
        CorralError: Settings, database or repository are not usable; nothing was changed.
    """
    git = open_repository(project.common_dir)
    if not project.bare:
        refuse_what_a_clone_brought(git)
        hide_own_files(project.common_dir)
    has_left = partial(repository_has_left, project.common_dir, folder_id(project.common_dir))
    logs.configure(project.logs_dir / logs.FILE, "INFO", 30, stderr=False, has_left=has_left)
    remember_secrets(os.environ)
    template_change = journal.recover(project)  # before the settings, which may be part of it, are read
    settings = SettingsHolder(project, git, os.environ)
    chosen = settings().logs
    logs.configure(project.logs_dir / logs.FILE, chosen.level, chosen.keep_days, stderr=False, has_left=has_left)
    settings.on_change.append(lambda new: logs.set_level(new.logs.level))
    for warning in settings.loaded.warnings:
        log.warning("config_warning", detail=str(warning))
    if settings.loaded.overrides:
        log.info("config_overrides", overrides=settings.loaded.overrides)
    if template_change is not None:
        log.warning("template_change_completed", backup=str(template_change.backup), left=list(template_change.left))
    bound = open_bound(project, git, now())
    db = bound.db
    if removed := scratch.sweep(git):
        log.info("temporary_folders_removed", count=removed)
    jobs: dict[str, Job] = {}
    changes = Changes()

    def nudge(name: str) -> None:
        for job_name in (name, "stale_locks", "announcements", "roadmap"):
            if (job := jobs.get(job_name)) is not None:
                job.nudge()
        changes.announce()

    teams = TeamsHolder(teams_file(project))

    def reload() -> None:
        settings.reload()
        teams.reload()
        _show_broken_settings(services)

    reloader = Reloader(reload, lambda: nudge("settings"))
    worktrees = WorktreeContext(
        db=db,
        project=project,
        repo=git,
        settings=settings,
        clock=now,
        project_id=bound.project_id,
        team=teams,
        untrusted=settings.untrusted,
        missing=partial(settings.answers.missing, project.common_dir),
        fold=git.run("config", "--type=bool", "--get", "core.ignoreCase").text.strip() == "true",
    )

    def session_over(conn: Connection, session_id: str, why: str, at: datetime) -> None:
        give_back(conn, session_id, why, at, settings().tasks)
        if why in UNTOLD:
            services.of(Guardian).over(conn, session_id)

    services = Services(
        project=project,
        project_id=bound.project_id,
        db=db,
        git=git,
        settings=settings,
        teams=teams,
        pool=pool,
        started_at=now(),
        fold=worktrees.fold,
        jobs=jobs,
        changes=changes,
        reload=reloader.ask,
        api_key=ApiKeyHolder(project, os.environ, now),
        runtime=RuntimeState(db.read(lock_rows.listing, iso(now()))),
        unannounced=unannounced.at_start(project, db.read(session_rows.watched), now()),
        offer_again=session_over,
    )
    _show_broken_settings(services)
    services.bring(worktrees, Worktrees(worktrees), Latencies())
    _bring_work(services, nudge)
    damage.watch(services)
    queue, supervisor = services.of(Queue), services.of(Supervisor)
    stale_locks = StaleLocks(db, git)
    workers, landings = _recover(services, stale_locks)
    steps = [
        Step("supervisor", workers.before(supervisor.step), pause_s=0.02, reads_settings=True),
        Step("landing", landings.before(queue.step)),
        Step("settings", reloader.step),
        Step("stale_locks", stale_locks.step),
        *(job(services) for job in JOBS),
        traces.job(services, bound.project_id),
    ]
    jobs.update({step.name: Job(step, services.faults) for step in steps})

    def apply_settings(_new: Settings) -> None:
        for step in steps:
            if step.reads_settings:
                nudge(step.name)
        queue.look_at_paused(now())
        nudge("landing")

    settings.on_change.append(apply_settings)
    readers = [jobs[step.name] for step in steps if step.reads_events]

    def committed() -> None:
        for reader in readers:
            reader.nudge()

    db.on_commit = committed
    return Assembly(services, bound, jobs, reloader)


def _bring_work(services: Services, nudge: Callable[[str], None]) -> None:
    """Add the supervisor and the queue, which spawn processes and wait for them."""
    settings, worktrees = services.settings, services.of(WorktreeContext)
    # A setup takes minutes: a verification must not wait behind the workers' setups.
    setups = ThreadPoolExecutor(MOST_SLOTS, thread_name_prefix="verify")
    # Starting takes as long as a worktree's setup. Where starts and ends share threads, the ends wait for them.
    attempts = ThreadPoolExecutor(settings().supervisor.ends_at_once, thread_name_prefix="attempt")
    starts = ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="start")
    supervisor = Supervisor(
        worktrees,
        Runners(settings, os.environ, services.api_key.value),
        spawn=lambda function: _spawn(attempts, function),
        spawn_start=lambda function: _spawn(starts, function),
        nudge=nudge,
        watch_exit=lambda await_exit: _watch(await_exit, lambda: nudge("supervisor")),
    )

    def landed() -> None:
        nudge("landing")
        nudge("supervisor")

    verification = context_of(worktrees, os.environ, lambda function: _spawn(setups, function), nudge)
    queue = Queue(
        verification,
        lambda: services.git,
        settings,
        lambda target: settings.for_target(target).landing,
        merge_settled(settings),
        landed,
        lambda await_exit: _watch(await_exit, lambda: nudge("landing")),
    )
    services.bring(supervisor, verification, queue)


def _show_broken_settings(services: Services) -> None:
    """Tell a person that files of the settings are broken, and others in force, for as long as they are."""
    fault, error = Fault(services.faults, "settings", "broken_settings"), services.settings.error
    if error is None:
        fault.end()
    else:
        what = f"The settings are broken, so the last valid ones are in force. {error.message} {error.cause}"
        fault.show(what, error.remedy, services.now())


def _recover(services: Services, stale_locks: StaleLocks) -> tuple[Recovery, Recovery]:
    """Recover what a dead daemon left; returns the recoveries that the supervisor's and the queue's jobs repeat on failure."""
    git, faults, worktrees = services.git, services.faults, services.of(Worktrees)
    verification = services.of(VerificationContext)
    workers = Recovery("workers", "Workers that a dead daemon left", services.of(Supervisor).recover, faults)
    landings = Recovery("landings", "Landings that a dead daemon left", services.of(Queue).recover, faults)
    title = "Lock files that a dead daemon left"
    locks_left = Recovery("locks", title, lambda _at: stale_locks.at_start(worktrees.own_folders()), faults)
    title = "What a power cut left of git's objects"
    objects = Recovery("objects", title, worktrees.after_power_cut, faults)
    title = "The worktree of a dry run of the verification"
    dry_runs = Recovery("dry_runs", title, lambda at: dry_run.take_down(git, verification, at), faults)
    for recovery in (locks_left, objects, dry_runs, landings, workers):
        recovery.run(now())
    return workers, landings


def _spawn(pool: ThreadPoolExecutor, function: Callable[[], None]) -> None:
    def run() -> None:
        try:
            function()
        except Exception:  # the edge of a thread; rows hold the truth, and the next step reads them again
            log.exception("work_failed", function=getattr(function, "__qualname__", str(function)))

    pool.submit(run)


def _watch(await_exit: Callable[[], None], ended: Callable[[], None]) -> None:
    """Call ``ended`` once a function has returned that blocks until a process ends."""

    def wait() -> None:
        await_exit()
        ended()

    threading.Thread(target=wait, name="watch", daemon=True).start()
