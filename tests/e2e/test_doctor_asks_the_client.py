"""``corral doctor`` tells of the plugin what the real client says of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.faces.cli.project import doctor
from tests.e2e.team import ROOT

pytestmark = pytest.mark.e2e


def test_the_plugin_is_ok_only_where_a_client_loads_it(
    claude: Path, client_env: Callable[..., dict[str, str]], repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = client_env()
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    status, what, remedy = doctor.status_of(repo)
    assert status == "warning" and "`claude` is not on the PATH" in what and remedy
    folder = tmp_path / "client"
    folder.mkdir()
    (folder / "claude").symlink_to(claude)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def run(*args: str) -> None:
        subprocess.run(["claude", "plugin", *args], cwd=repo, stdin=subprocess.DEVNULL, capture_output=True, check=True)

    status, what, remedy = doctor.status_of(repo)
    assert status == "warning" and "no plugin `corral`" in what and str(ROOT) in remedy
    run("marketplace", "add", str(ROOT))
    run("install", "corral@corral", "--scope", "user")
    assert doctor.status_of(repo) == ("ok", "Claude Code loads corral@corral 0.1.0", "")
    run("disable", "corral@corral")
    status, what, remedy = doctor.status_of(repo)
    assert (status, remedy) == ("warning", "Run: claude plugin enable corral@corral") and "disabled" in what
