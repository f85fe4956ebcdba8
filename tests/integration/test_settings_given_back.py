"""The user's own `.claude/settings.json`: merged into by `corral init`, given back byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from corral.faces.cli.project.claude_settings import MARK
from tests.conftest import git
from tests.integration.claude_settings import OWN_HOOK, SETTINGS, settings_of, write_settings
from tests.support.coordinated import Coordinated


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(SETTINGS),
        json.dumps(SETTINGS, indent=3) + "\n\n\n",
        json.dumps(SETTINGS, indent="\t").replace("\n", "\r\n"),
        json.dumps({**SETTINGS, "note": "grüße"}, indent=1, ensure_ascii=False),
        '{ "hooks" : { } }',
        "{}",
        "",
    ],
    ids=["one line", "three spaces", "tabs and CRLF", "non-ASCII", "empty hooks", "empty object", "empty file"],
)
def test_settings_are_merged_into_and_given_back_byte_for_byte(repo: Path, text: str) -> None:
    before = write_settings(repo, text)
    house = Coordinated(repo)
    house.run("init", "--yes")
    merged = json.loads(settings_of(repo).read_text())
    settings = json.loads(text) if text else {}
    assert {key: value for key, value in merged.items() if key != "hooks"} == {
        key: value for key, value in settings.items() if key != "hooks"
    }
    ours = {"WorktreeCreate", "WorktreeRemove"}
    assert {event: groups for event, groups in merged["hooks"].items() if event not in ours} == settings.get(
        "hooks", {}
    )
    assert ours <= set(merged["hooks"])
    house.run("uninstall", "--yes")
    assert settings_of(repo).read_bytes() == before


def test_without_settings_of_ones_own_none_stay(repo: Path) -> None:
    house = Coordinated(repo)
    house.run("init", "--yes")
    assert settings_of(repo).is_file()
    house.run("uninstall", "--yes")
    assert git(repo, "status", "--porcelain", "--ignored") == ""
    assert not (repo / ".claude").exists()


def test_settings_edited_in_between_lose_only_what_is_ours(repo: Path) -> None:
    write_settings(repo, json.dumps(SETTINGS, indent=4))
    house = Coordinated(repo)
    house.run("init", "--yes")
    edited = json.loads(settings_of(repo).read_text())
    edited["permissions"]["allow"].append("Bash(make:*)")
    edited["hooks"]["WorktreeCreate"].append({"hooks": [{"type": "command", "command": "echo theirs"}]})
    beside = {"type": "command", "command": "echo beside ours"}
    edited["hooks"]["WorktreeRemove"][0]["hooks"].append(beside)
    settings_of(repo).write_text(json.dumps(edited, indent=4))
    local = settings_of(repo).with_name("settings.local.json")
    own = json.loads(local.read_text())
    (guard,) = own["hooks"]["PreToolUse"]
    guard["hooks"].append(beside)
    local.write_text(json.dumps(own))
    house.run("init", "--yes")
    assert sum(beside in group["hooks"] for group in json.loads(local.read_text())["hooks"]["PreToolUse"]) == 1
    house.run("uninstall", "--yes")
    assert json.loads(local.read_text())["hooks"] == {"PreToolUse": [{**guard, "hooks": [beside]}]}
    left = json.loads(settings_of(repo).read_text())
    assert MARK not in settings_of(repo).read_text()
    assert left["permissions"]["allow"] == ["Bash(ls:*)", "Bash(make:*)"]
    assert left["hooks"] == {
        "PreToolUse": [OWN_HOOK],
        "WorktreeCreate": [{"hooks": [{"type": "command", "command": "echo theirs"}]}],
        "WorktreeRemove": [{"hooks": [beside]}],
    }


def test_settings_that_became_unreadable_are_left_alone_and_said(repo: Path) -> None:
    house = Coordinated(repo)
    house.run("init", "--yes")
    settings_of(repo).write_text("{ half")
    done = house.run("uninstall", "--yes", check=False)
    assert done.returncode == 2
    assert "settings.json" in done.stderr and "Correct" in done.stderr
    assert settings_of(repo).read_text() == "{ half"
    assert (repo / ".corral" / "config.yaml").is_file()


@pytest.mark.parametrize("text", ["{ half", "[]", '{"hooks": []}', '{"hooks": {"WorktreeCreate": {}}}'])
def test_settings_that_cannot_be_merged_into_are_refused_before_anything_is_written(repo: Path, text: str) -> None:
    before = write_settings(repo, text)
    done = Coordinated(repo).run("init", "--yes", "--json", check=False)
    assert done.returncode == 2
    error = json.loads(done.stderr)["error"]
    assert "settings.json" in error["message"] and error["remedy"]
    assert settings_of(repo).read_bytes() == before
    assert not (repo / ".corral").exists()


def test_settings_behind_a_symlink_stay_behind_it(repo: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text(json.dumps(SETTINGS))
    real.chmod(0o640)
    settings_of(repo).parent.mkdir()
    settings_of(repo).symlink_to(real)
    house = Coordinated(repo)
    house.run("init", "--yes")
    assert settings_of(repo).is_symlink()
    assert "WorktreeCreate" in json.loads(real.read_text())["hooks"]
    assert f"it is {real}, from which Corral's entries are gone" in house.run("uninstall", "--yes").stdout
    assert settings_of(repo).is_symlink()
    assert real.read_text() == json.dumps(SETTINGS)
    assert real.stat().st_mode & 0o777 == 0o640
    assert [item.name for item in tmp_path.iterdir() if item.name.startswith(".")] == []


def test_settings_in_a_folder_that_is_a_link_lose_what_is_ours_and_stay(repo: Path, tmp_path: Path) -> None:
    shared = tmp_path / "dotfiles"
    shared.mkdir()
    settings_of(repo).parent.symlink_to(shared)
    house = Coordinated(repo)
    house.run("init", "--yes")
    house.run("uninstall", "--yes")
    assert settings_of(repo).parent.is_symlink() and not (repo / ".corral").exists()
    assert {file.name: file.read_text() for file in shared.iterdir()} == {
        "settings.json": "{}\n",
        "settings.local.json": "{}\n",
    }


def test_a_worktree_hook_of_ones_own_is_kept_and_said(repo: Path) -> None:
    own = {"hooks": {"WorktreeCreate": [{"hooks": [{"type": "command", "command": "echo /tmp/mine"}]}]}}
    before = write_settings(repo, json.dumps(own))
    house = Coordinated(repo)
    output = house.run("init", "--yes").stdout
    assert "has its own WorktreeCreate hook" in output
    assert json.loads(settings_of(repo).read_text())["hooks"]["WorktreeCreate"] == own["hooks"]["WorktreeCreate"]
    house.run("uninstall", "--yes")
    assert settings_of(repo).read_bytes() == before
