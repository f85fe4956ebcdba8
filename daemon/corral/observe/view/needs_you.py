"""Conditions that need a person: first in every face, each with its reason and a command to type.

An entry is derived from rows wherever possible. Conditions without a row (a damaged file, a folder of another owner) stand in
``Services.faults`` from the moment it is noticed until it is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from corral.core.needs import MOST_OF_A_KIND, Need, rest
from corral.observe.view import needs_of_alerts as alerts
from corral.observe.view import needs_of_landing as landing
from corral.observe.view import needs_of_sessions as sessions
from corral.observe.view import needs_of_work as work

if TYPE_CHECKING:
    from corral.coordination.services import Services
from datetime import timedelta
from typing import TYPE_CHECKING

from corral.core.instants import iso
from corral.work.agents.store import choices, improvements, versions

if TYPE_CHECKING:
    from corral.coordination.services import Services
import shlex
from typing import TYPE_CHECKING

from corral.config.links import linked_folders
from corral.config.paths import set_aside_databases
from corral.config.trust import not_trusted
from corral.config.worktree_root import CLEANER
from corral.core.errors import Unsupported
from corral.core.visible import one_line
from corral.work.agents.choices import unapproved
from corral.work.roadmap.supervision import RoadmapSupervision
from corral.work.worktrees.allocation import WorktreeContext

if TYPE_CHECKING:
    from corral.coordination.services import Services


# -- Needs of a person in the project itself: its files, its databases, its approvals, its roadmap


def faults(services: Services, _conn: Connection) -> Iterable[Need]:
    """Conditions that are in no row, as the parts that noticed them say."""
    return list(services.faults.values())


def untrusted_commands(services: Services, conn: Connection) -> Iterator[Need]:
    """Commands in the project's files, and in versions of agents that are chosen, that nobody approved."""
    if commands := [*services.settings.untrusted(), *unapproved(services, conn)]:
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
    """What of all that needs a person blocks these tasks and merge requests.

    Args:
        targets: The short names of their targets: what stops another one is none of their business.
    """
    return [need.to_wire() for need in every_need(services, conn) if _blocks(need, ids, targets)]


def _blocks(need: Need, ids: set[str], targets: set[str]) -> bool:
    stops_all = need.kind in STOPS_ALL and need.ids.get("target") in (None, *targets)
    return stops_all or not ids.isdisjoint(need.ids.values())


def needs_you(services: Services, conn: Connection) -> list[dict[str, Any]]:
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
    work.paused_work,
    untrusted_commands,
    work.paused_claiming,
    work.limits_reached,
    alerts.open_alerts,
    work.tasks_that_cannot_start,
    work.tasks_that_nobody_can_do,
    ended_rollouts,
    ended_improvements,
    work.unobserved_workers,
    work.kept_worktrees,
    landing.rewound_targets,
    landing.stuck_checkouts,
    landing.frozen_targets,
    landing.paused_targets,
    landing.remote_targets,
    landing.red_targets,
    landing.held_merges,
    landing.unverified_merges,
    landing.unpublished_branches,
    sessions.waiting_sessions,
    sessions.unguarded_sessions,
    sessions.silent_mods,
    sessions.stalled_sessions,
    sessions.unannounced_changes,
    unapproved_roadmap,
    roadmap_problems,
)
"""The sources of conditions that need a person, the most urgent first; after them come the failures."""
