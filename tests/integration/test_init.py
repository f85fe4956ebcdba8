"""`corral init`: what it writes, shows, refuses, and leaves alone."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.config.paths import bundle_dir
from corral.faces.cli.project.project_copies import COPIES
from tests.conftest import commit, git
from tests.integration.claude_settings import SETTINGS, settings_of, write_settings
from tests.support.coordinated import Coordinated
from tests.support.terminals import on_terminal

AGENT, SKILL = COPIES
IDENTITY = {f"GIT_{who}_{what}": "a@b.test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def test_init_writes_what_a_team_shares_and_ignores_the_rest(house: Coordinated) -> None:
    house.carry_out("hello", "echo hello > hello.txt")
    git(house.root, "add", "--all")
    staged = set(git(house.root, "diff", "--cached", "--name-only").splitlines())
    assert staged == {
        ".corral/.gitignore",
        ".corral/config.yaml",
        ".corral/template.lock",
        ".claude/settings.json",
        SKILL,
    }


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
    done = house.run("init", "--yes", "--verify", "true", "--no-check", timeout_s=30)
    assert house.json("config", "validate")["valid"] is True
    assert "is ready" in done.stdout
    for step in ("git add .corral", "corral task submit --title", "corral status"):
        assert step in done.stdout, "the next steps"
    kept = (repo / ".corral" / "config.yaml").read_bytes()
    assert "everything is in place" in house.run("init", "--yes").stdout
    assert (repo / ".corral" / "config.yaml").read_bytes() == kept
    house.stop()


@pytest.mark.req("DELEGATE-1")
def test_the_names_that_prompts_use_are_there_as_the_projects_own(repo: Path) -> None:
    house = Coordinated(repo)
    offered = house.run("init", "--with-opencode", check=False).stdout
    assert all(f"will write {name}" in offered for name in COPIES)
    house.run("init", "--yes", "--with-opencode")
    for name, source in COPIES.items():
        assert (repo / name).read_bytes() == (bundle_dir() / source).read_bytes()
    assert "\nname: OpenCode-Builder\n" in (repo / AGENT).read_text()
    house.run("uninstall", "--yes")
    assert git(repo, "status", "--porcelain", "--ignored") == ""


def test_what_stands_there_already_is_neither_overwritten_nor_taken_out(repo: Path) -> None:
    house = Coordinated(repo)
    (repo / AGENT).parent.mkdir(parents=True)
    (repo / AGENT).write_text("mine\n")
    shown = house.run("init", "--yes", "--with-opencode").stdout
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
    assert "everything is in place" in house.run("init", "--yes").stdout
    house.run("uninstall", "--yes")
    assert git(repo, "status", "--porcelain", "--ignored") == ""


def test_no_copy_is_written_through_a_link_that_leaves_the_repository(repo: Path, tmp_path: Path) -> None:
    house = Coordinated(repo)
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (repo / ".claude").mkdir()
    (repo / ".claude" / "agents").symlink_to(outside)
    assert f"{AGENT} would be outside" in house.run("init", "--yes", "--with-opencode").stdout
    assert list(outside.iterdir()) == []
    house.run("uninstall", "--yes")
    assert (repo / ".claude" / "agents").is_symlink()


def test_a_branch_that_takes_the_place_of_the_tasks_branches_is_named(repo: Path) -> None:
    git(repo, "switch", "-q", "-c", "corral")
    house = Coordinated(repo)
    refused = house.run("init", "--yes", check=False)
    assert refused.returncode == 4 and "git branch -m corral NAME" in refused.stderr
    assert not (repo / ".corral").exists()
    git(repo, "branch", "-m", "corral", "trial")
    house.run("init", "--yes")


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
        house.carry_out("hello", "echo hello > hello.txt")
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
    assert "everything is in place" in again
    assert "landing.verify" not in again
    assert (
        "everything is in place"
        in house.run("init", "--yes", "--no-check", "--target", "main", "--verify", "true").stdout
    )
    assert {file: file.read_bytes() for file in kept} == kept
    for other in (("--target", "other"), ("--verify", "false"), ("--verify", "true", "--verify", "true")):
        git(house.root, "branch", "-f", "other")
        done = house.run("init", "--yes", *other, check=False)
        assert done.returncode == 4 and "with other settings" in done.stderr, other
    assert {file: file.read_bytes() for file in kept} == kept


@pytest.mark.req("FR-CLI-001")
def test_init_again_with_other_answers_asks_and_keeps_the_comments(house: Coordinated) -> None:
    file = house.root / ".corral" / "config.yaml"
    file.write_text("# ours\n" + file.read_text())
    before = file.read_text()
    house.run("config", "set", "landing.timeout_s", "99", "--file", "team")
    git(house.root, "branch", "other")
    init = ["-m", "corral", "init", "--no-check", "--verify", "false", "--target", "other"]
    flags = ["--ask-for-tools", "--no-status-line"]
    kept = file.read_text()
    refused = on_terminal([*init, *flags], cwd=house.root, typed="\n", NO_COLOR="1")
    assert "Google" not in refused.written, "no question about an agent that nobody asked for"
    assert refused.code == 1 and file.read_text() == kept and "Change these settings? [y/N]" in refused.written
    assert '    -  target: "main"' in refused.lines and "Aborted" not in refused.written
    late = on_terminal([*init, *flags], cwd=house.root, typed="y\n", asked=lambda: file.write_text(f"{kept}# late\n"))
    assert late.code == 4 and "was changed while you were asked" in late.written
    assert file.read_text() == f"{kept}# late\n"
    agreed = on_terminal([*init, *flags], cwd=house.root, typed="y\n")
    assert agreed.code == 0, agreed.written
    assert (
        file.read_text() != kept and "# ours" in file.read_text() and len(before.splitlines()) <= len(kept.splitlines())
    )
    shown = house.json("config", "show", "landing")["settings"]
    values = {row["key"]: row["value"] for row in shown}
    assert (values["landing.target"], values["landing.timeout_s"]) == ("other", 99)
    assert on_terminal([*init, *flags], cwd=house.root, typed="n\n").code == 0, "the same answers change nothing"


def test_init_again_goes_by_the_target_that_stands_there_whatever_is_checked_out(house: Coordinated) -> None:
    git(house.root, "switch", "-q", "--detach")
    assert house.json("init", "--yes", "--no-check", "--verify", "true")["target"] == "main"
    git(house.root, "switch", "-q", "-c", "elsewhere")
    assert house.json("init", "--yes")["target"] == "main"


def test_the_commands_that_share_it_leave_out_what_else_was_staged(repo: Path) -> None:
    house = Coordinated(repo)
    (repo / "src" / "a.py").write_text("mine = 1\n")
    git(repo, "add", "src/a.py")
    output = house.run("init", "--yes").stdout
    share = next(line for line in output.splitlines() if "git add" in line).partition("team: ")[2]
    assert share.startswith("git add .corral "), "no detour in the root of the repository"
    readme = (Path(__file__).parents[2] / "README.md").read_text().partition("git add .corral")[2].partition("```")[0]
    for commands in (share, f"git add .corral{readme}"):
        done = subprocess.run(
            ["sh", "-ec", commands], cwd=repo, env={**os.environ, **IDENTITY}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert git(repo, "status", "--porcelain") == "M  src/a.py"
        assert (
            git(repo, "ls-tree", "-r", "--name-only", "HEAD", "--", ".corral/config.yaml", ".claude").count("\n") == 2
        )
        git(repo, "reset", "-q", "--soft", "HEAD~1")
        git(repo, "reset", "-q", "--", ".corral", ".claude")


def test_the_command_that_shares_it_works_where_it_was_shown_and_leaves_out_what_git_ignores(repo: Path) -> None:
    commit(repo, {".gitignore": ".claude/\n", "package.json": '{"scripts": {"test": "node --test"}}'})
    output = Coordinated(repo).run("init", "--yes", cwd=repo / "src").stdout
    share = next(line for line in output.splitlines() if "your team: " in line).partition("team: ")[2]
    done = subprocess.run(
        ["sh", "-ec", share], cwd=repo / "src", env={**os.environ, **IDENTITY}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "ls-tree", "-r", "--name-only", "HEAD", "--", ".corral", ".claude").splitlines() == [
        ".corral/.gitignore",
        ".corral/config.yaml",
        ".corral/template.lock",
    ]
    assert f"Not shared, because git ignores it here: .claude/settings.json, {SKILL}\n" in output
    assert "corral init --verify 'npm test'" in output


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
    assert "Cannot write" in json.loads(done.stderr)["error"]["message"]
    assert sorted(str(path) for path in repo.rglob("*") if ".git" not in path.parts) == before
    assert not (repo / ".corral").is_dir()


def test_the_environment_of_git_in_a_hook_does_not_lead_init_astray(repo: Path, make_repo: Callable[..., Path]) -> None:
    other = make_repo("other")
    house = Coordinated(repo)
    house.run("init", "--yes", GIT_DIR=str(other / ".git"), GIT_WORK_TREE=str(other))
    assert (repo / ".corral" / "config.yaml").is_file()
    assert not (other / ".corral").exists()


def test_nothing_that_sends_code_to_another_provider_is_there_unless_asked_for(house: Coordinated) -> None:
    """Not as a file, not among the plugin's agents, not as the agent of a task; and a clone that brings it is asked about."""
    assert not (house.root / AGENT).exists()
    manifest = json.loads((bundle_dir() / ".claude-plugin" / "plugin.json").read_text())
    assert not [name for name in manifest["agents"] if "OpenCode" in name]
    assert "OpenCode-Builder" not in {row["name"] for row in house.json("agent", "list")}
    task = ("task", "submit", "--title", "x", "--agent", "OpenCode-Builder", "--prompt", "y")
    assert house.run(*task, check=False).returncode == 2
    house.run("init", "--yes", "--with-opencode")
    assert (house.root / AGENT).is_file()
    assert house.ask("GET", "/trust")["untrusted"] == [], "asked for here, approved here"
    assert "OpenCode-Builder" in {row["name"] for row in house.json("agent", "list")}
    house.run("init", "--yes")
    assert (house.root / AGENT).is_file(), "a file of the project's own, which a person takes out"


def test_a_copy_that_somebody_else_committed_waits_for_a_yes(house: Coordinated) -> None:
    (house.root / AGENT).parent.mkdir(parents=True, exist_ok=True)
    (house.root / AGENT).write_bytes((bundle_dir() / COPIES[AGENT]).read_bytes())
    waiting = house.ask("GET", "/trust")["untrusted"]
    assert [claim["key"] for claim in waiting] == ["agents.OpenCode-Builder"]


def test_init_shows_whole_what_a_yes_writes_and_names_the_target(repo: Path) -> None:
    git(repo, "branch", "-m", "trunk")
    command = "python3 -m unittest discover -v " + " ".join(f"tests/test_{number}" for number in range(30))
    shown = Coordinated(repo).run("init", "--verify", command, "--allow-tools", check=False).stdout
    house = Coordinated(repo)
    house.run("init", "--yes", "--no-check", "--verify", command, "--allow-tools")
    assert "will land on the branch trunk" in shown
    for name in (".corral/config.yaml", ".corral/.gitignore", ".claude/settings.json"):
        for line in (repo / name).read_text().splitlines():
            assert line in shown, name
    assert f"a copy of {bundle_dir() / COPIES[SKILL]}" in shown


def test_the_rule_that_allows_corrals_own_tools_is_offered_written_and_taken_out_again(repo: Path) -> None:
    house = Coordinated(repo)
    mine = write_settings(repo, json.dumps(SETTINGS, indent=2) + "\n")
    assert "corral init --allow-tools" in house.run("init", "--yes").stdout
    assert json.loads(settings_of(repo).read_text())["permissions"] == SETTINGS["permissions"]
    assert "--allow-tools" not in house.run("init", "--yes", "--allow-tools").stdout
    rules = json.loads(settings_of(repo).read_text())["permissions"]
    assert rules == {"allow": ["Bash(ls:*)", "mcp__plugin_corral_corral"], "deny": ["Read(.env)"]}
    edited = {**json.loads(settings_of(repo).read_text()), "model": "opus"}
    settings_of(repo).write_text(json.dumps(edited, indent=2) + "\n")
    house.run("uninstall", "--yes")
    assert json.loads(settings_of(repo).read_text()) == {**json.loads(mine), "model": "opus"}
