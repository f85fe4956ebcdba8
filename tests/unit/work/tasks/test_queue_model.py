"""The real queue, step by step beside a model of it: who is next, in which state every task is, and which cause is named."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.support.examples import examples
from tests.unit.work.tasks.queue_machine import CODES, PLACES, SESSIONS, Queue

pytestmark = pytest.mark.one_python

EXAMPLES = os.environ.get("QUEUE_MODEL_EXAMPLES")
"""A number of examples and of walks at random; by default always the same ones."""


@pytest.mark.req("FR-QUEUE-006", "FR-QUEUE-008", "FR-QUEUE-009", "D15")
def test_the_queue_does_what_its_model_does(empty_database: Path) -> None:
    """Short stories, of which the library finds the shortest that fails."""
    run_state_machine_as_test(
        type("Queue", (Queue,), {"empty": empty_database}),
        settings=settings(
            max_examples=int(EXAMPLES or examples(30, usual=10)),
            derandomize=EXAMPLES is None,
            stateful_step_count=40,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.req("FR-QUEUE-006", "FR-QUEUE-008", "FR-QUEUE-009", "D15")
@pytest.mark.parametrize("seed", range(int(EXAMPLES or examples(12, usual=4))))
def test_a_long_life_of_a_queue_is_as_its_model_says(empty_database: Path, seed: int) -> None:
    rng = random.Random(f"{seed} {os.urandom(8).hex() if EXAMPLES else ''}")
    queue = type("Queue", (Queue,), {"empty": empty_database})()
    queue.begin(
        ageing_s=rng.choice([0, 30]),
        unblock_on=rng.choice(["landed", "landed", "completed"]),
        max_retries=rng.choice([None, None, 0, 1, 2]),
        items=[_item(rng) for _ in range(8)],
    )
    steps: list[str] = []
    try:
        for _ in range(400):
            steps.append(_step(queue, rng))
            queue.every_task_is_what_the_model_says()
        queue.teardown()
    except BaseException:
        print(f"seed {seed}, the last of {len(steps)} steps: {steps[-12:]}")
        raise


def _item(rng: random.Random) -> dict[str, Any]:
    return {
        "priority": rng.randrange(11),
        "parents": [rng.randrange(41) for _ in range(rng.choice([0, 0, 1, 2, 3]))],
        "forward": rng.random() < 0.05,
        "ignores": rng.random() < 0.3,
        "claims": set(rng.sample(PLACES, rng.choice([0, 0, 1, 2, 3, 4]))),
        "needs": set(rng.sample(["Python", "docs"], rng.choice([0, 1]))),
        "offered": rng.random() < 0.3,
        "retries": rng.choice([None, None, 0, 1]),
    }


def _step(queue: Any, rng: random.Random) -> str:
    """One thing that may happen now, the likely ones more often."""
    which, who = rng.randrange(41), rng.choice(sorted(SESSIONS))
    machine = rng.choice(["disk_full", "worker_lost", "worker_lost", "interrupted", "limit_reached"])
    ends = rng.choice(["landed", "landed", "conflict", "cancelled"])
    runs, works = bool(queue.running()), bool(queue.workers())
    room, there = len(queue.model.tasks) < 60, bool(queue.model.tasks)
    merging = bool(queue.open_merges())
    choices: list[tuple[float, str, dict[str, Any]]] = [
        (6, "a_runner_claims", {"starts": rng.random() < 0.7}),
        (3, "a_session_claims", {"who": who}),
        (4 * runs, "one_succeeds", {"which": which, "has_work": rng.random() < 0.6}),
        (2 * runs, "one_fails", {"which": which, "code": rng.choice(CODES)}),
        (2 * works, "the_machine_ends_one", {"which": which, "code": machine}),
        (0.7 * works, "the_daemon_dies_and_the_next_one_starts", {}),
        (0.7 * any(t.is_offered for t in queue.running()), "a_session_ends", {"who": who}),
        (0.7 * there, "somebody_cancels", {"which": which, "how": rng.choice(["plain", "convention"])}),
        (1.5 * there, "somebody_retries", {"which": which}),
        (0.7 * there, "somebody_reprioritises", {"which": which, "priority": rng.randrange(11)}),
        (2 * merging, "a_merge_request_ends", {"which": which, "state": ends}),
        (3, "time_passes", {"seconds": rng.choice([1, 10, 35])}),
        (1.0 * room, "submit", {"items": [_item(rng) for _ in range(rng.randrange(1, 6))]}),
    ]
    _, name, arguments = rng.choices(choices, weights=[choice[0] for choice in choices])[0]
    getattr(queue, name)(**arguments)
    return f"{name} {arguments}"
