"""Needs of a person in the project itself: its files, its databases, its approvals, its roadmap."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from corral.config.links import linked_folders
from corral.config.paths import set_aside_databases
from corral.config.trust import not_trusted
from corral.config.worktree_root import CLEANER
from corral.core.errors import Unsupported
from corral.core.needs import Need
from corral.core.visible import one_line
from corral.work.agents.choices import unapproved
from corral.work.roadmap.supervision import RoadmapSupervision
from corral.work.worktrees.allocation import WorktreeContext

if TYPE_CHECKING:
    from corral.coordination.services import Services


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
