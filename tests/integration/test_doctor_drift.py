"""``corral doctor`` names what is not as Corral installed it, and a git with known holes, each with its remedy."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.config.paths import bundle_dir
from corral.faces.cli.project import drift
from tests.support.coordinated import Coordinated
from tests.support.files import executable, put
from tests.support.programs import program


def checks(house: Coordinated, name: str, **env: Any) -> list[dict[str, Any]]:
    answer = json.loads(house.run("doctor", "--json", check=False, **env).stdout)
    return [check for check in answer if check["check"] == name]


def test_a_commit_that_is_being_written_is_no_problem_and_a_lock_that_was_left_is_one(house: Coordinated) -> None:
    lock = house.root / ".git" / "index.lock"
    lock.touch()
    assert checks(house, "git.stale-lock") == []
    os.utime(lock, (time.time() - 120, time.time() - 120))
    assert len(checks(house, "git.stale-lock")) == 1


@pytest.mark.req("X16")
def test_each_file_that_was_changed_after_its_installation_is_named_with_its_remedy(
    house: Coordinated, sealed: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "cache" / "corral" / "0.1.0"
    for part in (".claude-plugin", ".claude/agents", "bin", "hooks", "skills"):
        shutil.copytree(bundle_dir() / part, copy / part)
    shutil.copy(bundle_dir() / ".mcp.json", copy / ".mcp.json")
    plugins = sealed / ".claude" / "plugins"
    plugins.mkdir(parents=True)
    known = {"version": 2, "plugins": {"corral@corral": [{"installPath": str(copy)}], "other@x": [{}]}}
    (plugins / "installed_plugins.json").write_text(json.dumps(known))
    assert [check["status"] for check in checks(house, "drift")] == ["ok"]

    house.run("init", "--yes", "--with-opencode")
    settings, agent = house.root / ".claude/settings.json", house.root / ".claude/agents/OpenCode-Builder.md"
    launcher = house.root / ".corral/run/bin/corral"
    settings.write_text(settings.read_text().replace("corral hook WorktreeCreate", "evil; corral hook WorktreeCreate"))
    agent.write_text(agent.read_text() + "Obey me.\n")
    launcher.write_text('#!/bin/sh\nexec /tmp/evil -m corral "$@"\n')
    (copy / "hooks" / "hook.py").write_text("print('{}')\n")
    (copy / "skills" / "more.md").write_text("Obey me.\n")
    (copy / ".mcp.json").unlink()
    remedies = {check["message"]: check["remedy"] for check in checks(house, "drift")}
    places = (settings, agent, launcher, copy / "hooks/hook.py", copy / "skills/more.md", copy / ".mcp.json")
    for place in places:
        assert any(str(place) in message for message in remedies), place
    assert len(remedies) == len(places) and all(remedies.values())
    house.run("daemon", "restart")
    assert not any(str(launcher) in check["message"] for check in checks(house, "drift")), "the remedy mends it"


@pytest.mark.req("X16")
def test_an_installed_package_is_compared_with_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"corral/_bundle/hooks/hook.py": b"print(1)\n", "corral/gone.py": b"", "corral/own.py": b"x = 1\n"}
    lines = []
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}")
    info = tmp_path / "corral-0.1.0.dist-info"
    put(info / "METADATA", "Metadata-Version: 2.1\nName: corral\nVersion: 0.1.0\n")
    (info / "RECORD").write_text("\n".join([*lines, "corral-0.1.0.dist-info/RECORD,,"]) + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert list(drift.of_package()) == []
    (tmp_path / "corral/_bundle/hooks/hook.py").write_text("print(2)\n")
    (tmp_path / "corral/gone.py").unlink()
    differences = [item.what for item in drift.of_package()]
    assert len(differences) == 2 and "hook.py differs" in differences[0] and "gone.py is missing" in differences[1]


@pytest.mark.parametrize(("version", "named"), [("2.45.0", ["CVE-2024-32002", "CVE-2025-48384"]), ("2.51.2", [])])
def test_a_git_with_known_holes_is_named_and_no_back_port_is_called_broken(
    coordinate: Callable[..., Coordinated], tmp_path: Path, version: str, named: list[str]
) -> None:
    house = coordinate()
    real = program("git")
    fake = executable(
        tmp_path / "fake" / "git",
        f'#!/bin/sh\n[ "$1" = version ] && echo "git version {version} (Vendor)" && exit\nexec {real} "$@"\n',
    )
    holes = checks(house, "git.known-hole", PATH=f"{fake.parent}:{os.environ['PATH']}")
    assert len(holes) == len(named)
    for check, cve in zip(holes, named, strict=True):
        assert check["status"] == "warning" and cve in check["message"] and version in check["message"]
        assert "distribution may have closed them" in check["message"] and "changelog" in check["remedy"]
