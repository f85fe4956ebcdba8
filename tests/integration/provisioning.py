"""What the tests of provisioning stand on: a real worktree, real ignore rules, and processes as a runner starts them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from corral.config.model import Settings
from corral.config.paths import bundle_dir
from corral.config.sections.work import Worktrees
from corral.work.worktrees.provision import Provisioned, provision
from corral.work.worktrees.recipes import load_recipes
from tests.conftest import git, worktrees_of
from tests.support.files import put

PORT_BASE = 23450


def add_worktree(main: Path, name: str = "w") -> Path:
    """A linked worktree where Corral puts them, on a branch of its own."""
    path = worktrees_of(main) / name
    put(main / ".corral" / ".gitignore", "*\n")
    git(main, "worktree", "add", "-q", "-b", f"corral/{name}", str(path))
    return path


def ignored_by_git(worktree: Path, paths: list[str]) -> set[str]:
    """Ask git itself."""
    done = subprocess.run(
        ["git", "check-ignore", "-z", "--stdin"],
        cwd=worktree,
        input="\0".join(paths),
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stderr
    return set(filter(None, done.stdout.split("\0")))


def make_usable(main: Path, worktree: Path, *, port_base: int | None = PORT_BASE, **worktrees: object) -> Provisioned:
    """Provision with the shipped recipes."""
    return provision(
        main,
        worktree,
        recipes=load_recipes(bundle_dir()),
        settings=Settings(worktrees=Worktrees.model_validate(worktrees)),
        port_base=port_base,
        is_ignored=lambda paths: ignored_by_git(worktree, paths),
    )


def usable(main: Path, **how: Any) -> tuple[Path, Provisioned]:
    """A worktree that is provisioned, and how."""
    worktree = add_worktree(main)
    return worktree, make_usable(main, worktree, **how)


def run_in(worktree: Path, provisioned: Provisioned, *argv: str, check: bool = True) -> str:
    """Run a program in the worktree with a clean environment and what provisioning said."""
    path = os.pathsep.join([*provisioned.path_prefixes, os.environ["PATH"]])
    env = {"HOME": os.environ["HOME"], "PYTHONDONTWRITEBYTECODE": "1", **provisioned.env, "PATH": path}
    done = subprocess.run(argv, cwd=worktree, env=env, capture_output=True, text=True, timeout=60)
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
