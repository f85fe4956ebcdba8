"""The hooks in shared settings, on a machine that has git and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import git
from tests.integration.claude_settings import hook_command
from tests.support.coordinated import Coordinated


def as_a_colleague(command: str, cwd: Path, **payload: Any) -> subprocess.CompletedProcess[str]:
    """Run a hook's command on a machine that has git and nothing else."""
    return subprocess.run(
        ["env", "-i", f"PATH={os.environ['PATH']}", "sh", "-c", command],
        cwd=cwd,
        input=json.dumps({"session_id": "s", "cwd": str(cwd), **payload}),
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("where", ["main checkout", "subfolder", "linked worktree"])
def test_the_hooks_work_for_a_colleague_without_corral(repo: Path, tmp_path: Path, where: str) -> None:
    Coordinated(repo).run("init", "--yes")
    create, remove = (hook_command(repo, event) for event in ("WorktreeCreate", "WorktreeRemove"))
    linked = tmp_path / "linked worktree"
    git(repo, "worktree", "add", "-q", str(linked), "-b", "side")
    cwd = {"main checkout": repo, "subfolder": repo / "src", "linked worktree": linked}[where]
    made = as_a_colleague(create, cwd, hook_event_name="WorktreeCreate", name="feature-1.x_y")
    assert made.returncode == 0, made.stderr
    path = Path(made.stdout.splitlines()[-1])
    assert path == repo / ".claude" / "worktrees" / "feature-1.x_y"
    assert (path / "README.md").read_text() == "hello\n"
    assert git(path, "branch", "--show-current") == "worktree-feature-1.x_y"
    again = as_a_colleague(create, cwd, hook_event_name="WorktreeCreate", name="feature-1.x_y")
    assert (again.returncode, again.stdout) == (0, made.stdout)
    gone = as_a_colleague(remove, path, hook_event_name="WorktreeRemove", worktree_path=str(path))
    assert gone.returncode == 0, gone.stderr
    assert not path.exists()
    once_more = as_a_colleague(create, cwd, hook_event_name="WorktreeCreate", name="feature-1.x_y")
    assert once_more.returncode == 0 and path.is_dir()


def test_the_remove_hook_keeps_a_colleagues_unfinished_work(repo: Path) -> None:
    Coordinated(repo).run("init", "--yes")
    create, remove = (hook_command(repo, event) for event in ("WorktreeCreate", "WorktreeRemove"))
    path = Path(as_a_colleague(create, repo, name="wip").stdout.strip())
    (path / "half.txt").write_text("half")
    as_a_colleague(remove, path, worktree_path=str(path))
    assert (path / "half.txt").read_text() == "half"


def test_the_hooks_work_in_a_submodule_of_a_colleague(repo: Path, make_repo: Callable[..., Path]) -> None:
    Coordinated(repo).run("init", "--yes")
    create = hook_command(repo, "WorktreeCreate")
    around = make_repo("around")
    git(around, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repo), "part")
    made = as_a_colleague(create, around / "part", name="inside")
    assert made.returncode == 0, made.stderr
    path = Path(made.stdout.strip())
    assert path == around / "part" / ".claude" / "worktrees" / "inside"
    assert (path / "README.md").is_file()


@pytest.mark.parametrize("name", ["../../escape", "$(touch pwned)", "a b", "--force", ""])
def test_a_hostile_name_makes_no_worktree_in_the_hook(repo: Path, name: str) -> None:
    Coordinated(repo).run("init", "--yes")
    done = as_a_colleague(hook_command(repo, "WorktreeCreate"), repo, name=name)
    assert len(git(repo, "worktree", "list").splitlines()) == 1 or name == "--force"
    assert not (repo / "pwned").exists()
    assert done.stdout == "" or Path(done.stdout.strip()).is_relative_to(repo / ".claude" / "worktrees")
