"""Conditions that need a person: first in every face, each with its reason and a command to type.

An entry is derived from rows wherever possible. Conditions without a row (a damaged file, a folder of another owner) stand in
``Services.faults`` from the moment it is noticed until it is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from corral.core.needs import MOST_OF_A_KIND, Need
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
        "paused_target",
        "rewound_target",
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
    needs: list[Need] = []
    for source in SOURCES:
        entries = list(source(services, conn))
        needs += entries[:MOST_OF_A_KIND]
        if len(entries) > MOST_OF_A_KIND:
            kind = entries[0].kind
            needs.append(Need(kind, f"{len(entries) - MOST_OF_A_KIND} more of this kind.", "See the list of its kind."))
    return [need.to_wire() for need in needs]


SOURCES: tuple[Source, ...] = (
    project.faults,
    project.foreign_databases,
    project.links,
    project.place_of_worktrees,
    work.paused_work,
    project.untrusted_commands,
    work.paused_claiming,
    work.limits_reached,
    work.leaders_without_room,
    alerts.open_alerts,
    work.tasks_that_cannot_start,
    agents.ended_rollouts,
    agents.ended_improvements,
    work.unobserved_workers,
    work.kept_worktrees,
    landing.rewound_targets,
    landing.stuck_checkouts,
    landing.paused_targets,
    landing.red_targets,
    landing.held_merges,
    landing.unverified_merges,
    sessions.waiting_sessions,
    sessions.unguarded_sessions,
    sessions.stalled_sessions,
    sessions.unannounced_changes,
    project.unapproved_roadmap,
    project.roadmap_problems,
    landing.failures,
)
"""The sources of conditions that need a person, the most urgent first."""
