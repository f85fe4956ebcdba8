"""Corral is upgraded while its daemon runs: named until it has taken effect, and replaced when nothing runs."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import corral
from corral import __version__
from corral.client.connection import Client
from corral.config.paths import Project, find_project
from corral.daemon import upgrade
from tests.support.coordinated import Coordinated, eventually
from tests.support.files import put


def install(site: Path, version: str) -> None:
    """Put this code into a folder as an installer does, under a version; what was there is replaced, the record last."""
    for before in site.glob("corral*"):
        shutil.rmtree(before)
    package = shutil.copytree(
        Path(corral.__file__).parent, site / "corral", ignore=shutil.ignore_patterns("__pycache__")
    )
    init = package / "__init__.py"
    init.write_text(init.read_text().replace(__version__, version))
    looks = package / "daemon" / "upgrade.py"
    looks.write_text(looks.read_text().replace("LOOK_EVERY_S = 20.0", "LOOK_EVERY_S = 0.2"))
    info = site / f"corral-{version}.dist-info"
    put(info / "METADATA", f"Metadata-Version: 2.1\nName: corral\nVersion: {version}\n")
    (info / "RECORD").write_text("corral/__init__.py,,\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation of the version before, from which the daemon of this test runs."""
    folder = tmp_path / "site"
    folder.mkdir()
    install(folder, __version__)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


def version_of(house: Coordinated) -> str:
    return str(house.ask("GET", "/health")["version"])


def wait_for(house: Coordinated, version: str) -> None:
    """Wait for a daemon of this version without asking: whoever asks in between starts one of the version of the commands."""
    record = house.root / ".corral" / "run" / "daemon.json"
    eventually(lambda: record.exists() and f'"version": "{version}"' in record.read_text())


def test_an_idle_daemon_is_replaced_by_the_version_that_was_installed(
    coordinate: Callable[..., Coordinated], site: Path
) -> None:
    house = coordinate()
    before = house.ask("GET", "/health")
    assert before["version"] == __version__
    install(site, "99.0")
    wait_for(house, "99.0")
    after = house.ask("GET", "/health")
    assert (after["version"], after["pid"] != before["pid"]) == ("99.0", True)
    shown = house.run("status").stdout  # by the command of this version
    assert f"the daemon is version 99.0, this command {__version__}: corral daemon restart" in shown


def test_a_daemon_that_prepares_a_verification_is_named_until_that_is_done_and_the_verification_goes_on(
    coordinate: Callable[..., Coordinated], site: Path, tmp_path: Path
) -> None:
    gate, ran = tmp_path / "gate", tmp_path / "ran"
    setup = (
        f"case $PWD in *verification-*) touch {gate}.waits; while [ ! -e {gate}.set-up ]; do sleep 0.05; done;; esac"
    )
    house = coordinate(verify=(f"echo x >> {ran}; while [ ! -e {gate} ]; do sleep 0.05; done",))
    house.configure(f"worktrees: {{setup: ['{setup}']}}")
    assert version_of(house) == __version__
    task = house.submit("works", "echo x > out.txt")
    eventually(Path(f"{gate}.waits").exists)
    install(site, "99.0")

    def named() -> list[dict[str, str]]:
        return [need for need in house.ask("GET", "/status")["needs_you"] if need["kind"] == "outdated_daemon"]

    (need,) = eventually(named)
    assert "99.0" in need["what"] and __version__ in need["what"] and "corral daemon restart" in need["remedy"]
    assert version_of(house) == __version__
    Path(f"{gate}.set-up").touch()
    wait_for(house, "99.0")
    assert version_of(house) == "99.0"
    assert named() == []
    assert house.json("task", "detail", task)["merge"]["state"] == "verifying"
    gate.touch()
    eventually(lambda: house.json("task", "detail", task)["merge"]["state"] == "landed")
    assert (house.json("task", "detail", task)["attempts"], ran.read_text().split()) == (1, ["x"])


def test_an_upgrade_leaves_a_worker_alone(coordinate: Callable[..., Coordinated], site: Path, tmp_path: Path) -> None:
    house = coordinate()
    assert version_of(house) == __version__
    gate, ran = tmp_path / "gate", tmp_path / "ran"
    task = house.submit("works", f"echo x >> {ran}; while [ ! -e {gate} ]; do sleep 0.05; done; echo x > out.txt")
    eventually(lambda: house.json("task", "detail", task)["started_at"])
    install(site, "99.0")
    wait_for(house, "99.0")
    assert house.json("task", "detail", task)["status"] == "running"
    gate.touch()
    eventually(lambda: (house.json("task", "detail", task)["merge"] or {}).get("state") == "landed")
    assert (house.json("task", "detail", task)["attempts"], ran.read_text().split()) == (1, ["x"])


@pytest.mark.executed
def test_the_bridge_of_an_open_session_brings_back_a_daemon_that_an_upgrade_left_behind(
    coordinate: Callable[..., Coordinated], site: Path
) -> None:
    """It is older than what it finds on the disk: what it imports now need not fit what it has imported before."""
    house = coordinate()
    assert version_of(house) == __version__
    argv = [sys.executable, "-m", "corral", "mcp"]
    with subprocess.Popen(argv, cwd=house.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as bridge:
        assert bridge.stdin is not None and bridge.stdout is not None

        def ask(number: int) -> str:
            assert bridge.stdin is not None and bridge.stdout is not None
            params = {"name": "list_locks", "arguments": {}}
            request = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            bridge.stdin.write(json.dumps(request) + "\n")
            bridge.stdin.flush()
            return next(line for line in bridge.stdout if f'"id":{number}' in line.replace(" ", ""))

        before = ask(1)
        install(site, "99.0")
        client = site / "corral" / "client"
        with (client / "wire.py").open("a") as file:
            file.write("NEWER = True\n")
        connection = (client / "connection.py").read_text()
        (client / "connection.py").write_text(
            connection.replace("\nimport itertools\n", "\nfrom corral.client.wire import NEWER\nimport itertools\n")
        )
        house.kill_daemon()
        assert ask(2).replace('"id":2', '"id":1').replace('"id": 2', '"id": 1') == before
        bridge.stdin.close()
    assert '"version": "99.0"' in (house.root / ".corral" / "run" / "daemon.json").read_text()


FORMER = {
    "root", "common_dir", "home", "initialised", "config_file", "database", "run_dir", "lock_file", "daemon_json", "stopped_file",
    "alive_file", "token_file", "logs_dir", "state_dir",
}  # fmt: skip
"""What the class has that the bridges of open sessions loaded which import a newer client only to start a daemon."""


class FormerProject:
    """A project as such a bridge knows it."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def __getattr__(self, name: str) -> Any:
        if name not in FORMER:
            raise AttributeError(name)
        return getattr(self._project, name)


def test_a_bridge_that_imports_a_newer_client_when_its_daemon_is_dead_starts_one(house: Coordinated) -> None:
    client: Any = Client
    with contextlib.closing(client(FormerProject(find_project(house.root)))) as of_the_bridge:
        assert of_the_bridge.ensure_daemon()["version"] == __version__


def test_it_is_replaced_once_the_installer_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    handed_over: list[bool] = []
    install(tmp_path, "1.0")
    look = upgrade.Upgrade({}, lambda: True, lambda: handed_over.append(True), tmp_path / "corral")
    now = datetime.now(timezone.utc)
    look.step(now)
    install(tmp_path, "2.0")
    (tmp_path / "corral-2.0.dist-info" / "RECORD").unlink()
    look.step(now)
    look.step(now)
    assert handed_over == []
    install(tmp_path, "2.0")
    look.step(now)  # it was not so at the look before: something may still follow
    assert handed_over == []
    look.step(now)
    assert handed_over == [True]


def test_code_that_was_not_installed_is_not_looked_at_again(tmp_path: Path) -> None:
    looks = upgrade.Upgrade({}, lambda: True, lambda: None, tmp_path / "corral")
    assert looks.step(datetime.now(timezone.utc)) is None
