"""bin/corral: the command is found whatever the PATH is, and nothing that a repository brings is taken for it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.files import executable

LAUNCHER = Path(__file__).parents[2] / "bin" / "corral"


def command(folder: Path, word: str) -> Path:
    """A ``corral`` that prints a word and its arguments."""
    folder.mkdir(parents=True)
    executable(folder / "corral", f'#!/bin/sh\necho {word} "$@"\n')
    return folder


def bundle(root: Path) -> Path:
    """A copy of the launcher in a bundle."""
    (root / "bin").mkdir(parents=True)
    return Path(shutil.copy(LAUNCHER, root / "bin" / "corral"))


def launch(launcher: Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", os.fspath(launcher), "mcp", "a b"], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("path", [{}, {"PATH": ""}, {"PATH": "/nowhere:relative::"}])
@pytest.mark.parametrize("place", ["wheel", "checkout", "install.sh", "home"])
def test_the_command_is_found_without_a_path(tmp_path: Path, place: str, path: dict[str, str]) -> None:
    roots = {"wheel": "venv/lib/python3.11/site-packages/corral/_bundle"}
    launcher = bundle(tmp_path / roots.get(place, "bundle"))
    folders = {"wheel": "venv/bin", "checkout": "bundle/.venv/bin", "install.sh": ".local/share/corral/venv/bin"}
    command(tmp_path / folders.get(place, ".local/bin"), place)
    command(tmp_path / "repo" / "relative", "planted")
    done = launch(launcher, tmp_path / "repo", HOME=os.fspath(tmp_path), **path)
    assert (done.stdout, done.returncode) == (f"{place} mcp a b\n", 0)


def test_the_one_on_the_path_comes_first_and_never_itself(tmp_path: Path) -> None:
    launcher = bundle(tmp_path / "bundle")
    mine = command(tmp_path / "mine", "mine")
    command(tmp_path / "bundle" / ".venv" / "bin", "bundled")
    path = f"{launcher.parent}:{mine}"
    assert launch(launcher, tmp_path, PATH=path).stdout == "mine mcp a b\n"
    assert launch(launcher, tmp_path, PATH=os.fspath(launcher.parent)).stdout == "bundled mcp a b\n"


def test_where_there_is_none_it_says_what_to_type(tmp_path: Path) -> None:
    done = launch(bundle(tmp_path / "bundle"), tmp_path, HOME=os.fspath(tmp_path))
    assert done.returncode == 127 and "./install.sh" in done.stderr
