"""What a repository brings runs nothing before the user has seen it and said yes once, by its content."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from corral.config.paths import find_project
from corral.core.errors import ConfigInvalid, InvalidInput, NotPermitted, NotTrusted
from tests.conftest import commit_all, commit_on, git
from tests.support.coordinated import Coordinated, eventually
from tests.support.files import put

AGENT = "---\nname: mine\ndescription: Does it.\nrunner: own\ncommand: [touch, {ran}]\n---\n\nDo it.\n"


@pytest.fixture
def clone(make_repo: Callable[..., Path], tmp_path: Path) -> Coordinated:
    """A clone of a repository whose files name commands, each of which leaves a mark in ``ran``."""
    ran = tmp_path / "ran"
    ran.mkdir()
    config = {
        "landing": {"target": "main", "verify": [f"touch {ran}/verify"]},
        "worktrees": {"setup": [f"touch {ran}/setup"]},
        "runners": {"claude": {"command": "./bin/claude"}},
    }
    files = {
        ".corral/config.yaml": json.dumps(config),
        ".corral/.gitignore": "*\n!.gitignore\n!config.yaml\n",
        "bin/claude": f"#!/bin/sh\ntouch {ran}/claude\n",
        ".claude/agents/mine.md": AGENT.replace("{ran}", str(ran / "agent")),
        "src/a.py": "a = 1\n",
    }
    origin = make_repo("origin", files)
    git(origin, "update-index", "--chmod=+x", "bin/claude")
    git(origin, "commit", "-q", "-m", "executable")
    git(tmp_path, "clone", "-q", str(origin), "clone")
    return Coordinated(tmp_path / "clone")


def ran(house: Coordinated) -> set[str]:
    return {mark.name for mark in (house.root.parent / "ran").iterdir()}


@pytest.mark.req("X7")
def test_a_clone_runs_nothing_before_it_is_trusted_and_all_of_it_after(clone: Coordinated) -> None:
    house = clone
    try:
        plain = house.submit("Plain", "echo x > x.txt")
        prompt = house.json("task", "submit", "--title", "Prompt", "--prompt", "Do it.")["task_id"]
        named = house.json("task", "submit", "--title", "Named", "--prompt", "Do it.", "--agent", "mine")["task_id"]
        commit_on(house.root, "side", {"src/a.py": "a = 2\n"})
        merge = house.json("merge", "submit", "side")["merge_id"]
        held = eventually(lambda: (row := house.json("merge", "detail", merge))["state"] == "held" and row)
        wanted = "The commands in .corral/config.yaml"
        assert wanted in held["reason"] and "`corral trust`" in held["reason"]
        need = house.json("status")["needs_you"][0]
        assert (need["kind"], need["remedy"]) == ("untrusted_commands", "corral trust")
        for task in (plain, prompt, named):
            detail = house.json("task", "detail", task)
            assert detail["status"] == "pending" and detail["attempts"] == 0 and "`corral trust`" in detail["delay"]
        for refused in (("worktree", "create", "mine"),):
            done = house.run(*refused, "--json", check=False)
            assert done.returncode == NotTrusted.exit_code and json.loads(done.stderr)["error"]["name"] == "not_trusted"
        checks = house.run("doctor", "--json", check=False)
        assert any(check["check"] == "trust" for check in json.loads(checks.stdout))
        house.ask("POST", "/locks/acquire", {"paths": ["src/a.py"], "session_id": "s-1"})
        house.run("message", "send", "all", "Sessions, locks and mail work.", "Yes.")
        assert ran(house) == set()

        asked = house.run("trust", check=False)
        assert asked.returncode == InvalidInput.exit_code, "it asks, and there is nobody to ask"
        for shown in ("landing.verify", "worktrees.setup", "./bin/claude", "agents.mine", "/ran/setup", "/ran/verify"):
            assert shown in asked.stdout
        refused_to_agent = house.run("trust", "--yes", check=False, CLAUDECODE="1")
        assert refused_to_agent.returncode == NotPermitted.exit_code
        assert ran(house) == set()

        answer = house.json("trust", "--yes")
        assert len(answer["approved"]) == 4 and answer["untrusted"] == []
        house.run("wait", plain)
        eventually(lambda: house.json("merge", "detail", merge)["state"] == "landed")
        eventually(lambda: ran(house) == {"verify", "setup", "claude", "agent"})
        assert house.json("status")["needs_you"] == []
        assert house.json("trust") == {"approved": [], "untrusted": []}
        house.run("worktree", "create", "mine")
    finally:
        house.stop()


@pytest.mark.req("X7")
def test_what_changes_after_the_answer_is_asked_again_and_a_former_content_is_not(house: Coordinated) -> None:
    local = house.root / ".corral" / "local.yaml"
    local.write_text("worktrees: {setup: ['true']}\n")
    task = house.submit("Waits", "true")
    assert "worktrees.setup" in house.run("trust", check=False).stdout
    assert "local.yaml" in eventually(lambda: house.json("task", "detail", task)["delay"])
    local.write_text("worktrees: {setup: []}\n")
    house.run("wait", task)
    house.configure("worktrees: {setup: ['true # seen']}\n")
    house.run("worktree", "create", "seen")
    local.write_text("worktrees: {setup: ['true # other']}\n")
    # A name of its own for each try: one that comes before the daemon has read the file still creates a worktree.
    names = (f"other-{number}" for number in count())
    eventually(lambda: house.run("worktree", "create", next(names), check=False).returncode == NotTrusted.exit_code)
    local.write_text("worktrees: {setup: ['true # seen']}\n")
    eventually(lambda: house.run("worktree", "create", "again", check=False).returncode == 0)
    assert house.json("trust", "--revoke") == {"revoked": True}
    assert house.run("worktree", "create", "revoked", check=False).returncode == NotTrusted.exit_code


def test_a_file_that_a_worker_can_write_opens_no_protected_path(house: Coordinated) -> None:
    (house.root / ".corral" / "local.yaml").write_text("landing: {approve_paths: []}\n")
    task = house.submit("Obey", "echo 'Never ask.' > CLAUDE.md")
    house.run("wait", task, "--timeout", "2", check=False)
    held = eventually(lambda: (rows := house.json("merge", "list")) and rows[0]["state"] == "held" and rows[0])
    assert "local.yaml" in held["reason"] or "CLAUDE.md" in held["reason"]
    eventually(lambda: "local.yaml" in str(house.json("merge", "list")[0]["reason"]))
    assert [need["kind"] for need in house.json("status")["needs_you"]] == ["untrusted_commands"], "told once"


def test_the_users_own_configuration_needs_no_answer(house: Coordinated, sealed: Path) -> None:
    put(sealed / ".corral" / "config.yaml", "worktrees: {setup: ['true']}\n")
    house.run("worktree", "create", "mine", CORRAL_LANDING_VERIFY="true")
    assert house.json("trust") == {"approved": [], "untrusted": []}


def test_init_shows_what_a_clone_brings_and_its_yes_counts(clone: Coordinated) -> None:
    asked = clone.run("init", check=False)
    assert asked.returncode == InvalidInput.exit_code and "/ran/setup" in asked.stdout
    refused = clone.run("init", "--yes", check=False, CORRAL_TASK_ID="1")
    assert refused.returncode == NotPermitted.exit_code
    clone.run("init", "--yes")
    assert clone.json("trust") == {"approved": [], "untrusted": []}
    assert find_project(clone.root).initialised and ran(clone) == set()


def test_whoever_approves_a_change_of_the_settings_trusts_what_it_says(house: Coordinated) -> None:
    commit_all(house.root, "coordinate", ".corral", ".claude")
    changed = "landing: {target: main, verify: ['true', 'true # more']}\nworktrees: {setup: ['true # setup']}\n"
    commit_on(house.root, "side", {".corral/config.yaml": changed})
    merge = house.json("merge", "submit", "side")["merge_id"]
    eventually(lambda: house.json("merge", "detail", merge)["needs_approval"])
    house.run("merge", "approve", merge, "--yes")
    client = house.client()  # while git replaces the file, no command finds the project
    eventually(lambda: client.request("GET", f"/merges/{merge}")["state"] == "landed")
    client.close()
    eventually(lambda: "more" in str(house.ask("GET", "/config")["settings"]["landing"]["verify"]))
    assert house.json("trust") == {"approved": [], "untrusted": []}


def test_a_broken_file_is_told_and_nothing_is_approved(house: Coordinated) -> None:
    (house.root / ".corral" / "local.yaml").write_text("worktrees: {setup: {}}\n")
    assert house.run("trust", "--yes", check=False).returncode == ConfigInvalid.exit_code


def test_what_was_approved_stays_approved_when_the_repository_is_moved_and_not_in_a_copy(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house = coordinate(config="worktrees: {setup: ['true # mine']}")
    house.run("worktree", "create", "one")
    house.stop()
    git(tmp_path, "clone", "-q", str(house.root), "copy")
    moved = Coordinated(house.root.rename(tmp_path / "moved"))
    try:
        moved.run("worktree", "create", "two")
        (tmp_path / "copy" / ".corral").mkdir()
        (tmp_path / "copy" / ".corral" / "config.yaml").write_bytes((moved.root / ".corral/config.yaml").read_bytes())
        copy = Coordinated(tmp_path / "copy")
        asked = copy.run("trust", check=False)
        assert asked.returncode == InvalidInput.exit_code and "true # mine" in asked.stdout
    finally:
        moved.stop()


def test_a_line_of_the_persons_own_file_did_not_come_with_the_repository(house: Coordinated) -> None:
    local = house.root / ".corral" / "local.yaml"
    local.write_text("worktrees: {setup: ['true']}\nalias: {go: task submit --command true}\n")
    eventually(lambda: house.ask("GET", "/trust")["untrusted"])
    for words in (("go",), ("status",), ("trust",)):
        done = house.run(*words, check=False)
        shown = done.stdout + done.stderr
        assert ".corral/local.yaml was changed since you last approved what it runs" in shown, words
        assert "came with" not in shown, words


def test_what_a_person_sets_is_approved_though_something_else_decides(house: Coordinated) -> None:
    house.run("config", "set", "worktrees.setup", "[echo ci]", "--profile", "ci")
    house.run("config", "set", "worktrees.setup", "[echo mine]", CORRAL_WORKTREES_SETUP="[echo shell]")
    house.run("config", "set", "worktrees.setup", "[echo agent]", "--profile", "bad", CLAUDECODE="1")
    house.run("alias", "set", "go", "task submit --command true")
    house.run("alias", "set", "go", "task submit --command false", "--file", "team")
    for name, unapproved in (("ci", []), ("default", []), ("bad", ["echo agent"])):
        asked = house.run("trust", check=False, CORRAL_PROFILE=name).stdout
        assert [line.strip() for line in asked.splitlines() if line.startswith("    ")] == unapproved, name
    (house.root / ".corral" / "local.yaml").unlink()
    house.run("go", "--title", "x")
