"""Bridges that end with their test, and where their daemon listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bundle.listener import coordinate
from tests.integration.bridging import Bridge


@pytest.fixture
def sock(repo: Path) -> Path:
    """Where the daemon of a coordinated ``repo`` listens."""
    return coordinate(repo)


@pytest.fixture
def start() -> Iterator[Callable[..., Bridge]]:
    """Start bridges that do not outlive the test: ``start(cwd, NAME="value")``."""
    bridges: list[Bridge] = []

    def make(cwd: Path, **extra: str) -> Bridge:
        bridges.append(Bridge(cwd, **extra))
        return bridges[-1]

    yield make
    for bridge in bridges:
        bridge.close()
