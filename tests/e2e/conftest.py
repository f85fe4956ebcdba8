"""The real Claude Code client on a scripted stage."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.client import Run, client_environment, find_client, run_client
from tests.e2e.stage import Stage
from tests.e2e.team import Team, corral_command
from tests.support.coordinated import Coordinated


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A scripted Messages API of this test's own."""
    with Stage() as running:
        yield running


@pytest.fixture(scope="session")
def claude() -> Path:
    """The client's executable."""
    client = find_client()
    if client is None:
        pytest.skip("the claude-agent-sdk wheel, which carries the client, is not installed")
    return client


@pytest.fixture
def client_env(stage: Stage, sealed: Path) -> Callable[..., dict[str, str]]:
    """Make a client's environment: ``client_env(home, path="...", extra={...})``; HOME is the sealed one by default."""

    def make(home: Path | None = None, *, path: str = "", extra: dict[str, str] | None = None) -> dict[str, str]:
        shared = {"XDG_RUNTIME_DIR": os.environ["XDG_RUNTIME_DIR"]}  # where a socket is whose path would be too long
        return client_environment(stage, home or sealed, path=path, extra={**shared, **(extra or {})})

    return make


@pytest.fixture
def run_claude(claude: Path, client_env: Callable[..., dict[str, str]]) -> Callable[..., Run]:
    """Run ``claude -p`` to its end: ``run_claude(cwd, prompt, *flags, env=..., timeout_s=60)``."""

    def run(cwd: Path, prompt: str, *flags: str, env: dict[str, str] | None = None, timeout_s: float = 60) -> Run:
        return run_client(claude, cwd, prompt, env or client_env(), *flags, timeout_s=timeout_s)

    return run


@pytest.fixture
def start_team(
    coordinate: Callable[..., Coordinated],
    claude: Path,
    client_env: Callable[..., dict[str, str]],
    stage: Stage,
    sealed: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., Team]]:
    """Coordinate a repository whose daemon can start clients too: ``start_team(verify=..., config=...)``."""
    command = corral_command(tmp_path / "bin")
    with (sealed / ".gitconfig").open("a") as config:
        config.write("[user]\n\tname = A Client\n\temail = client@example.test\n")
    env = client_env(path=str(command.parent))
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    with ExitStack() as stack:

        def start(**how: Any) -> Team:
            house = coordinate(**how)
            house.run("daemon", "start")
            return Team(house, claude, env, stage, tmp_path, stack)

        yield start


@pytest.fixture
def team(start_team: Callable[..., Team]) -> Team:
    """Sessions in a small coordinated repository that verifies with ``true``."""
    return start_team()
