"""Conditions that need a person: first in every status, each with its reason and a command to type.

An entry is derived from rows wherever possible. Conditions without a row (a damaged file, a folder of another owner) stand in
``Services.faults`` from the moment it is noticed until it is gone.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from corral.app.runtime.needs import Need
from corral.config.links import linked_folders
from corral.config.trust import not_trusted
from corral.coordination.edits.unannounced import is_locked
from corral.coordination.edits.verdicts import Target
from corral.coordination.locks.keys import literal_key
from corral.models.instants import iso
from corral.models.merges import needs_approval, waits_for_red_target
from corral.models.remedies import remedy_in
from corral.models.states import MergeState, ShownStatus
from corral.models.visible import one_line
from corral.server.process.binding import set_aside
from corral.store.merges import merges, pauses
from corral.store.rows import required
from corral.store.rows.merges import MergeRow
from corral.store.sessions import sessions
from corral.store.tasks import outcomes, tasks, work_pause, worktrees
from corral.work.limits import Parked, Throttle

if TYPE_CHECKING:
    from corral.app.runtime.services import Services

MOST_OF_A_KIND = 20
"""Entries of one source in a status; the rest are counted by the last one."""

FAULTS_TO_TELL = 3
"""Starts of one task that the machine prevented in a row, from which on a person should look."""


OF_A_DAY = ("limits.tokens_per_day", "limits.cost_usd_per_day")
"""Limits that hold work back for hours."""

LONG_PARK = timedelta(minutes=15)
"""A usage limit of a model that lasts as long or longer is told to a person."""

Source = Callable[["Services", Connection], Iterable[Need]]


STOPS_ALL = frozenset(
    {
        "paused_work",
        "untrusted_commands",
        "paused_claiming",
        "stuck_checkout",
        "paused_target",
        "red_target",
        "not_recovered",
    }
    | {"database_damaged", "outdated_daemon"}
)
"""Kinds that keep whatever is open from going on."""


def needs_you_for(services: Services, conn: Connection, ids: set[str]) -> list[dict[str, Any]]:
    """The entries of :func:`needs_you` that block these tasks and merge requests."""
    return [
        need
        for need in needs_you(services, conn)
        if need["kind"] in STOPS_ALL or not ids.isdisjoint(need["ids"].values())
    ]


def needs_you(services: Services, conn: Connection) -> list[dict[str, Any]]:
    """Everything that needs a person, in the order of :data:`SOURCES`; runs in a read transaction."""
    found: list[Need] = []
    for source in SOURCES:
        entries = list(source(services, conn))
        found += entries[:MOST_OF_A_KIND]
        if len(entries) > MOST_OF_A_KIND:
            kind = entries[0].kind
            found.append(Need(kind, f"{len(entries) - MOST_OF_A_KIND} more of this kind.", "See the list of its kind."))
    return [asdict(need) for need in found]


def _faults(services: Services, _conn: Connection) -> Iterable[Need]:
    return list(services.faults.values())


def _untrusted_commands(services: Services, _conn: Connection) -> Iterator[Need]:
    if found := services.settings.untrusted():
        error = not_trusted(found)
        yield Need("untrusted_commands", f"{error.message} {error.cause}", "corral trust")


def _paused_work(_services: Services, conn: Connection) -> Iterator[Need]:
    pause = work_pause.current(conn)
    if pause is not None:
        yield Need("paused_work", work_pause.described(pause), "corral resume", pause["since_at"])


def _paused_claiming(services: Services, _conn: Connection) -> Iterator[Need]:
    pause = services.supervisor.pause
    if pause is not None:
        yield Need(
            "paused_claiming",
            f"No task is started, since {pause.failures} starts failed in a row: {pause.reason}",
            f"{pause.remedy} One start is tried now and then, and all go on once it succeeds.",
            iso(pause.since),
        )


def limits_reached(services: Services, _conn: Connection) -> Iterator[Need]:
    """Limits that a person may want to raise; memory and the requests of a minute get free by themselves, and soon."""
    now = services.now()
    for hold in services.supervisor.throttles:
        if isinstance(hold, Throttle):
            if hold.limit in OF_A_DAY:
                remedy = f"Wait until it is below; or raise `{hold.limit}` in .corral/config.yaml."
                yield Need("limit_reached", hold.reason, remedy)
        elif isinstance(hold, Parked) and hold.until - now >= LONG_PARK:
            yield Need("limit_reached", hold.reason, "Wait until then; or raise the limit with the model's provider.")


def _tasks_that_cannot_start(services: Services, conn: Connection) -> Iterator[Need]:
    if services.supervisor.pause is not None:  # that says it for all of them
        return
    for row in tasks.held_back(conn, MOST_OF_A_KIND + 1):
        if row["faults"] >= FAULTS_TO_TELL:
            yield Need(
                "task_cannot_start",
                f"{row['title']!r} could not be started {row['faults']} times: {row['error_message']}",
                f"corral task detail {row['task_id'][:8]}",
                None,
                {"task_id": row["task_id"]},
            )


def unobserved_workers(services: Services, _conn: Connection) -> Iterator[Need]:
    """Workers whose output and end the supervisor cannot see just now."""
    for task_id, reason in services.supervisor.unobserved().items():
        yield Need(
            "unobserved_worker",
            f"The worker of task {task_id[:8]} cannot be observed, so that its end would go unnoticed: {reason}",
            f"Fix what the reason names; or: corral task cancel {task_id[:8]}",
            ids={"task_id": task_id},
        )


def _set_aside_databases(services: Services, _conn: Connection) -> Iterator[Need]:
    for file in set_aside(services.project):
        yield Need(
            "foreign_database",
            f"{file} is the database of another repository, which was copied or restored to here; none of it is executed.",
            f"To go on with its tasks here: corral daemon stop, then corral daemon adopt {shlex.quote(str(file))}. "
            "Else move it away, or delete it.",
        )


def _held_merges(_services: Services, conn: Connection) -> Iterator[Need]:
    for row in merges.listing(conn, [MergeState.HELD]):
        if waits_for_red_target(row):
            continue
        approval, merge = needs_approval(row), row["merge_id"][:8]
        said = remedy_in(required(row["reason"]))
        look = (
            f"{said} It lands by itself then."
            if said
            else f"It lands by itself then; more: corral merge detail {merge}"
        )
        yield Need(
            "merge_approval" if approval else "held_merge",
            f"{row['title']!r} waits to land on {row['target']}: {required(row['reason']).splitlines()[0]}",
            f"corral merge approve {merge}" if approval else look,
            row["updated_at"],
            {"merge_id": row["merge_id"], **({"task_id": row["task_id"]} if row["task_id"] else {})},
        )


def _stuck_checkouts(services: Services, _conn: Connection) -> Iterator[Need]:
    for folder, reason in services.queue.stuck_checkouts.items():
        yield Need(
            "stuck_checkout",
            f"A landing that was killed left its lock in {folder}, and it could not be cleared: {reason.rstrip('.')}.",
            f"See what ails it: git -C {shlex.quote(folder)} status. Once that works, the lock goes by itself.",
        )


def _red_targets(_services: Services, conn: Connection) -> Iterator[Need]:
    """A red target once, however many wait for it."""
    red: dict[str, MergeRow] = {}
    for row in merges.listing(conn, [MergeState.HELD]):
        if waits_for_red_target(row):
            red.setdefault(row["target"], row)
    for target, row in red.items():
        waiting, merge = len(merges.open_of(conn, target)), row["merge_id"][:8]
        yield Need(
            "red_target",
            f"{target} itself fails its verification, so nothing lands on it; {waiting} wait. "
            + " ".join(required(row["reason"]).split("without this change.", 1)[-1].split("\n")[:2]).strip(),
            f"If it passes in your checkout, a fresh worktree lacks something: corral doctor --verify says what. Else fix "
            f"{target}: a request that is submitted now is tried first. Then: corral merge retry {merge}. "
            f"Its output: corral merge log {merge}",
            row["updated_at"],
            {"target": target, "merge_id": row["merge_id"]},
        )


def _failures(_services: Services, conn: Connection) -> Iterator[Need]:
    """Failed tasks and returned merges, until they are tried again, land another way, or are dismissed."""
    for failed in outcomes.failed_tasks(conn, MOST_OF_A_KIND + 1):
        task, said = failed["task_id"][:8], remedy_in(str(failed["error_message"]))
        yield Need(
            "failed_task",
            f"{failed['title']!r} is {failed['status']}: {str(failed['error_message']).splitlines()[0]}",
            f"{(said or f'corral task logs {task}').rstrip('.')}; then corral task retry {task}, or corral merge dismiss {task}",
            failed["completed_at"],
            {"task_id": failed["task_id"]},
        )
    for row in outcomes.returned_requests(conn):
        merge = row["merge_id"][:8]
        yield Need(
            "returned_merge",
            f"{row['title']!r} did not land on {row['target']}: {str(row['reason']).splitlines()[0]}",
            f"{_repair(row)} Or: corral merge dismiss {merge}",
            row["finished_at"],
            {"merge_id": row["merge_id"], **({"task_id": row["task_id"]} if row["task_id"] else {})},
        )


def _repair(row: MergeRow) -> str:
    """The commands that continue a returned request, to be typed where its branch can be checked out."""
    merge, branch, target = row["merge_id"][:8], shlex.quote(row["branch"]), shlex.quote(row["target"])
    again = f"corral merge submit {branch}"
    if row["state"] == MergeState.CONFLICT:
        return f"git switch {branch} && git merge {target}; resolve and commit it; then: {again}."
    return (
        f"corral merge log {merge}; fix it on its branch (git switch {branch}), commit; then: {again}. "
        f"If it was chance: corral merge retry {merge}."
    )


def _paused_targets(_services: Services, conn: Connection) -> Iterator[Need]:
    for target, row in pauses.paused(conn).items():
        waiting = merges.open_of(conn, target)
        yield Need(
            "paused_target",
            f"Nothing lands on {target}; {len(waiting)} wait: {row['reason'].splitlines()[0]}",
            f"Fix that; Corral looks again at {row['look_at']}, or now: corral merge retry {waiting[0]['merge_id'][:8]}",
            row["since_at"],
            {"target": target, "merge_id": waiting[0]["merge_id"]},
        )


def unverified_merges(_services: Services, conn: Connection) -> Iterator[Need]:
    """Requests that were tried again and again without a verdict, where that is not their target's."""
    paused = pauses.paused(conn)
    for row in merges.listing(conn, [MergeState.QUEUED]):
        if row["tries"] >= pauses.PAUSE_AFTER and row["target"] not in paused:
            why = (
                row["reason"] or f"{row['tries']} tries ended without a verdict"
            )  # a stop of the daemon keeps no reason
            yield Need(
                "unverified_merge",
                f"{row['title']!r} cannot be verified: {why.splitlines()[0]}",
                f"corral merge detail {row['merge_id'][:8]}",
                row["updated_at"],
                {"merge_id": row["merge_id"], **({"task_id": row["task_id"]} if row["task_id"] else {})},
            )


def _unguarded_sessions(_services: Services, conn: Connection) -> Iterator[Need]:
    for row in sessions.live(conn):
        if row["unguarded_since_at"] is not None:
            yield Need(
                "unguarded_session",
                f"{row['agent_name']}'s edits are not checked: its bridge is not connected.",
                "In that session: /mcp reconnect plugin:corral:corral, then any prompt, which tells Corral; or start it again. "
                "`corral doctor` looks for the cause.",
                row["unguarded_since_at"],
                {"session_id": row["session_id"]},
            )


def _unannounced_changes(services: Services, conn: Connection) -> Iterator[Need]:
    """Files that changed while no daemon ran, until a session locks, changes or commits them."""
    now = services.now()
    for top, files in services.unannounced.files().items():
        keys = {path: Target(literal_key(path, fold=services.fold), top) for path, _signature in files.values()}
        paths = [path for path, target in sorted(keys.items()) if not is_locked(conn, target, now)]
        if not paths:
            continue
        shown = ", ".join(one_line(path) for path in paths[:5]) + (f" and {len(paths) - 5} more" if paths[5:] else "")
        yield Need(
            "unannounced_changes",
            f"{len(paths)} uncommitted file{'s' if paths[1:] else ''} in {top} changed while Corral's daemon was away, "
            f"and nobody announced it: {shown}.",
            f"Look whose they are: {shlex.join(['git', '-C', top, 'status', '--', *paths[:5]])}. "
            "Commit yours, or take them: corral lock acquire PATH",
        )


def _stalled_sessions(_services: Services, conn: Connection) -> Iterator[Need]:
    for row in sessions.listing(conn, [ShownStatus.STALLED]):
        if row["task_id"] is not None:  # the supervisor ends a worker that makes no progress
            continue
        doing = f" It was asked: {one_line(row['current_task'])[:80]}" if row["current_task"] else ""
        yield Need(
            "stalled_session",
            f"{row['agent_name']} gives no sign in the middle of its turn since {row['last_heartbeat']}.{doing}",
            "Look at its terminal. Take its locks (corral lock force-release PATH), or end it: "
            f"corral session end {row['agent_name']}",
            row["stalled_since_at"],
            {"session_id": row["session_id"]},
        )


def _links(services: Services, _conn: Connection) -> Iterator[Need]:
    for error in linked_folders(services.project):
        yield Need("linked_folder", f"{error.message} {error.cause}", error.remedy)


def _kept_worktrees(_services: Services, conn: Connection) -> Iterator[Need]:
    for row in worktrees.listing(conn):
        if row["note"] is not None:
            why, _, remedy = row["note"].partition("\n")
            yield Need(
                "kept_worktree",
                f"The worktree {row['name']} is held: {why}",
                remedy or "corral worktree list",
                ids={"worktree_id": row["worktree_id"], **({"task_id": row["task_id"]} if row["task_id"] else {})},
            )


def _roadmap_problems(services: Services, _conn: Connection) -> Iterator[Need]:
    for problem in services.roadmap.problems():
        line = f" (line {problem.line})" if problem.line is not None and problem.task_id is not None else ""
        about = f"The roadmap task {problem.task_id}{line}: " if problem.task_id is not None else ""
        yield Need(
            "roadmap_problem",
            one_line(f"{about}{problem.message}"),
            f"Correct {services.roadmap.path}; Corral then continues automatically. All of them: corral supervisor status",
            ids={"roadmap_id": problem.task_id} if problem.task_id is not None else {},
        )


def _unapproved_roadmap(services: Services, conn: Connection) -> Iterator[Need]:
    if found := services.roadmap.waiting_for_approval(conn):
        ids = [one_line(claim.key.partition(".")[2]) for claim in found]
        shown = ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if ids[5:] else "")
        what = f"Tasks of the roadmap wait until you have approved what they execute: {shown}."
        yield Need("unapproved_roadmap", what, "corral trust")


SOURCES: tuple[Source, ...] = (
    _faults,
    _set_aside_databases,
    _links,
    _paused_work,
    _untrusted_commands,
    _paused_claiming,
    limits_reached,
    _tasks_that_cannot_start,
    unobserved_workers,
    _kept_worktrees,
    _stuck_checkouts,
    _paused_targets,
    _red_targets,
    _held_merges,
    unverified_merges,
    _unguarded_sessions,
    _stalled_sessions,
    _unannounced_changes,
    _unapproved_roadmap,
    _roadmap_problems,
    _failures,
)
"""The sources of conditions that need a person, the most urgent first."""
