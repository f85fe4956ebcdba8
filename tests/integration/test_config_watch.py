"""A change of a configuration file is noticed however it is made, and nothing happens while nothing changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral import config
from corral.config.load import load
from corral.config.paths import Project, socket_path
from corral.config.watch import ConfigWatcher
from corral.core.errors import ConfigInvalid
from tests.support.files import put

DEADLINE_S = 20.0


class Caller:
    """What the daemon does with the watcher: note that there was a call, and read the files again."""

    def __init__(self, project: Project, home: Path) -> None:
        self.project, self.home = project, home
        self.calls = 0
        self._called = threading.Event()
        self.watcher = ConfigWatcher(project, self._on_change, home=home)

    def _on_change(self) -> None:
        self.calls += 1
        self._called.set()

    def agents_after(self, change: Callable[[], object]) -> int:
        """Make a change, wait for a call, and go on reading after each call until the change is complete.

        A call may tell of the change before: the watcher itself must have seen this one, or the next may look like none.
        """
        before = self._agents()
        change()
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline and self._called.wait(timeout=DEADLINE_S):
            self._called.clear()
            if (now := self._agents()) != before and self.watcher._contents == self.watcher._read_contents():
                return now
        watched, threads = list(self.watcher._watches), [thread.name for thread in threading.enumerate()]
        missed = self.watcher._read_contents() != self.watcher._contents
        raise AssertionError(f"not noticed ({missed=}, {self.calls} calls, now {self._agents()}); {watched}; {threads}")

    def _agents(self) -> int:
        return load(self.project, environ={}, home=self.home).settings.supervisor.max_agents


@pytest.fixture
def project(tmp_path: Path) -> Project:
    root = tmp_path / "a repo"
    (root / ".corral").mkdir(parents=True)
    return Project(root, root / ".git", root / ".corral", bare=False)


@pytest.fixture
def caller(project: Project, sealed: Path) -> Iterator[Caller]:
    made = Caller(project, sealed)
    made.watcher.start()
    yield made
    made.watcher.stop()


def agents(count: int) -> str:
    return f"supervisor:\n  max_agents: {count}\n"


def replaced(file: Path, text: str) -> None:
    """Write the way most editors do: a new file, then a rename over the old one."""
    fresh = file.with_name(f".{file.name}.swp")
    fresh.write_text(text)
    fresh.rename(file)


def moved_in(file: Path, text: str, outside: Path) -> None:
    outside.write_text(text)
    outside.rename(file)


@pytest.mark.parametrize("name", ["config.yaml", "local.yaml"])
def test_a_file_appears_changes_is_replaced_and_is_deleted(
    caller: Caller, project: Project, tmp_path: Path, name: str
) -> None:
    file = project.home / name
    assert caller.agents_after(lambda: file.write_text(agents(1))) == 1
    assert caller.agents_after(lambda: file.write_text(agents(2))) == 2
    assert caller.agents_after(lambda: replaced(file, agents(3))) == 3
    assert caller.agents_after(lambda: moved_in(file, agents(4), tmp_path / "outside")) == 4
    assert caller.agents_after(file.unlink) == 10
    assert caller.agents_after(lambda: file.write_text(agents(5))) == 5


def test_the_users_folder_may_come_and_go(caller: Caller, sealed: Path) -> None:
    folder = sealed / ".corral"

    def come(count: int) -> None:
        put(folder / "config.yaml", agents(count))

    assert caller.agents_after(lambda: come(1)) == 1
    assert caller.agents_after(lambda: (folder / "config.yaml").write_text(agents(2))) == 2
    assert caller.agents_after(lambda: shutil.rmtree(folder)) == 10
    assert caller.agents_after(lambda: come(3)) == 3
    assert caller.agents_after(lambda: folder.rename(sealed / "away")) == 10
    assert caller.agents_after(lambda: (sealed / "away").rename(folder)) == 3
    assert caller.agents_after(lambda: replaced(folder / "config.yaml", agents(4))) == 4


def test_a_users_folder_that_is_a_link_is_watched_where_it_leads(
    project: Project, sealed: Path, tmp_path: Path
) -> None:
    (tmp_path / "dotfiles").mkdir()
    (sealed / ".corral").symlink_to(tmp_path / "dotfiles")
    caller = Caller(project, sealed)
    caller.watcher.start()
    try:
        assert caller.agents_after(lambda: (tmp_path / "dotfiles/config.yaml").write_text(agents(7))) == 7
    finally:
        caller.watcher.stop()


def test_what_is_not_a_change_is_not_reported(caller: Caller, project: Project) -> None:
    file = project.config_file
    caller.agents_after(lambda: replaced(file, agents(1)))
    calls = caller.calls
    os.utime(file)
    replaced(file, agents(1))
    with (project.home / "corral.db-wal").open("ab") as database:
        for _ in range(100):
            database.write(b"x")
            database.flush()
    (project.home / "metadata.json").write_text("{}")
    # Events arrive in order: once this later change is there, whatever the others caused is there too.
    caller.agents_after(lambda: replaced(project.home / "local.yaml", agents(2)))
    assert caller.calls == calls + 1


def test_a_loss_is_told_and_a_change_is_none(project: Project, sealed: Path) -> None:
    lost = threading.Event()
    project.run_dir.mkdir()
    socket_path(project).parent.mkdir(exist_ok=True)  # elsewhere, where the tests' folder has a long name
    watcher = ConfigWatcher(project, lambda: None, home=sealed, on_loss=lost.set)
    watcher.start()
    try:
        for file in (project.home / "corral.db", project.run_dir / "corral.sock"):
            file.touch()
            (sealed / "unrelated").touch()
            (sealed / "unrelated").unlink()
            assert not lost.is_set()
            file.unlink()
            assert lost.wait(DEADLINE_S)
            lost.clear()
        project.run_dir.rmdir()
        assert lost.wait(DEADLINE_S)
    finally:
        watcher.stop()


def test_a_broken_version_is_reported_like_any_other_and_the_next_one_too(caller: Caller, project: Project) -> None:
    caller.agents_after(lambda: replaced(project.config_file, agents(1)))
    with pytest.raises(ConfigInvalid):
        caller.agents_after(lambda: replaced(project.config_file, "supervisor: ["))
    calls = caller.calls
    replaced(project.config_file, agents(2))
    deadline = time.monotonic() + DEADLINE_S
    while caller.calls == calls and time.monotonic() < deadline:
        time.sleep(0.01)
    assert load(project, environ={}, home=caller.home).settings.supervisor.max_agents == 2
    assert caller.calls == calls + 1


def test_nothing_is_called_and_nothing_is_left_after_stop(project: Project, sealed: Path) -> None:
    threads = set(threading.enumerate())
    caller = Caller(project, sealed)
    caller.watcher.start()
    caller.watcher.stop()
    caller.watcher.stop()
    project.config_file.write_text(agents(1))
    assert caller.calls == 0
    assert set(threading.enumerate()) <= threads


def test_it_can_be_started_again(caller: Caller, project: Project) -> None:
    caller.watcher.stop()
    project.config_file.write_text(agents(1))
    caller.watcher.start()
    assert caller.agents_after(lambda: project.config_file.write_text(agents(2))) == 2


def test_without_any_folder_it_starts_and_stops(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    project = Project(nowhere, nowhere / ".git", nowhere / ".corral", bare=False)
    watcher = ConfigWatcher(project, lambda: None, home=nowhere)
    watcher.start()
    watcher.stop()


@pytest.mark.skipif(
    not Path("/proc/self/task").is_dir(), reason="counts the wake-ups of threads where Linux shows them"
)
def test_it_sleeps_while_nothing_changes(project: Project, sealed: Path) -> None:
    before = _threads()
    caller = Caller(project, sealed)
    caller.watcher.start()
    try:
        threads = _threads() - before
        assert threads
        with (project.home / "corral.db-wal").open("ab", buffering=0) as database:
            settled = _settled(threads)
            for _ in range(1000):
                database.write(b"x")
            assert _settled(threads) == settled
    finally:
        caller.watcher.stop()


def _threads() -> set[str]:
    return {task.name for task in Path("/proc/self/task").iterdir()}


def _wakeups(threads: set[str]) -> int:
    count = 0
    for thread in threads:
        for line in Path(f"/proc/self/task/{thread}/status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                count += int(line.split()[1])
    return count


def _settled(threads: set[str]) -> int:
    """The number of wake-ups once starting is over: unchanged for half a second."""
    deadline = time.monotonic() + DEADLINE_S
    seen = -1
    while time.monotonic() < deadline:
        now = _wakeups(threads)
        if now == seen:
            return now
        seen = now
        time.sleep(0.5)
    raise AssertionError("the watcher's threads never come to rest")


def test_a_system_without_watches_to_give_is_named(tmp_path: Path) -> None:
    script = """
import os, resource, sys, threading
from pathlib import Path
from corral.config.paths import Project
from corral.config.watch import ConfigWatcher
from corral.core.errors import Unsupported
root = Path(sys.argv[1])
watcher = ConfigWatcher(Project(root, root, root, False), lambda: None, home=root)
lowest_free = os.dup(0)
resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
try:
    watcher.start()
except Unsupported as error:
    print(error.cause, threading.active_count())
"""
    source = Path(config.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(source)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith("The system refuses a file watch: "), done.stderr
    assert done.stdout.endswith(" 1\n"), "no thread is left behind"
