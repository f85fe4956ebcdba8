"""`corral init` and `corral doctor --verify` try the verification in a fresh worktree, and say what is missing there."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.faces.cli.project import verification
from tests.conftest import GIT_ENV, git, verified_in
from tests.support.coordinated import Coordinated, eventually
from tests.support.terminals import on_terminal

NEEDS_VERSION = "python3 -c 'import sys; sys.path.insert(0, \"src\"); import app._version'"


def _verification(house: Coordinated) -> dict[str, Any]:
    checks = [check for check in house.json("doctor", "--verify", check=False) if check["check"] == "verification"]
    assert len(checks) == 1
    return dict(checks[0])


def _nothing_left(house: Coordinated) -> None:
    assert not verified_in(house.root, "dry-run").exists()
    assert len(git(house.root, "worktree", "list").splitlines()) == 1
    assert house.json("worktree", "list") == []


def test_an_ignored_file_that_a_fresh_worktree_lacks_is_named_and_the_remedy_mends_it(
    make_repo: Callable[..., Path],
) -> None:
    """As in a project whose version module is generated and ignored."""
    house = Coordinated(make_repo("generated", {"src/app/__init__.py": "", ".gitignore": "_version.py\n*.secret\n"}))
    (house.root / "src/app/_version.py").write_text("version = '1'\n")
    (house.root / "other.secret").write_text("x\n")
    try:
        shown = house.run("init", "--yes", "--verify", NEEDS_VERSION).stdout
        assert "fails in a fresh worktree" in shown and "No module named 'app._version'" in shown
        assert "With these files it passes: add the files that git ignores to .worktreeinclude, and commit it" in shown
        (command,) = (line.split(": ", 2)[2] for line in shown.splitlines() if "With these files" in line)
        assert command.startswith(r"printf '%s\n' 'src/app/_version.py' >> .worktreeinclude && git add ")
        check = _verification(house)
        assert check["status"] == "error" and command in check["remedy"] and "other.secret" not in check["remedy"]
        _nothing_left(house)
        subprocess.run(
            ["/bin/sh", "-c", command], cwd=house.root, env={**os.environ, **GIT_ENV}, check=True
        )  # word for word
        assert _verification(house)["status"] == "ok"
        _nothing_left(house)
    finally:
        house.stop()


def test_a_verification_that_passes_or_fails_by_itself_is_told_apart_from_one_that_lacks_a_file(
    coordinate: Callable[..., Coordinated],
) -> None:
    house = coordinate(verify=("test -e README.md",))
    assert _verification(house)["status"] == "ok"
    (house.root / "local.ini").write_text("x\n")
    house.configure("landing: {verify: ['cat local.ini']}\n", file="config.yaml")
    eventually(lambda: "local.ini" in _verification(house)["remedy"])
    assert "commit the uncommitted files: git add -- 'local.ini'" in _verification(house)["remedy"]
    (house.root / "local.ini").unlink()
    check = _verification(house)
    assert "exit code 1" in check["message"] and "Correct landing.verify" in check["remedy"]
    _nothing_left(house)


def test_a_suite_that_outlasts_the_trial_of_init_is_not_called_failing(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    house = Coordinated(repo)
    release = tmp_path / "release"
    suite = f"echo collecting 9 tests; until test -e {release}; do sleep 0.1; done"
    try:
        house.run("init", "--yes", "--no-check", "--verify", suite)
        monkeypatch.setattr(verification, "INIT_LIMIT_S", 1.0)
        with contextlib.closing(house.client()) as client:
            verification.report(client)
        shown = capsys.readouterr().out
        assert "had not ended after 1 s, the time limit of this dry run. Nothing is known" in shown
        assert "corral doctor --verify" in shown
        assert not [word for word in ("fails", "landing.timeout_s", "Correct landing.verify") if word in shown]
        _nothing_left(house)
        house.configure("landing: {timeout_s: 1}\n", file="local.yaml")
        eventually(lambda: house.ask("GET", "/config")["settings"]["landing"]["timeout_s"] == 1)
        assert "took longer than landing.timeout_s (1 s)" in _verification(house)["message"]
    finally:
        house.stop()


def test_doctor_shows_on_a_terminal_which_command_of_the_verification_runs(
    coordinate: Callable[..., Coordinated],
) -> None:
    house = coordinate(verify=("true", "echo collecting 9 tests; sleep 2"))
    screen = on_terminal(["-m", "corral", "doctor", "--verify"], cwd=house.root, columns=160)
    assert "running echo collecting 9 tests; sleep 2: collecting 9 tests" in screen.written
    assert "verification: the commands pass" in screen.written


def test_what_a_dry_run_left_that_was_killed_with_its_daemon_goes_with_the_next_start(
    coordinate: Callable[..., Coordinated],
) -> None:
    house = coordinate(verify=("touch begun; sleep 300",))

    def begun() -> bool:
        return (verified_in(house.root, "dry-run") / "begun").exists()

    house.ask("GET", "/health")
    asking = subprocess.Popen(
        [sys.executable, "-m", "corral", "doctor", "--verify"],
        cwd=house.root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually(begun)
        house.kill_daemon()
    finally:
        asking.kill()
        asking.wait()
    house.ask("GET", "/health")
    eventually(lambda: not verified_in(house.root, "dry-run").exists())
    _nothing_left(house)


def test_a_dry_run_has_other_ports_than_the_verification_beside_it(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    seen = tmp_path / "ports"
    ports = "worktrees: {port_first: 24000, ports_each: 10}\n"
    house = coordinate(verify=(f"echo $CORRAL_PORT_BASE >> {seen}",), config=ports)
    assert _verification(house)["status"] == "ok"
    house.carry_out("lands", "echo x > x.txt")
    assert seen.read_text().split() == ["23980", "23990"]
