"""``corral guard``: a commit is told whose files it would take along; hooks that are there run on, and come back as they were."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.core.errors import Conflict
from corral.faces.cli.guard import hook as guard_hook
from corral.git.process.command import open_checkout
from tests.conftest import GIT_ENV, commit_all, git
from tests.support.coordinated import Coordinated
from tests.support.files import executable

HOOK = b'#!/bin/sh -e\n# no line end behind the last line\necho "$0 $*" >> ran'


def commit(folder: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    argv = ["git", "commit", "-q", "-m", "take", *args]
    return subprocess.run(argv, cwd=folder, env={**os.environ, **GIT_ENV, **env}, capture_output=True, text=True)


@pytest.mark.req("FR-CLI-003")
def test_a_commit_takes_along_no_file_that_another_session_holds_in_the_same_checkout(house: Coordinated) -> None:
    root = house.root
    hook = root / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_bytes(HOOK)
    hook.chmod(0o750)
    assert house.json("guard", "install") == {"hook": str(hook), "installed": True}
    assert house.json("guard", "status")["installed"] and house.run("guard", "install").returncode == 0
    git(root, "worktree", "add", "-q", "-b", "side", str(root.parent / "side"))
    house.hook("SessionStart", "ada", source="startup")
    name = next(row["agent_name"] for row in house.json("session", "list"))
    house.edit("ada", "README.md")
    for folder in (root, root.parent / "side"):
        (folder / "README.md").write_text("mine\n")
        (folder / "src" / "a.py").write_text("a = 2\n")
        git(folder, "add", "README.md", "src/a.py")

    before = git(root, "rev-parse", "HEAD")
    refused = commit(root)
    assert (
        refused.returncode == 1 and f"README.md: held by {name}" in refused.stderr and "src/a.py" not in refused.stderr
    )
    assert git(root, "rev-parse", "HEAD") == before and not (root / "ran").exists()
    assert commit(root, CLAUDE_CODE_SESSION_ID="ben").returncode == 1, "nor does another agent's"
    assert commit(root, "--", "src/a.py").returncode == 0, "a commit of one's own files passes"
    assert (root / "ran").read_text() == ".git/hooks/pre-commit \n", "and runs the hook that was there, by its name"
    assert commit(root, CLAUDE_CODE_SESSION_ID="ada").returncode == 0, "so does the holder's"
    assert commit(root.parent / "side").returncode == 0, "in another worktree it is another file"

    (root / "README.md").write_text("more\n")
    git(root, "add", "README.md")
    house.configure("locks: {enforcement: warn}\n")
    asked = {"checkout": str(root), "paths": ["README.md"]}
    assert house.ask("POST", "/locks/check-commit", asked)["enforcement"] == "warn", (
        "it holds as soon as it was approved"
    )
    warned = commit(root)
    assert warned.returncode == 0 and "README.md: held by" in warned.stderr
    (root / ".corral" / "local.yaml").unlink()
    house.run("daemon", "stop")
    (root / "README.md").write_text("away\n")
    (root / "odd\tname").write_text("not for a lock\n")
    git(root, "add", "README.md", "odd\tname")
    unchecked = commit(root)
    assert unchecked.returncode == 0 and house.daemon_pid() is None, "without a daemon all pass, and none is started"
    assert "this commit was not checked: The daemon is not running" in unchecked.stderr
    assert "corral daemon start" in unchecked.stderr and "that were not checked: 1 (" in unchecked.stderr

    assert house.json("guard", "remove") == {"removed": [str(hook)]}
    assert (hook.read_bytes(), hook.stat().st_mode & 0o777) == (HOOK, 0o750)
    assert not house.json("guard", "status")["installed"]
    house.run("guard", "install")
    house.run("uninstall", "--yes")
    assert hook.read_bytes() == HOOK and not (root / ".git" / "corral-guard.json").exists()


def test_a_hook_that_is_no_shell_script_is_called_and_given_back(make_repo: Callable[..., Path]) -> None:
    root = make_repo()
    program = executable(root.parent / "program", "#!/usr/bin/env python3\nraise SystemExit(3)\n")
    git(root, "config", "core.hooksPath", "own-hooks")
    file = guard_hook.hook_file(open_checkout(root))
    assert file == root / "own-hooks" / "pre-commit"
    file.parent.mkdir()
    for there in (None, "link", "off"):
        if there == "link":
            file.symlink_to(program)
        elif there == "off":
            file.write_text("#!/bin/sh\nexit 3\n")
        guard_hook.put_in(file)
        guard_hook.put_in(file)
        assert guard_hook.is_in(file)
        assert commit(root, "--allow-empty").returncode == (1 if there == "link" else 0), "one that was off stays off"
        if there == "link":
            file.write_bytes(file.read_bytes() + b"echo more\n")
            with pytest.raises(Conflict):
                guard_hook.take_out(file)
            file.write_bytes(file.read_bytes().removesuffix(b"echo more\n"))
        assert guard_hook.take_out(file) and not guard_hook.take_out(file)
        assert (file.is_symlink() and file.readlink() == program) == (there == "link")
        assert os.path.lexists(file) == (there is not None)
        file.unlink(missing_ok=True)


@pytest.mark.req("FR-CLI-003")
def test_a_hook_of_the_checkout_alone_is_changed_only_by_who_was_told_so(house: Coordinated) -> None:
    root, hook = house.root, house.root / ".husky" / "pre-commit"
    git(root, "config", "core.hooksPath", ".husky")
    executable(hook, "#!/bin/sh\necho ran >> ../ran\n")
    before = hook.read_bytes()
    refusal = house.run("guard", "install", check=False)
    assert refusal.returncode != 0 and hook.read_bytes() == before
    assert "hook of this checkout alone" in refusal.stdout and "Git tracks" not in refusal.stdout
    commit_all(root, "hooks", ".husky")
    assert "Git tracks the file" in house.run("guard", "install", check=False).stdout
    side = root.parent / "side"
    git(root, "worktree", "add", "-q", "-b", "side", str(side))
    for folder in (root, side):
        house.run("guard", "install", "--yes", cwd=folder)
        assert guard_hook.is_in(folder / ".husky" / "pre-commit")
        assert commit(folder, "--allow-empty").returncode == 0
    git(root, "config", "core.hooksPath", str(root.parent / "shared"))
    assert "others may share it" in house.run("guard", "install", check=False).stdout
    house.run("guard", "remove")
    assert [(folder / ".husky" / "pre-commit").read_bytes() for folder in (root, side)] == [before, before]
