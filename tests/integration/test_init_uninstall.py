"""A repository is prepared and given back: nothing of the user's changes, nothing of a colleague's breaks, nothing is lost."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from corral.cli.claude_settings import MARK, STRICT
from corral.cli.project_copies import COPIES
from corral.config.paths import bundle_dir
from tests.conftest import commit, git
from tests.coordinated import Coordinated, eventually

OWN_HOOK = {"matcher": "Bash", "hooks": [{"type": "command", "command": "echo mine"}]}
SETTINGS = {"permissions": {"allow": ["Bash(ls:*)"], "deny": ["Read(.env)"]}, "hooks": {"PreToolUse": [OWN_HOOK]}}


def settings_of(root: Path) -> Path:
    return root / ".claude" / "settings.json"


def write_settings(root: Path, text: str) -> bytes:
    settings_of(root).parent.mkdir(exist_ok=True)
    settings_of(root).write_bytes(text.encode())
    return text.encode()


def hook_command(root: Path, event: str) -> str:
    (group,) = json.loads(settings_of(root).read_text())["hooks"][event]
    return str(group["hooks"][0]["command"])


def as_a_colleague(command: str, cwd: Path, **payload: Any) -> subprocess.CompletedProcess[str]:
    """Run a hook's command on a machine that has git and nothing else."""
    return subprocess.run(
        ["env", "-i", "PATH=/usr/bin:/bin", "sh", "-c", command],
        cwd=cwd,
        input=json.dumps({"session_id": "s", "cwd": str(cwd), **payload}),
        capture_output=True,
        text=True,
        timeout=60,
    )


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
    given = json.loads(text) if text else {}
    assert {key: value for key, value in merged.items() if key != "hooks"} == {
        key: value for key, value in given.items() if key != "hooks"
    }
    ours = {"WorktreeCreate", "WorktreeRemove"}
    assert {event: groups for event, groups in merged["hooks"].items() if event not in ours} == given.get("hooks", {})
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
    settings_of(repo).write_text(json.dumps(edited, indent=4))
    house.run("uninstall", "--yes")
    left = json.loads(settings_of(repo).read_text())
    assert MARK not in settings_of(repo).read_text()
    assert left["permissions"]["allow"] == ["Bash(ls:*)", "Bash(make:*)"]
    assert left["hooks"] == {
        "PreToolUse": [OWN_HOOK],
        "WorktreeCreate": [{"hooks": [{"type": "command", "command": "echo theirs"}]}],
    }


def test_settings_that_became_unreadable_are_left_alone_and_said(repo: Path) -> None:
    house = Coordinated(repo)
    house.run("init", "--yes")
    settings_of(repo).write_text("{ half")
    done = house.run("uninstall", "--yes", check=False)
    assert done.returncode == 2
    assert "settings.json" in done.stderr and "Mend" in done.stderr
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
    house.run("uninstall", "--yes")
    assert settings_of(repo).is_symlink()
    assert real.read_text() == json.dumps(SETTINGS)
    assert real.stat().st_mode & 0o777 == 0o640
    assert [item.name for item in tmp_path.iterdir() if item.name.startswith(".")] == []


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


def test_a_worktree_hook_of_ones_own_is_kept_and_said(repo: Path) -> None:
    own = {"hooks": {"WorktreeCreate": [{"hooks": [{"type": "command", "command": "echo /tmp/mine"}]}]}}
    before = write_settings(repo, json.dumps(own))
    house = Coordinated(repo)
    said = house.run("init", "--yes").stdout
    assert "WorktreeCreate hook of its own" in said
    assert json.loads(settings_of(repo).read_text())["hooks"]["WorktreeCreate"] == own["hooks"]["WorktreeCreate"]
    house.run("uninstall", "--yes")
    assert settings_of(repo).read_bytes() == before


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


def test_uninstall_takes_everything_away_and_keeps_what_was_saved(house: Coordinated) -> None:
    house.run("wait", house.submit("hello", "echo hello > hello.txt"), "--timeout", "60")
    made = Path(house.json("worktree", "create", "mine")["path"])
    (made / "half.txt").write_text("half")
    house.run("worktree", "remove", "mine")
    (saved,) = house.json("worktree", "recover")
    pid = house.daemon_pid()
    assert pid is not None
    house.run("uninstall", "--yes")
    eventually(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, 5)
    assert git(house.root, "status", "--porcelain", "--ignored") == ""
    assert not (house.root / ".corral").exists()
    assert git(house.root, "show", f"{saved['ref']}:half.txt") == "half"
    assert len(git(house.root, "worktree", "list").splitlines()) == 1
    assert not (house.root / ".git" / "worktrees").exists() or not list((house.root / ".git" / "worktrees").iterdir())
    assert [item.name for item in (house.root / ".git").iterdir() if "corral" in item.name] == []
    assert git(house.root, "fsck", "--no-dangling") == ""
    assert house.run("uninstall", "--yes", check=False).returncode == 3


def test_uninstall_refuses_while_a_task_is_open_and_does_nothing(house: Coordinated) -> None:
    task = house.submit("long", "sleep 600")
    eventually(lambda: house.json("task", "detail", task)["status"] == "running")
    done = house.run("uninstall", "--yes", "--json", check=False)
    assert done.returncode == 4
    error = json.loads(done.stderr)["error"]
    assert error["name"] == "work_at_risk"
    assert any(task in risk["what"] for risk in error["details"]["at_risk"])
    assert house.json("task", "detail", task)["status"] == "running"
    assert MARK in settings_of(house.root).read_text()
    house.run("task", "cancel", task)
    house.run("wait", task, "--timeout", "30", check=False)
    house.run("uninstall", "--yes")


def test_uninstall_refuses_while_a_worktree_has_uncommitted_work(house: Coordinated) -> None:
    made = Path(house.json("worktree", "create", "mine")["path"])
    (made / "half.txt").write_text("half")
    done = house.run("uninstall", "--yes", check=False)
    assert done.returncode == 4
    assert "mine" in done.stderr
    assert (made / "half.txt").read_text() == "half"
    house.run("worktree", "remove", "mine")
    house.run("uninstall", "--yes")


def test_uninstall_refuses_while_a_held_landing_waits(house: Coordinated) -> None:
    (house.root / "README.md").write_text("mine\n")
    house.submit("clash", "echo theirs > README.md")
    eventually(lambda: any(merge["state"] == "held" for merge in house.json("merge", "list")))
    assert house.run("uninstall", "--yes", check=False).returncode == 4
    assert (house.root / ".corral" / "corral.db").is_file()
    (house.root / "README.md").write_text("hello\n")
    house.run("wait", "--all", "--timeout", "60")
    house.run("uninstall", "--yes")
    assert (house.root / "README.md").read_text() == "theirs\n"


def test_committed_work_in_a_worktree_stays_on_its_branch_through_uninstall(house: Coordinated) -> None:
    made = house.json("worktree", "create", "mine")
    sha = commit(Path(made["path"]), {"done.txt": "done\n"})
    house.run("uninstall", "--yes")
    assert git(house.root, "rev-parse", made["branch"]) == sha
    assert not Path(made["path"]).exists()


def test_a_repository_can_be_prepared_again_after_uninstall(house: Coordinated) -> None:
    house.run("uninstall", "--yes")
    house.run("init", "--yes", "--verify", "true")
    house.run("wait", house.submit("hello", "echo hello > hello.txt"), "--timeout", "60")
    assert (house.root / "hello.txt").is_file()


def test_worktrees_of_the_users_own_are_never_touched(house: Coordinated, tmp_path: Path) -> None:
    own = tmp_path / "own"
    git(house.root, "worktree", "add", "-q", str(own), "-b", "own")
    (own / "half.txt").write_text("half")
    away = tmp_path / "on a stick"
    git(house.root, "worktree", "add", "-q", str(away), "-b", "away")
    away.rename(tmp_path / "unplugged")
    house.run("wait", house.submit("hello", "echo hello > hello.txt"), "--timeout", "60")
    assert house.json("worktree", "list") == []
    assert house.run("worktree", "remove", "own", check=False).returncode == 3
    house.run("uninstall", "--yes")
    assert (own / "half.txt").read_text() == "half"
    listed = git(house.root, "worktree", "list")
    assert str(own) in listed and str(away) in listed


def test_a_worktrees_root_outside_is_emptied_and_nothing_else_of_it(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (outside / "mine.txt").write_text("mine")
    house = coordinate(config=f"worktrees: {{root: {outside}}}")
    house.run("wait", house.submit("hello", "echo hello > hello.txt"), "--timeout", "60")
    house.run("worktree", "create", "there")
    assert (outside / "there" / "README.md").is_file()
    house.run("uninstall", "--yes")
    assert [item.name for item in outside.iterdir()] == ["mine.txt"]
    assert len(git(house.root, "worktree", "list").splitlines()) == 1


def test_the_environment_of_git_in_a_hook_does_not_lead_init_astray(repo: Path, make_repo: Callable[..., Path]) -> None:
    other = make_repo("other")
    house = Coordinated(repo)
    house.run("init", "--yes", GIT_DIR=str(other / ".git"), GIT_WORK_TREE=str(other))
    assert (repo / ".corral" / "config.yaml").is_file()
    assert not (other / ".corral").exists()


# -- denied without a daemon


def denying(house: Coordinated) -> None:
    (house.root / ".corral" / "local.yaml").write_text("locks: {on_daemon_down: deny}\n")
    house.run("init", "--yes")


def before_an_edit(house: Coordinated, corral: Path) -> subprocess.CompletedProcess[str]:
    """Run the hook before a tool as the client does: the settings' command, in a shell, with the event on its input."""
    *_, group = json.loads(settings_of(house.root).read_text())["hooks"]["PreToolUse"]
    assert "Bash" in group["matcher"].split("|") and "Edit" in group["matcher"].split("|")
    payload = {"session_id": "s", "cwd": str(house.root), "hook_event_name": "PreToolUse", "tool_name": "Edit"}
    payload |= {"tool_use_id": "use", "tool_input": {"file_path": str(house.root / "README.md")}}  # type: ignore[dict-item]
    return subprocess.run(
        ["sh", "-c", group["hooks"][0]["command"]],
        cwd=house.root,
        env={**os.environ, "PATH": f"{corral}:/usr/bin:/bin"},
        input=json.dumps(payload),
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def corral(tmp_path: Path) -> Path:
    """A folder with the command in it."""
    source = Path(__file__).resolve().parents[2] / "daemon"
    file = tmp_path / "bin" / "corral"
    file.parent.mkdir()
    file.write_text(f'#!/bin/sh\nPYTHONPATH="{source}" exec "{sys.executable}" -m corral "$@"\n')
    file.chmod(0o755)
    return file.parent


def test_with_deny_an_edit_is_refused_while_no_daemon_can_be_had_and_only_then(
    house: Coordinated, corral: Path
) -> None:
    denying(house)
    started = before_an_edit(house, corral)
    assert (started.returncode, started.stdout) == (0, ""), "a daemon that can be started is started"
    assert house.json("session", "list")[0]["status"] == "active", "no shell counts as the session's process"
    assert [lock["file_path"] for lock in house.json("lock", "list")] == ["README.md"]
    house.run("daemon", "stop")
    (house.root / ".corral" / "corral.db").write_bytes(b"garbage" * 1000)
    refused = before_an_edit(house, corral)
    assert refused.returncode == 0
    assert json.loads(refused.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"
    (corral / "corral").write_text("#!/bin/sh\nexit 1\n")
    assert before_an_edit(house, corral).returncode == 2, "a command that is broken is no permission"
    (corral / "corral").unlink()
    absent = before_an_edit(house, corral)
    assert (absent.returncode, absent.stdout, absent.stderr) == (0, "", ""), "a colleague without Corral is left alone"


@pytest.mark.parametrize("end", ["uninstall", "allow", "uninstall after an edit of the file"])
def test_the_denying_hook_comes_and_goes_with_the_setting(repo: Path, end: str) -> None:
    before = write_settings(repo, json.dumps(SETTINGS))
    house = Coordinated(repo)
    house.run("init", "--yes")
    without = settings_of(repo).read_bytes()
    denying(house)
    own, ours = json.loads(settings_of(repo).read_text())["hooks"]["PreToolUse"]
    assert own == OWN_HOOK and STRICT in ours["hooks"][0]["command"]
    assert "in place already" in house.run("init", "--yes").stdout
    try:
        if end == "allow":
            (repo / ".corral" / "local.yaml").unlink()
            assert "--deny-when-down" in house.run("init", "--yes").stdout
            assert json.loads(settings_of(repo).read_bytes()) == json.loads(without)
        if end == "uninstall after an edit of the file":
            edited = json.loads(settings_of(repo).read_text())
            write_settings(repo, json.dumps({**edited, "note": "mine"}))
            house.run("uninstall", "--yes")
            assert json.loads(settings_of(repo).read_text()) == {**SETTINGS, "note": "mine"}
        else:
            house.run("uninstall", "--yes")
            assert settings_of(repo).read_bytes() == before
    finally:
        house.stop()


def test_the_doctor_tells_of_a_denial_that_nothing_puts_in_force(house: Coordinated) -> None:
    (house.root / ".corral" / "local.yaml").write_text("locks: {on_daemon_down: deny}\n")

    def checks() -> set[str]:
        return {check["check"] for check in json.loads(house.run("doctor", "--json", check=False).stdout)}

    assert "denial" in checks()
    house.run("init", "--yes")
    assert "denial" not in checks()
