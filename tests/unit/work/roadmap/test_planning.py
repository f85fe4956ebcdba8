"""The order of the roadmap: pending tasks whose dependencies are done, by priority and then as the file has them."""

from __future__ import annotations

import sys
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.work.roadmap.checks import read_roadmap
from corral.work.roadmap.document import STATUSES, RoadmapTask
from corral.work.roadmap.sync import plan_next


def task(name: str, status: str = "pending", priority: int = 5, *dependencies: str) -> RoadmapTask:
    return RoadmapTask(name, name, status, priority, dependencies, {}, 1, None)


@pytest.mark.req("SUP-FR1", "SUP-AC1")
def test_the_next_task_is_pending_unblocked_most_urgent_and_first() -> None:
    tasks = [
        task("low", "pending", 2), task("b"), task("a"), task("open", "pending", 10, "run"), task("run", "in_progress"),
        task("ready", "pending", 8, "over"), task("over", "done", 10), task("stuck", "blocked", 10),
        task("late", "pending", 10, "over", "b"), task("lost", "pending", 10, "nowhere"),
    ]  # fmt: skip
    assert [task.task_id for task in plan_next(tasks)] == ["ready", "b", "a", "low"]


@st.composite
def graphs(draw: st.DrawFn) -> list[RoadmapTask]:
    names = draw(st.lists(st.sampled_from("abcdefghij"), unique=True))
    return [
        task(
            name,
            draw(st.sampled_from(STATUSES)),
            draw(st.integers(0, 10)),
            *draw(st.lists(st.sampled_from([*names, "nowhere"]), unique=True, max_size=3)),
        )
        for name in names
    ]


@pytest.mark.req("SUP-FR1", "SUP-NFR3")
@given(graphs())
def test_the_plan_is_that_of_a_simple_model(tasks: list[RoadmapTask]) -> None:
    by_name = {task.task_id: task for task in tasks}
    left, expected = list(tasks), []
    while left:
        best = left[0]
        for task in left:
            if task.priority > best.priority:
                best = task
        left.remove(best)
        parents = [by_name.get(name) for name in best.dependencies]
        if best.status == "pending" and not any(parent is None or parent.status != "done" for parent in parents):
            expected.append(best)
    assert plan_next(tasks) == expected


def roadmap(number: int) -> bytes:
    """A roadmap of so many tasks, most of which depend on the one before them."""
    text = "tasks:\n" + "".join(
        f"- id: T{index}\n  title: Task {index}\n  description: What it is about, in some words.\n"
        f"  dependencies: [{f'T{index - 1}' if index % 7 else ''}]\n  exit_criteria: [one, two, three]\n"
        for index in range(number)
    )
    return text.encode()


def calls(number: int) -> int:
    """How many functions are called to find the next tasks of a roadmap."""
    counted = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    before, text = sys.getprofile(), roadmap(number)
    sys.setprofile(count)
    try:
        next_tasks = plan_next(read_roadmap(text).sound)[:5]
    finally:
        sys.setprofile(before)
    assert [task.task_id for task in next_tasks] == ["T0", "T7", "T14", "T21", "T28"]
    return counted


class Counted(str):
    """A name that counts how often it is compared."""

    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return str.__eq__(self, other)


@pytest.mark.req("SUP-NFR2")
def test_four_times_as_many_tasks_are_four_times_the_work() -> None:
    calls(50)  # what is made once is made
    assert calls(800) < 5 * calls(200)
    names = [Counted(f"T{index}") for index in range(1000)]
    tasks = [
        task(name, "done", 5) if place % 2 == 0 else task(name, "pending", 5, Counted(names[place - 1]))
        for place, name in enumerate(names)
    ]
    Counted.comparisons = 0
    assert len(plan_next(tasks)) == 500
    assert Counted.comparisons < 10 * len(tasks), "no name is looked for by going through all others"
