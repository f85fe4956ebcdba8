"""The seal of the tests works: nothing of the machine's user is visible to them, and of its programs what each machine has."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import MACHINE, requires

HERE = Path(__file__).resolve()
ROOT = HERE.parents[2]
SUITE = """
import subprocess

import pytest


def sh(command):
    assert subprocess.run(["sh", "-c", command]).returncode == 0


@pytest.mark.parametrize("command", ["reef", "jq --version", "python3 -m pytest --version"])
def test_undeclared(command):
    sh(command)


@pytest.mark.requires("reef")
def test_declared():
    sh("reef")


@pytest.mark.requires("reef", "no-such-program")
def test_missing():
    raise AssertionError
"""


def test_no_test_can_reach_the_real_home(sealed: Path) -> None:
    assert Path.home() == sealed
    assert not [name for name in os.environ if name.startswith(("CORRAL_", "CLAUDE", "ANTHROPIC_"))]
    assert {name for name in os.environ if name.startswith("GIT_")} == {"GIT_CONFIG_NOSYSTEM"}


@pytest.mark.one_python
def test_what_a_fresh_machine_may_lack_fails_a_test_that_does_not_say_so(tmp_path: Path) -> None:
    """As on the machine of a developer, who has it: a ``python3`` with packages too."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, does in (("reef", "exit 0"), ("jq", "exit 0"), ("python3", f'exec "{sys.executable}" "$@"')):
        (programs / name).write_text(f"#!/bin/sh\n{does}\n")
        (programs / name).chmod(0o755)
    (tmp_path / "test_it.py").write_text(SUITE)
    argv = ["-p", "pytest_timeout", "-p", "tests.conftest", "-p", "no:cacheprovider", "-v", f"--rootdir={ROOT}"]
    output = subprocess.run(
        [sys.executable, "-m", "pytest", *argv, f"-c{ROOT / 'pyproject.toml'}", "test_it.py"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{programs}:{MACHINE}",
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "COLUMNS": "200",
        },
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout
    for command in ("reef", "jq --version", "python3 -m pytest --version"):
        assert f"::test_undeclared[{command}] FAILED" in output, output
    assert "::test_declared PASSED" in output, output
    assert "::test_missing SKIPPED (not installed: no-such-program)" in output, output


def test_git_a_shell_and_a_python_without_packages_are_there_for_every_test(tmp_path: Path) -> None:
    has = "import sqlite3, ssl, sys, venv; print(sys.version_info[:2], sys.prefix != sys.base_prefix)"
    command = (
        f'git init -q . && test -d .git && seq 3 | sed -n 2p && python3 -c "{has}" && ! python3 -c "import pytest"'
    )
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"2\n{sys.version_info[:2]} True\n"), done.stderr


@requires("setsid")
def test_what_one_test_requires_is_no_other_tests(sealed: Path) -> None:
    assert [Path(folder).name for folder in os.environ["PATH"].split(os.pathsep)] == ["bin", "setsid"]


@pytest.mark.one_python
def test_no_test_goes_round_the_seal() -> None:
    """Neither by a question to the whole PATH of the machine, nor by a PATH of its own."""
    around = re.compile(r"shutil\.which|os\.defpath|/usr/bin:|:/bin\b")
    places = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in sorted((ROOT / "tests").rglob("*.py"))
        if file != HERE
        and file not in (ROOT / "tests" / f"{name}.py" for name in ("support/programs", "run", "release"))
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if around.search(line)
    ]
    assert not places, "tests/support/programs.py says how a test names a program"
