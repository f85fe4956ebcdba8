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
from corral.observe.view import needs_of_agents as agents
from corral.observe.view import needs_of_alerts as alerts
from corral.observe.view import needs_of_landing as landing
from corral.observe.view import needs_of_project as project
from corral.observe.view import needs_of_sessions as sessions
from corral.observe.view import needs_of_work as work

if TYPE_CHECKING:
    from corral.coordination.services import Services

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
    project.faults,
    project.foreign_databases,
    project.links,
    project.unwritable_logs,
    project.place_of_worktrees,
    work.paused_work,
    project.untrusted_commands,
    work.paused_claiming,
    work.limits_reached,
    alerts.open_alerts,
    work.tasks_that_cannot_start,
    work.tasks_that_nobody_can_do,
    agents.ended_rollouts,
    agents.ended_improvements,
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
    project.unapproved_roadmap,
    project.roadmap_problems,
)
"""The sources of conditions that need a person, the most urgent first; after them come the failures."""
