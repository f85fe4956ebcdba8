"""Putting the daemon's parts together: the one place that knows which part needs which other."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from corral import __version__
from corral.config.inodes import folder_id, repository_has_left
from corral.config.model import Settings
from corral.config.paths import Project
from corral.config.sections.work import MOST_AT_ONCE
from corral.config.teams import teams_file
from corral.coordination.services import Services
from corral.coordination.sessions.store import sessions as session_rows
from corral.coordination.settings import SettingsHolder
from corral.coordination.teams.holder import TeamsHolder
from corral.core import logs
from corral.core.changes import Changes
from corral.core.clock import now
from corral.core.inputs import Prepared
from corral.core.redaction import redact, remember_secrets
from corral.daemon import damage
from corral.daemon.binding import Bound, open_bound
from corral.daemon.jobs import Job
from corral.daemon.recovery import Recovery
from corral.daemon.reload import Reloader
from corral.daemon.session_keeper import SessionKeeper
from corral.daemon.stale_locks import StaleLocks
from corral.daemon.trust import refuse_what_a_clone_brought
from corral.faces.hooks.unannounced import UnannouncedChanges, at_start
from corral.git.process import scratch
from corral.git.process.command import Git, open_repository
from corral.git.refs import oid
from corral.landing.queue import Queue
from corral.landing.target_watch import TargetWatch
from corral.landing.verify import dry_run, verification_worktree
from corral.landing.verify.verification_run import VerificationContext
from corral.observe.alerts.desktop import Desktop
from corral.observe.alerts.watch import PAUSE_S as ALERTS_PAUSE_S
from corral.observe.alerts.watch import AlertWatch
from corral.observe.alerts.webhook import SigningSecret, Webhook
from corral.observe.announcements.announcing import Announcer
from corral.observe.audit.settings import settings_changes
from corral.observe.audit.tool_calls import note_worker
from corral.observe.audit.trail import AuditTrail
from corral.observe.audit.writing import PAUSE_S as AUDIT_PAUSE_S
from corral.observe.audit.writing import AuditWriter
from corral.observe.events.log import PAUSE_S, EventLog
from corral.observe.exports.exports import PAUSE_S as EXPORTS_PAUSE_S
from corral.observe.exports.exports import Exports
from corral.observe.metrics.latencies import Latencies
from corral.observe.retention.collection import Collection
from corral.observe.retention.log_sealing import LogSealer
from corral.observe.retention.retention import Retention
from corral.observe.traces.export import PAUSE_S as TRACES_PAUSE_S
from corral.observe.traces.export import TraceExport
from corral.runners.anthropic import AnthropicRunner
from corral.runners.api_key import ApiKeyHolder
from corral.runners.claude import ClaudeRunner
from corral.runners.command import CommandRunner
from corral.runners.protocol import Runner
from corral.runners.tags import VERIFICATION_MARK
from corral.work.agents.choices import step as rollouts_step
from corral.work.agents.improvements import step as improvements_step
from corral.work.merges.settling import merge_settled
from corral.work.roadmap.supervision import RoadmapSupervision
from corral.work.tasks.leases import give_back
from corral.work.tasks.submitting import settle
from corral.work.templates.project import journal
from corral.work.workers.supervisor import Supervisor
from corral.work.worktrees.allocation import WorktreeContext
from corral.work.worktrees.recipes import DEEPEST, of_files
from corral.work.worktrees.trial import preparation
from corral.work.worktrees.worktrees import Worktrees

FIRST_FREE_PORT = 1024

LOG_NAME = "corral.log"

log = logs.logger("daemon")


@dataclass(frozen=True)
class Assembly:
    """The parts that the daemon's process runs and ends; requests know the services alone."""

    services: Services
    bound: Bound
    jobs: dict[str, Job]
    event_log: EventLog
    exports: Exports
    audit: AuditWriter
    reloader: Reloader


def assemble(project: Project, pool: ThreadPoolExecutor) -> Assembly:
    """Open the database, recover what a dead daemon left, and build every part.

    Raises:
        CorralError: Settings, database or repository are not usable; nothing was changed.
    """
    git = open_repository(project.common_dir)
    if not project.bare:
        refuse_what_a_clone_brought(git)
    has_left = partial(repository_has_left, project.common_dir, folder_id(project.common_dir))
    logs.configure(project.logs_dir / LOG_NAME, "INFO", 30, stderr=False, has_left=has_left)
    remember_secrets(os.environ)
    template_change = journal.recover(project)  # before the settings, which may be part of it, are read
    settings = SettingsHolder(project, git, os.environ)
    chosen = settings().logs
    logs.configure(project.logs_dir / LOG_NAME, chosen.level, chosen.keep_days, stderr=False, has_left=has_left)
    settings.on_change.append(lambda new: logs.set_level(new.logs.level))
    for warning in settings.loaded.warnings:
        log.warning("config_warning", detail=str(warning))
    if settings.loaded.overrides:
        log.info("config_overrides", overrides=settings.loaded.overrides)
    if template_change is not None:
        log.warning("template_change_completed", backup=str(template_change.backup), left=list(template_change.left))
    bound = open_bound(project, git, now())
    db = bound.db
    if left := scratch.sweep(git):
        log.info("temporary_folders_removed", count=left)
    jobs: dict[str, Job] = {}
    changes = Changes()

    def nudge(name: str) -> None:
        for one in (name, "stale_locks", "announcements", "roadmap"):
            if (job := jobs.get(one)) is not None:
                job.nudge()
        changes.announce()

    teams = TeamsHolder(teams_file(project))

    def reload() -> None:
        settings.reload()
        teams.reload()

    worktree_context = WorktreeContext(
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
    # A setup takes minutes: nobody who asks waits behind those of the workers.
    setups = ThreadPoolExecutor(1, thread_name_prefix="verify")
    # Starting takes as long as a worktree's setup. Where starts and ends share threads, the ends wait for them.
    attempts = ThreadPoolExecutor(settings().supervisor.ends_at_once, thread_name_prefix="attempt")
    starts = ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="start")
    api_key = ApiKeyHolder(project, os.environ, now)
    supervisor = Supervisor(
        worktree_context,
        _Runners(settings, api_key),
        spawn=lambda function: _spawn(attempts, function),
        spawn_start=lambda function: _spawn(starts, function),
        nudge=nudge,
        watch_exit=lambda pid: _watch(pid, lambda: nudge("supervisor")),
    )

    def landed() -> None:
        nudge("landing")
        nudge("supervisor")

    verification_context = VerificationContext(
        db,
        project,
        bound.project_id,
        worktree_context.places,
        partial(_made_usable, worktree_context),
        os.environ,
        spawn=lambda function: _spawn(setups, function),
        ready=lambda: nudge("landing"),
        unsealed=lambda: nudge("log_sealing"),
        recipes=partial(_recipes_of, worktree_context, lru_cache(2)(partial(_files_of, git))),
    )
    queue = Queue(
        verification_context,
        lambda: git,
        settings,
        lambda target: settings.for_target(target).landing,
        merge_settled(settings),
        landed,
        lambda pid: _watch(pid, lambda: nudge("landing")),
    )
    reloader, event_log = Reloader(reload, lambda: nudge("settings")), EventLog(db, project.logs_dir / LOG_NAME)
    services = Services(
        project=project,
        db=db,
        git=git,
        settings=settings,
        teams=teams,
        pool=pool,
        started_at=now(),
        fold=worktree_context.fold,
        jobs=jobs,
        changes=changes,
        reload=reloader.ask,
        api_key=api_key,
        unannounced=at_start(project, db.read(session_rows.watched), now()),
        offer_again=lambda conn, session_id, why, at: give_back(conn, session_id, why, at, settings().tasks),
    )
    worktrees, trail = Worktrees(worktree_context), AuditTrail()
    roadmap = RoadmapSupervision(
        db,
        project,
        settings,
        partial(settle, services),
        partial(settings.answers.missing, project.common_dir),
        lambda: services.nudge("supervisor"),
    )
    services.bring(worktree_context, supervisor, queue, verification_context, worktrees, roadmap, trail, Latencies())
    damage.watch(services)

    def apply_settings(_new: Settings) -> None:
        services.nudge("supervisor")
        services.nudge("sessions")
        services.nudge("webhook")
        services.nudge("traces")
        services.nudge("alerts")
        queue.look_at_paused(now())
        services.nudge("landing")

    settings.on_change.append(apply_settings)
    faults = services.faults
    stale_locks = StaleLocks(db, git)

    title = "Lock files that a dead daemon left"
    locks_left = Recovery("locks", title, lambda _at: stale_locks.at_start(worktrees.own_folders()), faults)
    landings = Recovery("landings", "Landings that a dead daemon left", queue.recover, faults)
    workers = Recovery("workers", "Workers that a dead daemon left", supervisor.recover, faults)
    title = "The worktree of a dry run of the verification"
    dry_runs = Recovery("dry_runs", title, lambda at: dry_run.take_down(git, verification_context, at), faults)
    for recovery in (locks_left, dry_runs, landings, workers):
        recovery.run(now())
    jobs["supervisor"] = Job("supervisor", workers.before(supervisor.step), faults=faults)
    jobs["landing"] = Job("landing", landings.before(queue.step), faults=faults)
    jobs["targets"] = Job("targets", TargetWatch(queue.rewinds, git, partial(nudge, "landing")).step, faults=faults)
    jobs["settings"] = Job("settings", reloader.step, faults=faults)
    jobs["stale_locks"] = Job("stale_locks", stale_locks.step, faults=faults)
    jobs["announcements"] = Job(
        "announcements", Announcer(db, git, services.changes.announce).step, pause_s=0.1, faults=faults
    )
    jobs["unannounced"] = Job("unannounced", UnannouncedChanges(services).step, pause_s=0.2, faults=faults)
    jobs["sessions"] = Job("sessions", SessionKeeper(services).step, pause_s=0.2, faults=faults)
    jobs["roadmap"] = Job("roadmap", roadmap.step, pause_s=0.2, faults=faults)
    jobs["event_log"] = Job("event_log", event_log.step, pause_s=PAUSE_S, faults=faults)

    def state_dir() -> Path:
        return project.state_dir(settings().supervisor.state_dir)

    files = Exports(db, project, git, state_dir, faults)
    jobs["exports"] = Job("exports", files.step, pause_s=EXPORTS_PAUSE_S, faults=faults)
    watch = AlertWatch(services, Desktop(faults))
    jobs["alerts"] = Job("alerts", watch.step, pause_s=ALERTS_PAUSE_S, faults=faults)
    webhook = Webhook(
        db,
        lambda: settings().notifications,
        settings.webhook,
        SigningSecret(os.environ),
        lambda: jobs["webhook"].nudge(),
        services.changes.announce,
        faults,
    )
    jobs["webhook"] = Job("webhook", webhook.step, faults=faults)
    audit = AuditWriter(db, trail, project, state_dir, faults)
    jobs["audit"] = Job("audit", audit.step, pause_s=AUDIT_PAUSE_S, faults=faults)
    trail.on_note = jobs["audit"].nudge
    settings.on_change.append(settings_changes(services))
    supervisor.on_tool_calls = partial(note_worker, trail)
    traces = TraceExport(
        db,
        settings,
        settings.traces_url,
        {
            "service.name": "corral",
            "service.version": __version__,
            "service.instance.id": bound.project_id,
            "corral.project": redact(project.root.name),
        },
        lambda: jobs["traces"].nudge(),
        services.changes.announce,
        faults,
    )
    jobs["rollouts"] = Job("rollouts", partial(rollouts_step, services), pause_s=1.0, faults=faults)
    jobs["improvements"] = Job("improvements", partial(improvements_step, services), pause_s=1.0, faults=faults)
    jobs["traces"] = Job("traces", traces.step, pause_s=TRACES_PAUSE_S, faults=faults)
    readers = (
        jobs["event_log"],
        jobs["exports"],
        jobs["audit"],
        jobs["alerts"],
        jobs["traces"],
        jobs["rollouts"],
        jobs["improvements"],
    )

    def committed() -> None:
        for reader in readers:
            reader.nudge()

    db.on_commit = committed
    retention = Retention(
        db, git, project, lambda: settings().retention, faults, lambda: services.stopping, state_dir=state_dir
    )
    services.bring(watch, Collection(retention))
    jobs["log_sealing"] = Job("log_sealing", LogSealer(project.logs_dir, faults).step, faults=faults)
    jobs["retention"] = Job("retention", retention.step, faults=faults)
    return Assembly(services, bound, jobs, event_log, files, audit, reloader)


def _made_usable(
    worktree_context: WorktreeContext, own: verification_worktree.VerificationWorktree, tip_sha: str
) -> Prepared:
    """Make a verification worktree usable.

    Its ports lie just below those of the allocated ones, a dry run's below these: both may run at once.
    """
    chosen = worktree_context.settings().worktrees
    path = own.path
    blocks_below = 2 if own.slot == dry_run.SLOT else 1
    ports = chosen.port_first - blocks_below * chosen.ports_each
    port_base = ports if chosen.ports_each and ports >= FIRST_FREE_PORT else None
    place = preparation.Place(path, own.name, port_base, {VERIFICATION_MARK: str(path)}, own.prove)
    return preparation.prepare(worktree_context, place, tip_sha)


def _recipes_of(
    worktree_context: WorktreeContext, files_of: Callable[[str], list[str]], commit: str
) -> list[dict[str, object]]:
    """The content of the recipes that apply to a commit."""
    chosen = of_files(worktree_context.recipes, worktree_context.settings().worktrees.recipes, files_of(commit))
    return [recipe.model_dump(mode="json") for recipe in chosen]


def _files_of(git: Git, commit: str) -> list[str]:
    """The files of a commit in which a recipe may find its project."""
    listed = git.check("ls-tree", "-r", "-z", "--name-only", oid(commit)).names
    return [path for path in listed if path.count("/") < DEEPEST]


class _Runners(Mapping[str, Runner]):
    """The runners by name, made when one is asked for: each start follows the settings of its moment."""

    def __init__(self, settings: Callable[[], Settings], api_key: ApiKeyHolder) -> None:
        self._settings = settings
        self._api_key = api_key

    def __getitem__(self, name: str) -> Runner:
        chosen = self._settings()
        grace_s = chosen.supervisor.stop_grace_s
        if name == CommandRunner.name:
            return CommandRunner(os.environ, stop_grace_s=grace_s)
        if name == ClaudeRunner.name:
            return ClaudeRunner(os.environ, command=chosen.runners.claude.command, stop_grace_s=grace_s)
        if name == AnthropicRunner.name:
            most = chosen.runners.anthropic.max_tokens_per_answer
            find_key = self._api_key.value
            return AnthropicRunner(os.environ, find_key, max_tokens_per_answer=most, stop_grace_s=grace_s)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter((CommandRunner.name, ClaudeRunner.name, AnthropicRunner.name))

    def __len__(self) -> int:
        return 3


def _spawn(pool: ThreadPoolExecutor, function: Callable[[], None]) -> None:
    def run() -> None:
        try:
            function()
        except Exception:  # the edge of a thread; rows hold the truth, and the next step looks again
            log.exception("work_failed", function=getattr(function, "__qualname__", str(function)))

    pool.submit(run)


def _watch(pid: int, ended: Callable[[], None]) -> None:
    """Call ``ended`` when a child process ends, without taking its exit status from the code that waits for it."""

    def wait() -> None:
        try:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        except (ChildProcessError, AttributeError):
            return  # gone already, or a system without waitid: the regular look finds it
        ended()

    threading.Thread(target=wait, name=f"watch-{pid}", daemon=True).start()
