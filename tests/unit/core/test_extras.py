"""The command that adds an optional package is one for the environment that Corral runs in."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from corral.core import extras
from corral.core.extras import how_to_add


def test_it_names_the_environment_and_its_installer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "an environment" / "python"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\necho "$0 $*"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(extras, "find_spec", lambda name: PathFinder)
    done = subprocess.run(["sh", "-c", how_to_add("one", "two")], capture_output=True, text=True, check=True)
    assert done.stdout == f"{python} -m pip install one two\n"
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    assert how_to_add("one") == f"uv pip install --python '{python}' one", "uv makes environments without pip"
