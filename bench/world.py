"""Where measurements run: a separate home, and coordinated repositories that are removed with the run."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.coordinated import Coordinated

SOURCE = Path(__file__).parent.parent
IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "A Bench"), ("EMAIL", "bench@example.test"))
}


@dataclass(frozen=True)
class Sizes:
    """The size of the measurements; ``--quick`` only shows that everything runs."""

    files: int = 5000
    files_of_large: int = 50_000
    files_of_tasks: int = 1000
    few_rows: int = 100
    many_rows: int = 10_000
    requests: int = 1500
    turns: int = 15
    tool_calls: int = 25
    idle_s: float = 10.0
    tasks_of_swarm: int = 500
    files_of_swarm: int = 20
    suite_s: float = 8.0
    kills: int = 1000
    tasks_of_storm: int = 300


QUICK = Sizes(
    files=60,
    files_of_large=80,
    files_of_tasks=4,
    few_rows=5,
    many_rows=60,
    requests=40,
    turns=2,
    tool_calls=2,
    idle_s=0.5,
    tasks_of_swarm=5,
    suite_s=0.5,
    kills=10,
    tasks_of_storm=6,
)


class World:
    """Made by :func:`world`."""

    def __init__(self, folder: Path, sizes: Sizes) -> None:
        self.folder = folder
        self.sizes = sizes
        self._made: list[Coordinated] = []

    def repository(self, files: int) -> Path:
        """Create a plain repository with this many small files and one commit on ``main``."""
        root = self.folder / f"repo{len(list(self.folder.glob('repo*')))}"
        for number in range(files):
            file = root / f"d{number // 100:03}" / f"f{number:05}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"file {number}\n" * 20)
        git(root, "init", "-q", "-b", "main")
        git(root, "add", ".")
        git(root, "commit", "-q", "-m", "first")
        return root

    def coordinated(self, files: int, config: str = "") -> Coordinated:
        """Create a coordinated repository without a verification command; its daemon stops with the run."""
        house = Coordinated(self.repository(files))
        self._made.append(house)
        house.run("init", "--yes")
        (house.root / ".corral" / "config.yaml").write_text(config)
        git(house.root, "add", "-A")
        git(house.root, "commit", "-q", "-m", "coordinated")
        return house

    def close(self) -> None:
        """Stop every daemon."""
        for house in self._made:
            house.stop()


def git(root: Path, *args: str) -> str:
    """Run git as a user would."""
    done = subprocess.run(["git", *args], cwd=root, env={**os.environ, **IDENTITY}, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"git {args}: {done.stderr}")
    return done.stdout.strip()


@contextlib.contextmanager
def world(sizes: Sizes) -> Iterator[World]:
    """Seal the environment of this process and clean up afterwards."""
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="corral-bench-", ignore_cleanup_errors=True) as made:
        folder = Path(made).resolve()
        for name in before:
            if name.startswith(("GIT_", "XDG_", "CORRAL_", "CLAUDE", "ANTHROPIC_", "PYTHON")):
                del os.environ[name]
        runtime, home = folder / "runtime", folder / "home"
        for place in (runtime, home):
            place.mkdir(mode=0o700)
        os.environ.update(HOME=str(home), XDG_RUNTIME_DIR=str(runtime), GIT_CONFIG_NOSYSTEM="1")
        os.environ["PYTHONPATH"] = str(SOURCE / "daemon")
        (home / ".gitconfig").write_text("[user]\n\tname = A Bench\n\temail = bench@example.test\n")
        here = World(folder, sizes)
        try:
            yield here
        finally:
            here.close()
            os.environ.clear()
            os.environ.update(before)


def python(*args: str) -> list[str]:
    """A command line for this interpreter."""
    return [sys.executable, *args]
