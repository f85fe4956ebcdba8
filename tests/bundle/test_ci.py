"""``.ci/run``: the README's command as on a fresh machine, whatever the machine that runs it has."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.files import executable

RUN = Path(__file__).parents[2] / ".ci" / "run"
INSTALLER = """#!/bin/sh
printf '%s\\n' "$@" > args
env -0 > environment
ls -A "$HOME" > home
command -v reef > reef
exit 3
"""

pytestmark = [
    pytest.mark.one_python,
    pytest.mark.skipif(not RUN.exists(), reason="a source distribution comes without it"),
]


def test_it_runs_the_readmes_command_with_the_systems_path_an_empty_home_and_no_variable_but_the_package_indexes(
    tmp_path: Path, sealed: Path
) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(RUN, tmp_path / ".ci" / "run")
    executable(tmp_path / "install.sh", INSTALLER)
    reef = executable(tmp_path / "programs" / "reef", "#!/bin/sh\n")
    path = f"{reef.parent}{os.pathsep}{os.environ['PATH']}"
    indexes = {"PIP_EXTRA_INDEX_URL": "https://one.test/simple\n $(touch pwned) 'two'", "https_proxy": "http://[::1]:1"}
    mine = {"PATH": path, "HOME": str(sealed), "EDITOR": "vi", "PYTHONPATH": "/mine"}
    done = subprocess.run([tmp_path / ".ci" / "run"], cwd=sealed, env={**mine, **indexes}, timeout=60)
    assert done.returncode == 3, "a red suite is red"
    assert (tmp_path / "args").read_text() == "--test\n"
    environment = dict(line.split("=", 1) for line in (tmp_path / "environment").read_text().split("\0") if line)
    for of_the_shell in ("PWD", "OLDPWD", "SHLVL", "_"):
        environment.pop(of_the_shell, None)
    home = Path(environment.pop("HOME"))
    assert home != sealed and (tmp_path / "home").read_text() == "" and not home.exists(), "it is removed"
    assert (tmp_path / "reef").read_text() == "" and str(reef.parent) not in environment.pop("PATH")
    environment.pop("CORRAL_PYTHON", "where the system has none that is new enough")
    assert environment == {**indexes, "CI": "true"}
    assert not (tmp_path / "pwned").exists()
