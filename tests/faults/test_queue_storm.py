"""A full queue while its daemon and its runners are killed: no task lost, none landed twice, none stuck, no lease wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.queue_storm import QueueStorm
from tests.faults.storm import CONFIG, seed_of_this_run
from tests.support.coordinated import Coordinated

pytestmark = [pytest.mark.faults, pytest.mark.timeout(420)]

DAEMONS, RUNNERS, TASKS = 20, 180, 60


@pytest.mark.slow("Two hundred kills, and the restarts after each.")
@pytest.mark.req("D1", "FR-QUEUE-005")
def test_a_full_queue_outlives_two_hundred_kills(coordinate: Callable[..., Coordinated], tmp_path: Path) -> None:
    seed = seed_of_this_run()
    print(f"STORM_SEED={seed}")
    storm = QueueStorm(coordinate(verify=("test -f README.md",), config=CONFIG), seed, tmp_path)
    storm.rage(daemons=DAEMONS, runners=RUNNERS, tasks=TASKS)
    storm.check()
    print(storm, f"{storm.samples} comparisons")
    assert storm.kills == {"daemon": DAEMONS, "runner": RUNNERS} and len(storm.tasks) >= TASKS
    assert storm.samples >= 5
