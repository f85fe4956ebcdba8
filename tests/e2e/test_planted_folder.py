"""The real client, started in a folder where another user planted a repository, goes on as if Corral were not installed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.conftest import git
from tests.e2e.client import STREAM_FLAGS
from tests.e2e.stage import Stage, bash, script, text
from tests.e2e.team import ROOT, corral_command
from tests.support.coordinated import Coordinated
from tests.support.strangers import NEEDS_ROOT, plant, serving, snapshot

pytestmark = [pytest.mark.e2e, NEEDS_ROOT]


@pytest.mark.req("X2")
def test_a_session_below_a_planted_repository_runs_nothing_of_it_and_asks_before_it_runs_anything(
    coordinate: Callable[..., Coordinated],
    claude: Path,
    client_env: Callable[..., dict[str, str]],
    stage: Stage,
    tmp_path: Path,
) -> None:
    shared, executed, allowed = tmp_path / "shared", tmp_path / "executed", tmp_path / "allowed"
    shared.mkdir()
    shared.chmod(0o1777)
    git(shared, "init", "-q", "-b", "main")
    git(shared, "commit", "-q", "--allow-empty", "-m", "first")
    trap = coordinate(shared)
    plant(trap, executed)
    mine = shared / "mine"
    mine.mkdir()
    env = client_env(path=str(corral_command(tmp_path / "bin").parent))
    argv = [
        str(claude),
        "-p",
        script(bash(f"touch {allowed}"), text("Done.")),
        *STREAM_FLAGS,
        "--plugin-dir",
        str(ROOT),
    ]
    with serving(shared / ".corral" / "run") as heard:
        before = snapshot(shared)
        done = subprocess.run(
            argv, cwd=mine, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90, check=False
        )
        assert snapshot(shared) == before
        assert not heard.exists()
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[-1]["result"] == "Done."
    (refused,) = stage.requests_in(mine)[-1].result_texts
    assert "permission" in refused or "approval" in refused, "no hook allowed what nobody was asked for"
    assert not allowed.exists()
    assert not executed.exists()
    assert not [process for process in psutil.process_iter(["cmdline"]) if "corral.daemon" in str(process.info["cmdline"])
                and str(shared) in str(process.info["cmdline"])]  # fmt: skip
    warnings = [str(event) for event in events if "dubious ownership" in str(event)]
    assert len(warnings) == 1, "the person is told, once"
