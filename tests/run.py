"""The checks and the tests, in one command: ``python -m tests.run [pytest arguments]``; ``./install.sh --test`` calls it.

The checks first, side by side; they include whether the suite proves every requirement. Then the suite, on all cores; beside it
the types are checked.
``--quick``: the checks, and the unit tests without those that try many cases. ``--all``: also the tests that are marked slow
(storms, soaks, long stories), all that :mod:`tests.support.examples` holds back, and the unit tests on the oldest and the newest
supported Python of the machine: of those on the PATH, or on ``PYTHONS_PATH``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")

CHECKS = {
    "format": [str(BIN / "ruff"), "format", "--check", "--quiet", "."],
    "lint": [str(BIN / "ruff"), "check", "--quiet", "--output-format=concise", "."],
    "layers": [str(BIN / "lint-imports"), "--no-cache"],
}

TYPES = "types", [sys.executable, "-m", "mypy"]
"""It takes one core for a minute where nothing is cached, so it runs beside the tests."""

REQUIREMENTS = {"requirements": [sys.executable, "-m", "tests.requirements", "--table"]}
"""It collects the tests, and so leaves them compiled for the workers, all of which collect them at once."""

WORKER_BYTES = 3 << 29
"""What the processes of one test take, several clients among them."""


def _workers() -> int:
    """Twice as many as there are cores, and one: a test waits for other processes and their timers half of its time."""
    return max(2, min(2 * (os.cpu_count() or 2) + 1, psutil.virtual_memory().available // WORKER_BYTES))


WORKERS = ["-n", str(_workers()), "--dist", "worksteal"]
NOT_SLOW = ["-m", "not slow"]
QUICK = ["-m", "not slow and not one_python"]
TOGETHER = ["-p", "tests.support.ledger", *WORKERS]

MEMORY = Path("/dev/shm")
ROOM = 8 << 30
"""Bytes: twice what the files of a whole run take."""


@contextmanager
def workplace() -> Iterator[list[str]]:
    """Where the tests' files are: in memory, where that has room for them, as an argument for pytest.

    Every commit to a database and many a command of git wait for the disk, half of the time of such a test. What they prove is
    the same: processes are killed, never the machine.
    """
    about = os.statvfs(MEMORY) if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) else None
    room = min(about.f_bavail * about.f_frsize, psutil.virtual_memory().available) if about else 0
    if about is None or room < ROOM or about.f_flag & os.ST_NOEXEC:  # tests run what they write
        yield []
        return
    with tempfile.TemporaryDirectory(prefix="corral-", dir=MEMORY, ignore_cleanup_errors=True) as place:
        yield [f"--basetemp={place}/tests"]


def step(name: str, command: list[str], cwd: Path = ROOT, *, quiet: bool = False, **environment: str) -> bool:
    """Run one step and say how it went; its output at once, or of a quiet one afterwards: where it failed, or is a table."""
    began = time.monotonic()
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=quiet, text=True, stdin=subprocess.DEVNULL
    )
    verdict = "ok" if done.returncode == 0 else f"FAILED ({done.returncode})"
    output = done.stdout + done.stderr if quiet and (done.returncode or name in REQUIREMENTS) else ""
    print(f"{name:<14} {verdict}  {time.monotonic() - began:.1f} s\n{output}", end="", flush=True)
    return done.returncode == 0


def side_by_side(checks: dict[str, list[str]]) -> list[bool]:
    """Run checks, all at once."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda check: step(*check, quiet=True), checks.items()))


def checked(checks: dict[str, list[str]], tests: Callable[[], bool]) -> list[bool]:
    """Run the checks and then the tests, and beside both the check of the types."""
    with ThreadPoolExecutor() as pool:
        types = pool.submit(step, *TYPES, quiet=True)
        return [*side_by_side(checks), tests(), types.result()]


def other_pythons() -> list[tuple[str, str]]:
    """``(version, interpreter)`` of the oldest and the newest other Python that works here, a version manager's own included.

    What breaks on a version between the two breaks on one of them.
    """
    interpreters = []
    for version in PYTHONS:
        if version == f"{sys.version_info.major}.{sys.version_info.minor}":
            continue
        for interpreter in _candidates(version):
            asked = subprocess.run(
                [interpreter, "-c", "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"],
                capture_output=True,
                text=True,
            )
            if asked.stdout.strip() == version:
                interpreters.append((version, interpreter))
                break
    return interpreters if len(interpreters) < 3 else [interpreters[0], interpreters[-1]]


def _candidates(version: str) -> list[str]:
    named = shutil.which(f"python{version}", path=os.environ.get("PYTHONS_PATH"))
    if named is None:
        return []
    # A version manager's shim may refuse to run what it has installed; its installations lie beside the shims.
    installed = Path(named).parent.parent.glob(f"versions/{version}.*/bin/python{version}")
    return [named, *(str(path) for path in sorted(installed))]


def environment_of(interpreter: str, folder: str) -> str:
    """Make an environment of another Python with the product and its unit tests' packages; returns the error, if any."""
    python = str(Path(folder) / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    tools = ["pytest", "pytest-timeout", "pytest-xdist", "hypothesis"]
    for command in ([interpreter, "-m", "venv", folder], [*pip, "--editable", f"{ROOT}[otel]", *tools]):
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            return done.stderr[-500:] or f"{command[0]} ended with {done.returncode}"
    return ""


def unit_tests_on(version: str, folder: str, trouble: str) -> bool:
    """Run the unit tests in the environment of another Python."""
    if trouble:
        print(f"unit {version:<9} not run: no environment could be made\n{trouble}", flush=True)
        return False
    python = str(Path(folder) / "bin" / "python")
    return step(
        f"unit {version}",
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *WORKERS, "-m", "not one_python", "tests/unit"],
    )


def _passes_alone(suite: list[str]) -> bool:
    """In continuous integration only: whether what failed beside everything else passes by itself.

    Such a test is a defect (a race in the product, or a test that hopes), and the output says so; it must not keep other
    people's work from landing. A person's run is strict.
    """
    if not os.environ.get("CI"):
        return False
    print(
        "A test failed. Running what failed once more, alone: whatever passes now is FLAKY and has to be mended.",
        flush=True,
    )
    return step("failed, alone", [*suite, "--last-failed", "--last-failed-no-failures", "none"])


def suite_of(suite: list[str], *which: str) -> list[bool]:
    """Run the checks, and the suite or a part of it."""

    def tests() -> bool:
        return step("tests", [*suite, *which, *TOGETHER]) or _passes_alone([*suite, *which])

    return checked({**CHECKS, **REQUIREMENTS}, tests)


def everything(suite: list[str]) -> list[bool]:
    """Run all there is. The environments of other Pythons are made meanwhile: most of that is waiting."""
    with tempfile.TemporaryDirectory(prefix="corral-python") as top, ThreadPoolExecutor() as pool:
        made = {
            version: pool.submit(environment_of, interpreter, str(Path(top) / version))
            for version, interpreter in other_pythons()
        }
        results = suite_of(suite)
        results += [
            unit_tests_on(version, str(Path(top) / version), future.result()) for version, future in made.items()
        ]
        if not made:
            print("unit, others   not run: this machine has no other supported Python", flush=True)
    return results


def main() -> int:
    """Run the suite, or what the arguments say; with others than its own, only pytest with them."""
    suite = [sys.executable, "-m", "pytest", "-q", "--durations=15"]
    if sys.argv[1:] not in ([], ["--all"], ["--quick"]):
        return subprocess.run([*suite, *sys.argv[1:]], cwd=ROOT).returncode
    # Or every worker would compile every test anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with workplace() as place:
        suite += place
        match sys.argv[1:]:
            case ["--all"]:
                os.environ["ALL_EXAMPLES"] = "1"
                results = everything(suite)
            case ["--quick"]:
                results = checked(CHECKS, lambda: step("unit tests", [*suite, *QUICK, *TOGETHER, "tests/unit"]))
            case _:
                results = suite_of(suite, *NOT_SLOW)
    print("all green" if all(results) else "NOT green", flush=True)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
