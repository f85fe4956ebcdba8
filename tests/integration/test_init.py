"""`corral init`: what it writes, shows, refuses, and leaves alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.cli.project_copies import COPIES
from corral.config.paths import bundle_dir
from tests.conftest import git
from tests.coordinated import Coordinated
from tests.integration.claude_settings import SETTINGS, settings_of, write_settings


def test_init_writes_what_a_team_shares_and_ignores_the_rest(house: Coordinated) -> None:
    house.run("wait", house.submit("hello", "echo hello > hello.txt"), "--timeout", "60")
    git(house.root, "add", "--all")
    staged = set(git(house.root, "diff", "--cached", "--name-only").splitlines())
    assert staged == {".corral/.gitignore", ".corral/config.yaml", ".claude/settings.json", *COPIES}


@pytest.mark.req("FR-CLI-001")
def test_init_shows_what_it_will_write_and_does_nothing_unless_agreed(repo: Path) -> None:
    house = Coordinated(repo)
    write_settings(repo, json.dumps(SETTINGS))
    before = git(repo, "status", "--porcelain", "--untracked-files=all")
    done = house.run("init", check=False)
    assert done.returncode == 2
    assert "--yes" in done.stderr
    for shown in (".corral/config.yaml", ".claude/settings.json", "WorktreeCreate"):
        assert shown in done.stdout
    assert git(repo, "status", "--porcelain", "--untracked-files=all") == before
    assert not (repo / ".corral").exists()


AGENT, SKILL = COPIES


@pytest.mark.req("DELEGATE-1")
def test_the_names_that_prompts_use_are_there_as_the_projects_own(repo: Path) -> None:
    house = Coordinated(repo)
    offered = house.run("init", check=False).stdout
    assert all(f"will write {name}" in offered for name in COPIES)
    house.run("init", "--yes")
    for name, source in COPIES.items():
        assert (repo / name).read_bytes() == (bundle_dir() / source).read_bytes()
    assert "\nname: OpenCode-Builder\n" in (repo / AGENT).read_text()
    house.run("uninstall", "--yes")
    assert git(repo, "status", "--porcelain", "--ignored") == ""


def test_what_stands_there_already_is_neither_overwritten_nor_taken_out(repo: Path) -> None:
    house = Coordinated(repo)
    (repo / AGENT).parent.mkdir(parents=True)
    (repo / AGENT).write_text("mine\n")
    shown = house.run("init", "--yes").stdout
    assert f"{AGENT} is not Corral's" in shown
    assert (repo / SKILL).is_file()
    with (repo / SKILL).open("a") as skill:
        skill.write("Ours is different.\n")
    changed = (repo / SKILL).read_bytes()
    assert f"{SKILL} is not Corral's, or was changed" in house.run("init", "--yes").stdout
    house.run("uninstall", "--yes")
    assert (repo / AGENT).read_text() == "mine\n"
    assert (repo / SKILL).read_bytes() == changed
    assert sorted(git(repo, "status", "--porcelain", "--untracked-files=all").split()[1::2]) == sorted([AGENT, SKILL])


def test_a_copy_of_an_older_version_is_renewed_and_none_is_made_unasked(repo: Path) -> None:
    house = Coordinated(repo)
    house.run("init", "--yes", "--no-copies")
    assert not any((repo / name).exists() for name in COPIES)
    house.run("init", "--yes")
    (repo / SKILL).write_text("an older version\n")
    metadata = repo / ".corral" / "metadata.json"
    known = json.loads(metadata.read_text())
    known["copies"][SKILL] = hashlib.sha256(b"an older version\n").hexdigest()
    metadata.write_text(json.dumps(known))
    assert f"will write {SKILL}" in house.run("init", "--yes").stdout
    assert "in place already" in house.run("init", "--yes").stdout
    house.run("uninstall", "--yes")
    assert git(repo, "status", "--porcelain", "--ignored") == ""


def test_no_copy_is_written_through_a_link_that_leaves_the_repository(repo: Path, tmp_path: Path) -> None:
    house = Coordinated(repo)
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (repo / ".claude").mkdir()
    (repo / ".claude" / "agents").symlink_to(outside)
    assert f"{AGENT} would lie outside" in house.run("init", "--yes").stdout
    assert list(outside.iterdir()) == []
    house.run("uninstall", "--yes")
    assert (repo / ".claude" / "agents").is_symlink()


def test_init_takes_a_path_a_target_and_verifications(repo: Path) -> None:
    git(repo, "branch", "stable")
    house = Coordinated(repo)
    house.run(
        "init",
        str(repo / "src"),
        "--yes",
        "--target",
        "stable",
        "--verify",
        "true",
        "--verify",
        "test -d src",
        cwd=Path("/"),
    )
    try:
        house.run("wait", house.submit("hello", "echo hello > hello.txt"), "--timeout", "60")
        receipt = house.json("task", "detail", house.json("task", "list")[0]["task_id"])["merge"]["receipt"]
        assert receipt["commands"] == ["true", "test -d src"]
        assert git(repo, "show", "stable:hello.txt") == "hello"
        assert git(repo, "ls-tree", "main", "--", "hello.txt") == ""
    finally:
        house.stop()


def test_init_twice_changes_nothing_and_says_so(house: Coordinated) -> None:
    home = house.root / ".corral"
    kept = {
        file: file.read_bytes()
        for file in (home / "config.yaml", home / ".gitignore", home / "metadata.json", settings_of(house.root))
    }
    again = house.run("init", "--yes").stdout
    assert "in place already" in again
    assert "landing.verify" not in again
    assert {file: file.read_bytes() for file in kept} == kept
    assert house.run("init", "--yes", "--target", "main", check=False).returncode == 4
    assert {file: file.read_bytes() for file in kept} == kept


@pytest.mark.parametrize("obstacle", ["settings behind a dead link", "a file called .corral"])
def test_an_init_that_cannot_be_finished_leaves_nothing_behind(repo: Path, tmp_path: Path, obstacle: str) -> None:
    if obstacle == "a file called .corral":
        (repo / ".corral").write_text("mine")
    else:
        settings_of(repo).parent.mkdir()
        settings_of(repo).symlink_to(tmp_path / "no such folder" / "settings.json")
    before = sorted(str(path) for path in repo.rglob("*") if ".git" not in path.parts)
    done = Coordinated(repo).run("init", "--yes", "--json", check=False)
    assert done.returncode == 2
    assert "cannot be written" in json.loads(done.stderr)["error"]["message"]
    assert sorted(str(path) for path in repo.rglob("*") if ".git" not in path.parts) == before
    assert not (repo / ".corral").is_dir()


def test_the_environment_of_git_in_a_hook_does_not_lead_init_astray(repo: Path, make_repo: Callable[..., Path]) -> None:
    other = make_repo("other")
    house = Coordinated(repo)
    house.run("init", "--yes", GIT_DIR=str(other / ".git"), GIT_WORK_TREE=str(other))
    assert (repo / ".corral" / "config.yaml").is_file()
    assert not (other / ".corral").exists()
