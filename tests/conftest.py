"""What every test stands on: a sealed environment, and real git repositories."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, settings
from sqlalchemy import Connection, Engine, create_engine

from corral.config.worktree_root import MARKER
from corral.core.events import Event
from corral.runners.protocol import Assignment
from corral.store import events
from corral.store.engine import search
from corral.store.engine.database import Database
from corral.store.migrate import open_schema
from corral.store.table import metadata
from tests.e2e.stage import Stage
from tests.integration.running import kill
from tests.support import postgres, programs, recorded
from tests.support.coordinated import Coordinated
from tests.support.files import put
from tests.support.forked import Forks, forking

# How long an example takes is the machine's matter: on a busy one it fails nobody.
settings.register_profile("corral", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("corral")

GIT_ENV = {
    "GIT_AUTHOR_NAME": "A Tester",
    "GIT_AUTHOR_EMAIL": "tester@example.test",
    "GIT_COMMITTER_NAME": "A Tester",
    "GIT_COMMITTER_EMAIL": "tester@example.test",
}

_RIGHTS = "-dac_override,-dac_read_search"
WITHOUT_ROOTS_RIGHTS = [] if os.geteuid() else ["setpriv", f"--bounding-set={_RIGHTS}", f"--inh-caps={_RIGHTS}"]
"""Before a command: not even root passes over the permissions of files in it. Its tests are marked `NEEDS_RIGHTS_DROPPED`."""
NEEDS_RIGHTS_DROPPED = programs.requires(*WITHOUT_ROOTS_RIGHTS[:1])


def worktrees_of(root: Path) -> Path:
    """The folder of the worktrees of a project, where nothing says otherwise."""
    return root.with_name(f"{root.name}.worktrees")


def worktrees_in(root: Path) -> list[Path]:
    """The worktrees in it, without the folder's mark and those of verification."""
    folder = worktrees_of(root)
    entries = folder.iterdir() if folder.exists() else ()
    return sorted(path for path in entries if path.name != MARKER and not path.name.startswith("verification-"))


def verified_in(root: Path, slot: str = "1") -> Path:
    """The verification worktree of a project; a path where nothing is, while it has none."""
    return next(worktrees_of(root).glob(f"verification-*/{slot}"), worktrees_of(root) / "verification" / slot)


@pytest.fixture(scope="session")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Make folders with numbered names; pytest's own ``mktemp`` reads all that there are before each, thousands in a run."""
    top, numbers = tmp_path_factory.getbasetemp(), itertools.count()

    def make(name: str) -> Path:
        made = top / f"{next(numbers)}-{name}"
        made.mkdir(mode=0o700)
        return made

    return make


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this machine lacks the programs for."""
    programs.skip_without(item)


@pytest.fixture(scope="session")
def plain_system() -> Iterator[programs.PlainSystem]:
    """The programs of a fresh machine."""
    with tempfile.TemporaryDirectory(prefix="corral-plain-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield programs.PlainSystem(Path(name))


@contextlib.contextmanager
def _place(numbered: Callable[[str], Path]) -> Iterator[dict[str, str]]:
    home = numbered("home")
    (home / ".gitconfig").write_text("[init]\n\tdefaultBranch = main\n")
    # Short wherever the tests' own folder is: sockets go here when their usual place has too long a name.
    with tempfile.TemporaryDirectory(prefix="corral-run-", dir="/tmp") as runtime:
        yield {"HOME": str(home), "XDG_RUNTIME_DIR": runtime}


@pytest.fixture(scope="module")
def shared_place(numbered: Callable[[str], Path]) -> Iterator[dict[str, str]]:
    """The HOME and runtime folder of the tests that share a house, and of its daemon."""
    with _place(numbered) as place:
        yield place


@pytest.fixture(autouse=True)
def sealed(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    numbered: Callable[[str], Path],
    plain_system: programs.PlainSystem,
) -> Iterator[Path]:
    """No test sees or changes the real HOME, XDG folders, GIT_* or CORRAL_* of the machine, nor what else is installed on it."""
    for name in list(os.environ):
        if name.startswith(("GIT_", "XDG_", "CORRAL_", "CLAUDE", "ANTHROPIC_")):
            monkeypatch.delenv(name)
    # Hundreds of processes are started from this source: compiling it takes a third of a daemon's start.
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setenv("PATH", plain_system.path(request.node))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    with contextlib.ExitStack() as stack:
        is_shared = "share" in request.fixturenames
        place = request.getfixturevalue("shared_place") if is_shared else stack.enter_context(_place(numbered))
        for name, value in place.items():
            monkeypatch.setenv(name, value)
        yield Path(place["HOME"])


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Of this worker of the tests."""
    made = Forks()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def forked(request: pytest.FixtureRequest, forks: Forks) -> Iterator[None]:
    """Commands are forked from a process that has imported them, unless a test asks for real starts."""
    with contextlib.nullcontext() if request.node.get_closest_marker("executed") else forking(forks):
        yield


@pytest.fixture(autouse=True)
def typed_events(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every event that a test records in this process is what its type says; of a daemon's, ``Coordinated.stop`` sees to it."""
    record, seen = events.record, list[tuple[str, Any]]()

    def noted(conn: Connection, at: Any, event: Any, **about: Any) -> None:
        record(conn, at, event, **about)
        seen.append((str(event[0]), event[1]) if isinstance(event, Event) else (str(event), {}))

    monkeypatch.setattr(events, "record", noted)
    yield
    assert recorded.faults(seen) == []


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, numbered: Callable[[str], Path]) -> Path:
    """A folder of the test's own with a short name, also beside other workers: a socket's path has a limit of 100 bytes."""
    return numbered(re.sub(r"\W", "_", request.node.name.removeprefix("test_"))[:8])


def git(cwd: Path, *args: str, check: bool = True, **extra: str) -> str:
    """Run the real git as a user would, with an identity, and return its output."""
    env = {**os.environ, **GIT_ENV, **extra}
    done = subprocess.run(["git", *args], cwd=cwd, env=env, capture_output=True, text=True)
    if check and done.returncode != 0:
        raise AssertionError(f"git {args} failed in {cwd}: {done.stderr}")
    return done.stdout.strip()


def commit(cwd: Path, files: dict[str, str], message: str = "change") -> str:
    """Write files, commit them, return the SHA."""
    for name, text in files.items():
        put(cwd / name, text)
    git(cwd, "add", "--", *files)
    git(cwd, "commit", "-q", "-m", message)
    return git(cwd, "rev-parse", "HEAD")


def commit_all(cwd: Path, message: str, *paths: str, force: bool = False) -> str:
    """Commit everything, or what is below these paths, but for what is ignored unless it is forced; return the SHA."""
    git(cwd, "add", *(["--force"] if force else []), *(["--", *paths] if paths else ["--all"]))
    git(cwd, "commit", "-q", "-m", message)
    return git(cwd, "rev-parse", "HEAD")


def commit_on(cwd: Path, branch: str, files: dict[str, str], message: str = "change") -> str:
    """Commit files on a new branch and come back to the one that is checked out; return the SHA."""
    git(cwd, "switch", "-q", "-c", branch)
    sha = commit(cwd, files, message)
    git(cwd, "switch", "-q", "-")
    return sha


Cast = Callable[[str, Path, Callable[[Path], None]], Path]


@pytest.fixture(scope="session")
def cast(tmp_path_factory: pytest.TempPathFactory) -> Cast:
    """Make a repository of a kind once, and from then on copy it: git and the command line take fifty times as long."""
    moulds: dict[str, Path] = {}

    def copy(kind: str, root: Path, make: Callable[[Path], None]) -> Path:
        if kind not in moulds:
            mould = tmp_path_factory.mktemp("mould") / "repo"
            make(mould)
            moulds[kind] = mould
        shutil.copytree(moulds[kind], root, symlinks=True)
        git(root, "update-index", "-q", "--refresh")
        return root

    return copy


@pytest.fixture
def make_repo(tmp_path: Path, cast: Cast) -> Callable[..., Path]:
    """Make a repository with one commit: ``make_repo(name="repo", files={...})``."""

    def make(name: str = "repo", files: dict[str, str] | None = None) -> Path:
        if files is None:
            return cast("small", tmp_path / name, _small)
        _repository(tmp_path / name, files)
        return tmp_path / name

    return make


def _repository(root: Path, files: dict[str, str]) -> None:
    root.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    commit(root, files, "first")


def _small(root: Path) -> None:
    _repository(root, {"README.md": "hello\n", "src/a.py": "a = 1\n", "src/b.py": "b = 1\n"})


@pytest.fixture
def repo(make_repo: Callable[..., Path]) -> Path:
    """A small repository on branch ``main``."""
    return make_repo()


@pytest.fixture
def at() -> Iterator[Callable[[Path], Coordinated]]:
    """A coordinated repository at a place where it was copied or moved to; its daemon ends with the test."""
    made: list[Coordinated] = []

    def open_at(root: Path) -> Coordinated:
        made.append(Coordinated(root))
        made[-1].trust()
        return made[-1]

    yield open_at
    for house in made:
        if house.root.is_dir():
            house.stop()


@pytest.fixture
def coordinate(tmp_path: Path, cast: Cast) -> Iterator[Callable[..., Coordinated]]:
    """Initialise repositories: ``coordinate(repo=None, verify=["true"], config="…more YAML…")``; daemons end with the test."""
    made: list[Coordinated] = []

    def initialise(root: Path | None = None, **how: Any) -> Coordinated:
        made.append(_initialised(cast, tmp_path / f"repo{len(made)}", root, **how))
        return made[-1]

    yield initialise
    for house in made:
        house.stop()


def _initialised(
    cast: Cast, place: Path, root: Path | None, *, verify: tuple[str, ...] = ("true",), config: str = "", **env: Any
) -> Coordinated:
    def initialise(place: Path) -> None:
        if root is None:
            _small(place)
        verified = (part for command in verify for part in ("--verify", command))
        Coordinated(place).run("init", "--yes", "--no-check", *verified, **env)

    if root is not None:
        initialise(root)
    else:
        root = cast(f"initialised-{verify}-{env}", place, initialise)
    house = Coordinated(root)
    if config:
        file = house.root / ".corral" / "config.yaml"
        merged = {**yaml.safe_load(file.read_text()), **yaml.safe_load(config)}
        file.write_text(yaml.safe_dump(merged))
    house.trust()
    return house


@pytest.fixture(scope="module")
def shared_houses(shared_place: dict[str, str]) -> Iterator[dict[str, Coordinated]]:
    """What ``share`` has made; their daemons end with the module."""
    made: dict[str, Coordinated] = {}
    yield made
    with pytest.MonkeyPatch.context() as patched:
        for name, value in shared_place.items():
            patched.setenv(name, value)
        for house in made.values():
            house.stop()


@pytest.fixture
def share(
    cast: Cast, numbered: Callable[[str], Path], shared_houses: dict[str, Coordinated]
) -> Callable[..., Coordinated]:
    """As ``coordinate``, but who asks for the same gets the same: one repository, daemon and HOME for all tests of a module.

    What a test leaves there the others find, in any order: names of its own, and no look at what is counted over all. Who
    stops or kills the daemon, moves the target or changes the settings takes ``coordinate``.
    """

    def shared(**how: Any) -> Coordinated:
        key = repr(how)
        if key not in shared_houses:
            shared_houses[key] = _initialised(cast, numbered("shared") / "repo", None, **how)
        return shared_houses[key]

    return shared


@pytest.fixture
def shared_house(share: Callable[..., Coordinated]) -> Coordinated:
    """A small coordinated repository that verifies with ``true``, the same for all tests of the module that ask for it."""
    return share()


@pytest.fixture
def house(coordinate: Callable[..., Coordinated]) -> Coordinated:
    """A small coordinated repository that verifies with ``true``."""
    return coordinate()


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    """An empty database with its writer."""
    open_schema(tmp_path / "corral.db")
    opened = Database(tmp_path / "corral.db")
    yield opened
    opened.close()


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


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Engine]:
    """A PostgreSQL server with the schema; skips the test where there is none to be started."""
    if postgres.MISSING:
        pytest.skip(f"What only needs a connection ran on SQLite alone: {postgres.MISSING}")
    with postgres.cluster() as engine:
        yield engine


@pytest.fixture(params=["sqlite"] if postgres.MISSING else ["sqlite", "postgresql"])
def any_database(request: pytest.FixtureRequest) -> Iterator[Connection]:
    """A connection to an empty database, once for each kind that there is; what a test does there is never committed."""
    if request.param == "sqlite":
        engine = create_engine("sqlite://")
        metadata.create_all(engine)
    else:
        engine = request.getfixturevalue("postgresql")
    with engine.connect() as connection:
        if request.param == "sqlite":
            search.create_indexes(connection)
        else:  # numbers that were given are not given again, whatever becomes of the transaction
            connection.exec_driver_sql("SELECT setval(seqrelid, 1, false) FROM pg_sequence")
        yield connection
    engine.dispose()
