"""Submissions with steps: checked as one list of tasks, reported at the places where they were written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from corral.work.tasks.wire import TaskSubmission


def flat(batch: Sequence[TaskSubmission]) -> list[TaskSubmission]:
    """Each submission, followed by its steps."""
    return [submission for item in batch for submission in (item, *item.steps)]


def regrouped(batch: Sequence[TaskSubmission], checked: Sequence[TaskSubmission]) -> list[TaskSubmission]:
    """The submissions with their steps again, from a list in the order of :func:`flat`."""
    rest = iter(checked)
    return [_with_steps(next(rest), [next(rest) for _ in item.steps]) for item in batch]


def _with_steps(item: TaskSubmission, steps: list[TaskSubmission]) -> TaskSubmission:
    return item.model_copy(update={"steps": steps}) if steps else item


def placed(batch: Sequence[TaskSubmission], errors: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Errors in the list of :func:`flat`, each with the number of its submission and the name of its step."""
    places = list(_places(batch))
    return [
        {**error, "index": places[error["index"]][0], "field": f"{places[error['index']][1]}{error['field']}"}
        for error in errors
    ]


def _places(batch: Sequence[TaskSubmission]) -> Iterator[tuple[int, str]]:
    for index, item in enumerate(batch):
        yield index, ""
        for step in item.steps:
            yield index, f"steps.{step.name}."
