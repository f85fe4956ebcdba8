"""What several tests of parts stand on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.landing_world import World


@pytest.fixture
def world(repo: Path) -> Iterator[World]:
    """A coordinated repository with a merge queue that is stepped by hand."""
    made = World(repo)
    yield made
    made.close()
