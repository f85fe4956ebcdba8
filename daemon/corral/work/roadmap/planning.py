"""The order in which the tasks of a roadmap are worked on. Reads and changes nothing."""

from __future__ import annotations

from collections.abc import Iterable

from corral.work.roadmap.document import DONE, PENDING, RoadmapTask


def plan_next(tasks: Iterable[RoadmapTask], limit: int | None = None) -> list[RoadmapTask]:
    """The tasks to work on next: pending, with every dependency done; highest priority first, then in the file's order.

    Args:
        tasks: In the file's order.
        limit: The largest number of them; None: all.
    """
    known = list(tasks)
    unblocked = with_done_dependencies(known)
    ready = [task for task in known if task.status == PENDING and task.task_id in unblocked]
    return sorted(ready, key=lambda task: -task.priority)[:limit]


def with_done_dependencies(tasks: Iterable[RoadmapTask]) -> set[str]:
    """The ids of the tasks whose dependencies are all done."""
    known = list(tasks)
    done = {task.task_id for task in known if task.status == DONE}
    return {task.task_id for task in known if done.issuperset(task.dependencies)}
