"""What several tests of parts stand on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.runners.protocol import Assignment
from tests.e2e.stage import Stage
from tests.integration.landing_world import World
from tests.integration.running import kill


@pytest.fixture
def world(repo: Path) -> Iterator[World]:
    """A coordinated repository with a merge queue that is stepped by hand."""
    made = World(repo)
    yield made
    made.close()


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A scripted Messages API of this test's own."""
    with Stage() as running:
        yield running


@pytest.fixture
def assignments() -> Iterator[list[Assignment]]:
    """What a test notes that it started; none of it outlives the test."""
    started: list[Assignment] = []
    yield started
    for assignment in started:
        kill(assignment.task_id)
