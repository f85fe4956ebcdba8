"""The real Claude Code client on a scripted stage."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import commit_all, git
from tests.e2e.client import Run, client_environment, find_client, run_client
from tests.e2e.stage import Stage
from tests.e2e.team import Pair, Team, corral_command
from tests.support.coordinated import Coordinated


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
    """Run ``claude -p`` to its end: ``run_claude(cwd, prompt, *flags, env=..., timeout_s=120)``."""

    def run(cwd: Path, prompt: str, *flags: str, env: dict[str, str] | None = None, timeout_s: float = 120) -> Run:
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
    env = _for_workers_too(client_env, tmp_path, sealed, monkeypatch)
    with ExitStack() as stack:

        def start(**how: Any) -> Team:
            house = coordinate(**how)
            house.run("daemon", "start")
            return Team(house, claude, env, stage, tmp_path, stack)

        yield start


def _for_workers_too(
    client_env: Callable[..., dict[str, str]], folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    command = corral_command(folder / "bin")
    with (home / ".gitconfig").open("a") as config:
        config.write("[user]\n\tname = A Client\n\temail = client@example.test\n")
    env = client_env(path=str(command.parent))
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return env


@pytest.fixture
def team(start_team: Callable[..., Team]) -> Team:
    """Sessions in a small coordinated repository that verifies with ``true``."""
    return start_team()


@pytest.fixture(scope="module")
def shared_pair(shared_houses: dict[str, Coordinated]) -> Iterator[tuple[ExitStack, list[Pair]]]:
    """What ``pair`` has made; the clients end before their daemon."""
    with ExitStack() as stack:
        yield stack, []


@pytest.fixture
def pair(
    shared_pair: tuple[ExitStack, list[Pair]],
    share: Callable[..., Coordinated],
    claude: Path,
    sealed: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Pair]:
    """Two sessions, the same for all tests of the module: a client's start costs as much as all that most tests do with it.

    Each test finds the checkout as it was at first, and no locks.
    """
    stack, pairs = shared_pair
    if not pairs:
        house, stage = share(), stack.enter_context(Stage())
        commit_all(house.root, "Coordinate")

        def client_env(**how: Any) -> dict[str, str]:
            return client_environment(stage, sealed, extra={"XDG_RUNTIME_DIR": os.environ["XDG_RUNTIME_DIR"]}, **how)

        team = Team(house, claude, _for_workers_too(client_env, tmp_path, sealed, monkeypatch), stage, tmp_path, stack)
        house.run("daemon", "start")
        pairs.append(Pair(team, team.member(), team.member()))
    (pair,) = pairs
    first = git(pair.team.repo, "rev-parse", "HEAD")
    for name, value in pair.team.env.items():
        monkeypatch.setenv(name, value)
    yield pair
    for path, session_id in pair.team.locks().items():
        pair.team.house.ask("POST", "/locks/release", {"session_id": session_id, "paths": [path]})
    git(pair.team.repo, "reset", "-q", "--hard", first)
    git(pair.team.repo, "clean", "-fdq")
