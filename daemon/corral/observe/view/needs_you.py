"""Conditions that need a person: first in every face, each with its reason and a command to type.

An entry is derived from rows wherever possible. Conditions without a row (a damaged file, a folder of another owner) stand in
``Services.faults`` from the moment it is noticed until it is gone.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from corral.config.links import linked_folders
from corral.config.paths import set_aside_databases
from corral.config.trust import not_trusted
from corral.config.worktree_root import CLEANER
from corral.coordination.edits.unannounced import is_locked
from corral.coordination.edits.verdicts import Target
from corral.coordination.locks.keys import literal_key
from corral.coordination.sessions.discovery import able
from corral.coordination.sessions.processes import terminal_of
from corral.coordination.sessions.registry import PERSON
from corral.coordination.sessions.store import sessions
from corral.core.errors import Unsupported
from corral.core.instants import iso
from corral.core.needs import MOST_OF_A_KIND, Need, rest
from corral.core.states import RunnerName, SessionStatus, ShownStatus
from corral.core.visible import one_line, waiting
from corral.observe.view import needs_of_alerts as alerts
from corral.observe.view import needs_of_landing as landing
from corral.store.rows import required
from corral.store.rows.sessions import SessionRow
from corral.work.agents.choices import unapproved
from corral.work.agents.store import choices, improvements, versions
from corral.work.roadmap.supervision import RoadmapSupervision
from corral.work.tasks import leases
from corral.work.tasks.store import lists, tasks, work_pause
from corral.work.workers.limits import Parked, Throttle
from corral.work.workers.supervisor import MORE_WORKERS, Supervisor
from corral.work.worktrees import store as worktrees
from corral.work.worktrees.allocation import WorktreeContext
from corral.work.worktrees.ownership import left_worktrees

if TYPE_CHECKING:
    from corral.coordination.services import Services


# -- Needs of a person for tasks to run: pauses, limits, starts that fail, workers and worktrees in trouble

FAULTS_TO_TELL = 3
"""Starts of one task that the machine prevented in a row, after which a person should look."""

OF_A_DAY = ("limits.tokens_per_day", "limits.cost_usd_per_day")
"""Limits that hold work back for hours."""

LONG_PARK = timedelta(minutes=15)
"""A usage limit of a model that lasts as long or longer is shown to a person."""


def paused_work(_services: Services, conn: Connection) -> Iterator[Need]:
    """A pause that a person ordered."""
    pause = work_pause.current(conn)
    if pause is not None:
        yield Need("paused_work", work_pause.described(pause), "corral resume", pause["since_at"])


def paused_claiming(services: Services, _conn: Connection) -> Iterator[Need]:
    """No task is started, since starts keep failing."""
    pause = services.of(Supervisor).pause
    if pause is not None:
        yield Need(
            "paused_claiming",
            f"No task is started, since {pause.failures} starts failed in a row: {pause.reason}",
            f"{pause.remedy} One start is tried now and then, and all go on once it succeeds.",
            iso(pause.since),
        )


def limits_reached(services: Services, _conn: Connection) -> Iterator[Need]:
    """Limits that a person may want to raise; memory and requests per minute become free soon by themselves."""
    now = services.now()
    for hold in services.of(Supervisor).throttles:
        if isinstance(hold, Throttle):
            if hold.limit in OF_A_DAY:
                remedy = f"Wait until it is below; or raise `{hold.limit}` in .corral/config.yaml."
                yield Need("limit_reached", hold.reason, remedy)
        elif isinstance(hold, Parked) and hold.until - now >= LONG_PARK:
            yield Need("limit_reached", hold.reason, "Wait until then; or raise the limit with the model's provider.")


def tasks_that_cannot_start(services: Services, conn: Connection) -> Iterator[Need]:
    """Tasks whose starts the machine prevented again and again."""
    if services.of(Supervisor).pause is not None:  # the pause covers all of them
        return
    for row in tasks.cannot_start(conn, FAULTS_TO_TELL):
        reason = f"could not be started {row['faults']} times: {row['error_message']}"
        yield Need(
            "task_cannot_start",
            f"{row['title']!r} {reason}",
            f"corral task detail {row['task_id'][:8]}",
            None,
            {"task_id": row["task_id"]},
            row["title"],
            reason,
        )


def tasks_that_nobody_can_do(services: Services, conn: Connection) -> Iterator[Need]:
    """Tasks that require what nobody here is capable of, or for sessions, what no session has and no agent of the project."""
    rows = tasks.requiring(conn)
    if not rows:
        return
    gate, roster = services.of(Supervisor).gate, services.roster()
    able_sessions = able(conn, sessions.live(conn), services.teams().capabilities)
    present = [*(row["capabilities"] for row in able_sessions), *(agent.capabilities for agent in roster.known())]
    sets = [{capability.casefold() for capability in capabilities} for capabilities in present]
    for row in rows:
        required = (row["agent_requirements"] or {}).get("capabilities", [])
        reason = gate.lacking(row)
        if row["runner"] is None and not any({word.casefold() for word in required} <= known for known in sets):
            reason = f"No session and no agent here is capable of {one_line(', '.join(required))}."
        if reason is not None:
            yield Need(
                "nobody_capable",
                f"{one_line(row['title'])!r} waits: {reason}",
                "Add somebody who is to .corral/teams.yaml or .claude/agents: it then starts by itself. "
                f"To drop it: corral task cancel {row['task_id'][:8]}",
                row["created_at"],
                {"task_id": row["task_id"]},
                row["title"],
                f"waits: {reason}",
            )


def tasks_without_workers(services: Services, conn: Connection) -> Iterator[Need]:
    """Tasks that wait for a person: for workers, if none may start, and for sessions, if there is none."""
    if work_pause.current(conn) is not None:  # that is told first
        return
    if not services.settings().supervisor.max_agents and (
        any(tasks.is_any_pending(conn, name) for name in RunnerName)
        or services.of(RoadmapSupervision).is_any_pending(conn)
    ):
        reason = "Tasks wait for a worker, and none starts, since supervisor.max_agents is 0."
        yield Need("no_workers", reason, MORE_WORKERS)
    if any(row["agent_type"] != PERSON for row in sessions.live(conn)):
        return
    offered = leases.offered_to(conn, iso(services.now()), who=leases.Claimant(""))
    ids = [row["task_id"] for row in islice(offered, MOST_OF_A_KIND)]
    if ids:
        title = one_line(lists.titles(conn, ids[:1])[ids[0]])
        others = f" and {len(ids) - 1} more wait" if ids[1:] else " waits"
        yield Need(
            "unclaimed_task",
            f"{title!r}{others} until a session takes it, and none is here.",
            "Start one (`claude`), or do it yourself: corral task claim",
            number=len(ids),
        )


def unobserved_workers(services: Services, conn: Connection) -> Iterator[Need]:
    """Workers whose output and end the supervisor cannot see just now, or that do not end."""
    reasons = services.of(Supervisor).unobserved()
    titles = lists.titles(conn, [*reasons])
    for task_id, reason in reasons.items():
        named = f"{one_line(titles[task_id])!r} ({task_id[:8]})" if task_id in titles else task_id[:8]
        yield Need(
            "unobserved_worker",
            f"The worker of task {named} {reason}",
            f"Fix what the reason names; or: corral task cancel {task_id[:8]}",
            ids={"task_id": task_id},
        )


def kept_worktrees(_services: Services, conn: Connection) -> Iterator[Need]:
    """Worktrees that are broken, or kept because their folder fails a proof."""
    held = worktrees.noted(conn)
    titles = lists.titles(conn, [row["task_id"] for row in held if row["task_id"]])
    for row in held:
        whose = f" of {one_line(titles[row['task_id']])!r}" if row["task_id"] in titles else ""
        why, _, remedy = required(row["note"]).partition("\n")
        yield Need(
            "kept_worktree",
            f"The worktree {row['name']}{whose} is held: {why}",
            remedy or "corral worktree list",
            ids={"worktree_id": row["worktree_id"], **({"task_id": row["task_id"]} if row["task_id"] else {})},
        )


def unknown_worktrees(services: Services, conn: Connection) -> Iterator[Need]:
    """Worktrees of Corral's that no row knows: their database is gone, and nothing else would tell of the work in them."""
    known = {row["path"].rpartition("/")[2] for row in worktrees.listing(conn)}
    for path, branch in left_worktrees(services.project.common_dir, services.started_at):
        if path.name not in known:
            yield Need(
                "unknown_worktree",
                f"{path} has the branch {branch}, of a task that the database does not know.",
                f"Commit what you want of it, and land it: corral merge submit {shlex.quote(branch)}; "
                f"then: git worktree remove {shlex.quote(str(path))}",
            )


# -- Needs of a person in sessions: questions, edits that nobody checks, silence, and changes that nobody announced


def waiting_sessions(_services: Services, conn: Connection) -> Iterator[Need]:
    """Sessions that wait for a permission or an answer in the middle of a turn."""
    for row in sessions.live(conn):
        if row["waiting_for"] is None or row["status"] != SessionStatus.ACTIVE:
            continue
        file = f" of {one_line(_relative(row))}" if row["waiting_path"] else ""
        yield Need(
            "waiting_session",
            f"{row['agent_name']} {waiting(one_line(row['waiting_for']))}{file}.{_task_of(conn, row)}",
            f"Answer {_place(row)}. Or end it: corral session end {row['agent_name']}",
            row["waiting_since_at"],
            {"session_id": row["session_id"], **({"task_id": row["task_id"]} if row["task_id"] else {})},
        )


def _place(row: SessionRow) -> str:
    """Where a session is answered: the terminal by its name, as `tty` prints it there, or what else is known."""
    pid = row["client_pid"]
    if pid is None:
        return "in its terminal"
    named = terminal_of(pid)
    return f"in its terminal {named} (process {pid})" if named else f"where it runs (process {pid})"


def _relative(row: SessionRow) -> str:
    """The file that a session asks about, as its own worktree calls it."""
    path, top = required(row["waiting_path"]), row["worktree"] or row["cwd"] or ""
    return path[len(top) + 1 :] if top and path.startswith(f"{top}/") else path


def _task_of(conn: Connection, row: SessionRow) -> str:
    """A sentence that names what a session works on; empty where nobody knows."""
    task = tasks.get(conn, row["task_id"]) if row["task_id"] else None
    if task is not None:
        return f" Its task: {one_line(task['title'])[:80]!r}"
    return f" It was asked: {one_line(row['current_task'])[:80]}" if row["current_task"] else ""


def unguarded_sessions(_services: Services, conn: Connection) -> Iterator[Need]:
    """Sessions whose edits are not checked."""
    for row in sessions.live(conn):
        if row["unguarded_since_at"] is not None:
            yield Need(
                "unguarded_session",
                f"{row['agent_name']}'s edits are not checked: its bridge is not connected.{_task_of(conn, row)}",
                "In that session: /mcp reconnect plugin:corral:corral, then any prompt, which tells Corral; or start it again. "
                "`corral doctor` looks for the cause.",
                row["unguarded_since_at"],
                {"session_id": row["session_id"]},
            )


def silent_mods(services: Services, conn: Connection) -> Iterator[Need]:
    """Sessions whose hooks are heard, and whose mod is not there: hooks alone can be switched off in the midst of a session."""
    for row in sessions.live(conn):
        if services.mods.is_silent(row["session_id"]):
            yield Need(
                "silent_mod",
                f"{row['agent_name']} runs without Corral's mod: its hooks guard it alone.{_task_of(conn, row)}",
                "Start that session again. If it stays so, `claude --debug` says why; an administrator may have forbidden mods.",
                None,
                {"session_id": row["session_id"]},
            )


def stalled_sessions(_services: Services, conn: Connection) -> Iterator[Need]:
    """Sessions without a heartbeat in the middle of a turn; a worker that stalls is ended by the supervisor."""
    for row in sessions.live(conn):
        if sessions.shown_status(row) != ShownStatus.STALLED:
            continue
        if row["task_id"] is not None:  # the supervisor ends a worker that makes no progress
            continue
        yield Need(
            "stalled_session",
            f"{row['agent_name']} gives no sign in the middle of its turn since {row['last_heartbeat']}.{_task_of(conn, row)}",
            "Look at its terminal. Take its locks (corral lock force-release PATH), or end it: "
            f"corral session end {row['agent_name']}",
            row["stalled_since_at"],
            {"session_id": row["session_id"]},
        )


def unannounced_changes(services: Services, conn: Connection) -> Iterator[Need]:
    """Files that changed while no daemon ran, until a session locks, changes or commits them."""
    now = services.now()
    for top, files in services.unannounced.files().items():
        keys = {path: Target(literal_key(path, fold=services.fold), top) for path, _signature in files.values()}
        paths = [path for path, target in sorted(keys.items()) if not is_locked(conn, target, now)]
        if not paths:
            continue
        shown = ", ".join(one_line(path) for path in paths[:5]) + (f" and {len(paths) - 5} more" if paths[5:] else "")
        files_named = [f"{top}/{path}" for path in paths[:5]]
        yield Need(
            "unannounced_changes",
            f"{len(paths)} uncommitted file{'s' if paths[1:] else ''} in {top} changed while Corral's daemon was away, "
            f"and nobody announced it: {shown}.",
            f"Look whose they are: {shlex.join(['git', '-C', top, 'status', '--', *paths[:5]])}. "
            f"Commit yours, or take them: {shlex.join(['corral', 'lock', 'acquire', '--', *files_named])}",
        )


# -- Needs of a person in the project itself: its files, its databases, its approvals, its roadmap


def faults(services: Services, _conn: Connection) -> Iterable[Need]:
    """Conditions that are in no row, as the parts that noticed them say."""
    return list(services.faults.values())


def untrusted_commands(services: Services, conn: Connection) -> Iterator[Need]:
    """Commands in the project's files, and in versions of agents that are chosen, that nobody approved."""
    if commands := [*services.settings.untrusted(), *unapproved(conn, services)]:
        error = not_trusted(commands)
        yield Need("untrusted_commands", f"{error.message} {error.cause}", "corral trust")


def foreign_databases(services: Services, _conn: Connection) -> Iterator[Need]:
    """Databases of other repositories that were set aside here."""
    for file in set_aside_databases(services.project):
        yield Need(
            "foreign_database",
            f"{file} is the database of another repository, which was copied or restored to here; none of it is executed.",
            f"To go on with its tasks here: corral daemon stop, then corral daemon adopt {shlex.quote(str(file))}. "
            "Else move it away, or delete it.",
        )


def links(services: Services, _conn: Connection) -> Iterator[Need]:
    """Folders of Corral's own that are symbolic links."""
    for error in linked_folders(services.project):
        yield Need("linked_folder", f"{error.message} {error.cause}", error.remedy)


def unwritable_logs(services: Services, _conn: Connection) -> Iterator[Need]:
    """A folder of logs that cannot be written."""
    folder = services.project.unwritable_logs
    if folder is not None:
        what = f"{folder} cannot be written: logs go to {services.project.logs_dir} meanwhile."
        yield Need(
            "unwritable_logs", what, f"Make {folder} a folder that you can write; what is logged elsewhere stays there."
        )


def place_of_worktrees(services: Services, _conn: Connection) -> Iterator[Need]:
    """A worktree root that cannot be used, or below files that tools find there and that no candidate contains."""
    try:
        warning, remedy = services.of(WorktreeContext).places.choose().warning(), CLEANER
    except Unsupported as error:
        warning, remedy = f"{error.message} {error.cause}", error.remedy
    if warning is not None:
        yield Need("place_of_worktrees", warning, remedy)


def roadmap_problems(services: Services, _conn: Connection) -> Iterator[Need]:
    """Problems of the roadmap's file."""
    for problem in services.of(RoadmapSupervision).problems():
        line = f" (line {problem.line})" if problem.line is not None and problem.task_id is not None else ""
        about = f"The roadmap task {problem.task_id}{line}: " if problem.task_id is not None else ""
        yield Need(
            "roadmap_problem",
            one_line(f"{about}{problem.message}"),
            f"{problem.remedy or f'Correct {services.of(RoadmapSupervision).path}; Corral then continues automatically.'} "
            "All of them: corral supervisor status",
            ids={"roadmap_id": problem.task_id} if problem.task_id is not None else {},
        )


def unapproved_roadmap(services: Services, conn: Connection) -> Iterator[Need]:
    """Tasks of the roadmap that wait until a person approved what they execute."""
    if claims := services.of(RoadmapSupervision).waiting_for_approval(conn):
        ids = [one_line(claim.key.partition(".")[2]) for claim in claims]
        shown = ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if ids[5:] else "")
        what = f"Tasks of the roadmap wait until you have approved what they execute: {shown}."
        yield Need("unapproved_roadmap", what, "corral trust")


# -- Needs of a person for agents: a version that was rolled back, a rollout that stopped by itself, an improvement
# that ended

SHOWN_FOR = timedelta(days=14)
"""How long an improvement waits for a decision here; `corral agent improve NAME --status` shows it later too."""


def ended_rollouts(_services: Services, conn: Connection) -> Iterator[Need]:
    """Rollouts that ended by themselves, until somebody has looked at them."""
    for row in choices.unseen(conn):
        if row["share"] is None or row["reason"] is None:
            continue
        version = versions.by_hash(conn, row["agent"], row["content_hash"])
        what = "was rolled back" if row["state"] == "rolled_back" else "stopped"
        number = version["version"] if version else row["content_hash"][:12]
        yield Need(
            "ended_rollout",
            f"The rollout of {row['agent']} {number} {what}: {row['reason']}",
            f"corral agent rollout stop {row['agent']}",
            row["ended_at"],
            {"agent": row["agent"]},
        )


def ended_improvements(services: Services, conn: Connection) -> Iterator[Need]:
    """Improvements that failed, or whose recommended version is neither deployed nor rolled out."""
    for row in improvements.undecided(conn, iso(services.now() - SHOWN_FOR)):
        agent, report = row["agent"], row["report"]
        if row["state"] == "failed":
            what, remedy = f"failed: {row['reason']}", f"corral agent improve {agent} --resume"
        elif report and report["recommendation"] == "deploy" and not report["deployed"]:
            what, remedy = f"recommends its version: {report['why']}", f"corral agent improve {agent} --deploy"
        else:
            continue
        yield Need("ended_improvement", f"The improvement of {agent} {what}", remedy, row["ended_at"], {"agent": agent})


Source = Callable[["Services", Connection], Iterable[Need]]


STOPS_ALL = frozenset(
    {
        "paused_work",
        "untrusted_commands",
        "paused_claiming",
        "stuck_checkout",
        "frozen_target",
        "paused_target",
        "remote_target",
        "rewound_target",
        "red_target",
        "not_recovered",
    }
    | {"database_damaged", "outdated_daemon"}
)
"""Kinds that keep whatever is open from going on."""


def needs_you_for(services: Services, conn: Connection, ids: set[str], targets: set[str]) -> list[dict[str, Any]]:
    """The needs of a person that block these tasks and merge requests.

    Args:
        targets: The short names of their targets: what stops another target does not concern them.
    """
    return [need.to_wire() for need in every_need(services, conn) if _blocks(need, ids, targets)]


def _blocks(need: Need, ids: set[str], targets: set[str]) -> bool:
    stops_all = need.kind in STOPS_ALL and need.ids.get("target") in (None, *targets)
    return stops_all or not ids.isdisjoint(need.ids.values())


def needs_you(conn: Connection, services: Services) -> list[dict[str, Any]]:
    """Everything that needs a person, in the order of :data:`SOURCES`; of many of a kind one entry stands for the last ones.

    Runs in a read transaction.
    """
    needs: list[Need] = []
    for source in SOURCES:
        numbers: Counter[tuple[str, str | None]] = Counter()
        for need in source(services, conn):
            numbers[need.kind, need.outcome] += 1
            if numbers[need.kind, need.outcome] <= MOST_OF_A_KIND:
                needs.append(need)
        for (kind, outcome), number in numbers.items():
            if number > MOST_OF_A_KIND:
                needs.append(rest(kind, outcome, number - MOST_OF_A_KIND))
    return [need.to_wire() for need in (*needs, *landing.first_failures(conn))]


def every_need(services: Services, conn: Connection) -> Iterator[Need]:
    """The same, each by itself, however many there are."""
    yield from (need for source in SOURCES for need in source(services, conn))
    yield from landing.failures(conn)


SOURCES: tuple[Source, ...] = (
    faults,
    foreign_databases,
    links,
    unwritable_logs,
    place_of_worktrees,
    paused_work,
    untrusted_commands,
    paused_claiming,
    limits_reached,
    alerts.open_alerts,
    tasks_that_cannot_start,
    tasks_that_nobody_can_do,
    tasks_without_workers,
    ended_rollouts,
    ended_improvements,
    unobserved_workers,
    kept_worktrees,
    unknown_worktrees,
    landing.rewound_targets,
    landing.stuck_checkouts,
    landing.frozen_targets,
    landing.paused_targets,
    landing.remote_targets,
    landing.red_targets,
    landing.held_merges,
    landing.unverified_merges,
    landing.unpublished_branches,
    waiting_sessions,
    unguarded_sessions,
    silent_mods,
    stalled_sessions,
    unannounced_changes,
    unapproved_roadmap,
    roadmap_problems,
)
"""The sources of conditions that need a person, the most urgent first; after them come the failures."""
