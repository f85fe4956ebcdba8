"""The guardian: a worktree is saved when a turn ends there and before it goes, and a session hears that its HEAD moved."""

from __future__ import annotations

import json
import os
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from corral.faces.hooks.payloads import reason_of_denial
from corral.git.checkouts import private
from corral.git.process.command import open_repository
from tests.conftest import commit, git
from tests.support.coordinated import Coordinated, eventually, told
from tests.support.files import put

DATA = b"rows\r\n\0\xff"


@pytest.fixture
def guarded(house: Coordinated) -> Coordinated:
    """A coordinated repository that ignores some files and has dependencies."""
    commit(
        house.root,
        {".gitignore": "*.db\n.env\nnode_modules/\n.corral\n.claude\n", "package.json": "{}\n", "a.txt": "1\n"},
    )
    return house


def plain(house: Coordinated, name: str = "n1") -> Path:
    """A worktree as the client makes it where nobody else does."""
    place = house.root / ".claude" / "worktrees" / name
    git(house.root, "worktree", "add", "-q", "-b", f"worktree-{name}", str(place))
    return place


def salvaged(house: Coordinated, name: str) -> list[str]:
    listed = git(house.root, "for-each-ref", "--format=%(refname)", f"refs/corral/salvage/{name}/")
    return listed.splitlines()


def copies(house: Coordinated, name: str) -> list[private.Saved]:
    return private.listing(open_repository(house.root / ".git"), name)


def is_saved(house: Coordinated, name: str) -> bool:
    return bool(copies(house, name) and salvaged(house, name))


def begin(house: Coordinated, place: Path, session_id: str = "s-1") -> None:
    house.hook("SessionStart", session_id, place, source="startup")
    house.hook("UserPromptSubmit", session_id, place, prompt="Work.")


def write(place: Path) -> None:
    (place / "a.txt").write_text("changed\n")
    (place / "new.txt").write_text("new\n")
    (place / "my.db").write_bytes(DATA)
    (place / ".env").write_text("KEY=1\n")
    put(place / "node_modules" / "x", "rebuilt")


def hears(house: Coordinated, place: Path, words: str, session_id: str = "s-1") -> str:
    """Wait until a session is told something; returns all that it was told meanwhile."""
    texts: list[str] = []

    def asked() -> bool:
        texts.append(told(house.hook("UserPromptSubmit", session_id, place, prompt="Go on.")))
        return words in texts[-1]

    eventually(asked)
    return texts[-1]


def check_recovered(house: Coordinated, name: str) -> Path:
    recovered = house.json("worktree", "recover", name)
    place = Path(recovered["path"])
    assert (place / "my.db").read_bytes() == DATA
    assert (place / ".env").read_text() == "KEY=1\n"
    assert not (place / "node_modules").exists()
    assert {"my.db", ".env"} <= set(recovered["ignored_files"])
    return place


@pytest.mark.req("G12")
def test_a_worktree_that_another_program_removes_after_a_turn_comes_back_whole(guarded: Coordinated) -> None:
    place = plain(guarded)
    begin(guarded, place)
    write(place)
    guarded.hook("Stop", "s-1", place)
    eventually(partial(is_saved, guarded, "n1"))
    git(guarded.root, "worktree", "remove", "--force", str(place))
    log = guarded.root / ".corral" / "logs" / "corral.log"
    eventually(lambda: "worktree_gone" in log.read_text())  # from elsewhere its session would work elsewhere
    recovered = check_recovered(guarded, "n1")
    assert (recovered / "a.txt").read_text() == "changed\n"
    assert (recovered / "new.txt").read_text() == "new\n"
    hears(guarded, guarded.root, "was removed, and not by a command of yours")


@pytest.mark.req("G12")
def test_a_copy_that_is_taken_while_the_worktree_is_being_deleted_hides_no_file(guarded: Coordinated) -> None:
    place = plain(guarded)
    begin(guarded, place)
    write(place)
    guarded.hook("Stop", "s-1", place)
    eventually(partial(is_saved, guarded, "n1"))
    (place / ".env").unlink()
    guarded.hook("Stop", "s-1", place)
    eventually(lambda: len(copies(guarded, "n1")) == 2)
    guarded.kill_daemon()
    git(guarded.root, "worktree", "remove", "--force", str(place))
    check_recovered(guarded, "n1")


@pytest.mark.req("G12")
def test_the_worktree_of_a_session_that_is_killed_in_the_middle_of_its_first_turn_is_saved(
    guarded: Coordinated,
) -> None:
    place = plain(guarded)
    with subprocess.Popen(["sleep", "600"]) as client:
        guarded.ask("POST", "/sessions", {"session_id": "s-1", "client_pid": client.pid})
        begin(guarded, place)
        write(place)
        client.kill()
    eventually(partial(is_saved, guarded, "n1"))
    git(guarded.root, "worktree", "remove", "--force", str(place))
    assert (check_recovered(guarded, "n1") / "a.txt").read_text() == "changed\n"


@pytest.mark.req("G12")
def test_a_head_that_moved_while_no_daemon_ran_is_told_by_the_next_one(guarded: Coordinated) -> None:
    place = plain(guarded)
    begin(guarded, place)
    lost = commit(place, {"lost.txt": "x"})
    hears(guarded, place, f"to {lost[:12]}")
    guarded.kill_daemon()
    eventually(lambda: guarded.daemon_pid() is None)
    git(place, "reset", "-q", "--hard", "main")
    text = hears(guarded, place, "nobody saw who did it")
    assert "reset)" in text and "`corral worktree recover n1`" in text
    assert f"refs/corral/salvage/n1/{lost}" in salvaged(guarded, "n1")


@pytest.mark.req("G12")
def test_a_command_is_not_taken_for_what_moved_head_just_before_it_began(guarded: Coordinated) -> None:
    place = plain(guarded)
    begin(guarded, place)
    command: dict[str, Any] = {"tool_name": "Bash", "tool_use_id": "u-1", "tool_input": {"command": "make it"}}
    moved = commit(guarded.root, {"more.txt": "x"})
    git(place, "reset", "-q", "--hard", moved)
    guarded.hook("PreToolUse", "s-1", place, **command)
    guarded.hook("PostToolUse", "s-1", place, **command)
    assert f"to {moved[:12]}" in hears(guarded, place, "no command of yours did it")


@pytest.mark.req("G12")
def test_what_is_too_large_to_be_saved_is_named_where_its_worktree_goes(guarded: Coordinated) -> None:
    guarded.configure("salvage: {ignored_mb: 1}\n")
    outside = plain(guarded)
    (outside / "big.db").write_bytes(b"x" * 2_000_000)
    leave: dict[str, Any] = {"tool_name": "ExitWorktree", "tool_use_id": "u-1", "tool_input": {"action": "remove"}}
    assert "big.db (2.0 MB" in told(guarded.hook("PreToolUse", "s-1", outside, **leave))
    for event in ("WorktreeRemove", "VcsRelease", ""):
        answer = guarded.hook("WorktreeCreate", "s-1", name="mine")
        place = Path(answer["hookSpecificOutput"]["worktreePath"])
        (place / ".env").write_text("KEY=1\n")
        (place / "big.db").write_bytes(b"x" * 2_000_000)
        if event:
            told_at_once = json.dumps(guarded.hook(event, "s-1", worktree_path=str(place), path=str(place)))
            assert "big.db (2.0 MB" in hears(guarded, guarded.root, "not saved")
        else:
            told_at_once = guarded.run("worktree", "remove", "mine").stdout
        assert not place.exists() and "not saved" in told_at_once and "big.db (2.0 MB" in told_at_once, event
        assert ".env" not in told_at_once


def test_the_end_of_a_session_and_of_a_subagent_and_leaving_save_at_once(guarded: Coordinated) -> None:
    for event, name, more in (
        ("SessionEnd", "n1", {"reason": "other"}),
        ("SubagentStop", "n2", {"agent_id": "a-2"}),
        ("PreToolUse", "n3", {"tool_name": "ExitWorktree", "tool_use_id": "u-1"}),
    ):
        place = plain(guarded, name)
        begin(guarded, place, f"s-{name}")
        write(place)
        guarded.hook(event, f"s-{name}", place, **more)
        eventually(partial(is_saved, guarded, name))  # its answer waits 3 s at most
        git(guarded.root, "worktree", "remove", "--force", str(place))
        check_recovered(guarded, name)
    place = plain(guarded, "n4")
    begin(guarded, place, "s-n4")
    write(place)
    store = guarded.root / ".git" / private.FOLDER
    store.rename(store.with_name("away"))
    store.write_text("in the way")
    leave: dict[str, Any] = {"tool_name": "ExitWorktree", "tool_use_id": "u-4"}
    refused = guarded.hook("PreToolUse", "s-n4", place, **leave, tool_input={"action": "remove"})
    assert "could not be saved" in reason_of_denial(refused)
    assert not reason_of_denial(guarded.hook("PreToolUse", "s-n4", place, **leave, tool_input={"action": "keep"}))


def test_what_only_ignored_files_hold_outlives_a_worktree_of_corrals_own(guarded: Coordinated) -> None:
    answer = guarded.hook("WorktreeCreate", "s-1", name="mine")
    place = Path(answer["hookSpecificOutput"]["worktreePath"])
    (place / "my.db").write_bytes(DATA)
    (place / ".env").write_text("KEY=1\n")
    guarded.hook("WorktreeRemove", "s-1", worktree_path=str(place))
    assert not place.exists() and salvaged(guarded, "mine") == []
    check_recovered(guarded, "mine")


def test_a_session_hears_that_somebody_moved_its_head_and_what_was_there_is_kept(guarded: Coordinated) -> None:
    place = plain(guarded)
    begin(guarded, place)
    lost = commit(place, {"lost.txt": "x"})
    (place / "a.txt").write_text("uncommitted\n")
    guarded.hook("Stop", "s-1", place)
    (first,) = eventually(lambda: salvaged(guarded, "n1"))
    hears(guarded, place, f"to {lost[:12]}")
    git(place, "reset", "-q", "--hard", "main")
    text = hears(guarded, place, f"HEAD of your worktree {place} moved from {lost[:12]}")
    assert "(reset)" in text
    assert "`corral worktree recover n1`" in text and "private" not in text
    assert git(guarded.root, "show", f"{first}:a.txt") == "uncommitted"
    assert git(guarded.root, "show", f"{first}:lost.txt") == "x"


def test_a_commit_that_a_reset_leaves_on_no_branch_is_kept(guarded: Coordinated) -> None:
    place = plain(guarded)
    begin(guarded, place)
    lost = commit(place, {"lost.txt": "x"})
    git(place, "reset", "-q", "--hard", "main")
    eventually(lambda: f"refs/corral/salvage/n1/{lost}" in salvaged(guarded, "n1"))


def test_its_own_command_may_move_its_head_and_the_others_there_are_told(guarded: Coordinated) -> None:
    place = plain(guarded)
    begin(guarded, place)
    begin(guarded, place, "s-2")
    call: dict[str, Any] = {
        "tool_name": "Bash", "tool_use_id": "u-1", "tool_input": {"command": "git commit -m x"},
    }  # fmt: skip
    guarded.hook("PreToolUse", "s-1", place, **call)
    commit(place, {"b.txt": "x"})
    own = guarded.hook("PostToolUse", "s-1", place, **call)
    assert "who works there too, did it" in hears(guarded, place, "HEAD of your worktree", "s-2")
    assert "HEAD of your worktree" not in told(own)
    assert "HEAD of your worktree" not in told(guarded.hook("UserPromptSubmit", "s-1", place, prompt="Go on."))


def test_a_state_goes_once_its_session_went_on_from_it_and_one_that_was_reverted_stays(guarded: Coordinated) -> None:
    place = plain(guarded)
    begin(guarded, place)

    def turn(use: str, change: Any) -> None:
        call: dict[str, Any] = {"tool_name": "Bash", "tool_use_id": use, "tool_input": {"command": "sh work.sh"}}
        guarded.hook("PreToolUse", "s-1", place, **call)
        change()
        guarded.hook("PostToolUse", "s-1", place, **call)
        guarded.hook("Stop", "s-1", place)

    turn("u-1", lambda: (place / "a.txt").write_text("one\n"))
    (first,) = eventually(lambda: salvaged(guarded, "n1"))
    turn("u-2", lambda: (place / "a.txt").write_text("two\n"))
    (second,) = eventually(lambda: [ref for ref in salvaged(guarded, "n1") if ref != first])
    eventually(lambda: salvaged(guarded, "n1") == [second])
    turn("u-3", lambda: commit(place, {"a.txt": "three\n"}))
    eventually(lambda: salvaged(guarded, "n1") == [])
    turn("u-4", lambda: (place / "a.txt").write_text("four\n"))
    (fourth,) = eventually(lambda: salvaged(guarded, "n1"))
    turn("u-5", lambda: (git(place, "checkout", "-q", "a.txt"), (place / "b.txt").write_text("five\n")))
    eventually(lambda: len(salvaged(guarded, "n1")) == 2)
    assert fourth in salvaged(guarded, "n1")


@pytest.mark.req("NFR-SEC-001")
def test_no_agent_hears_of_the_private_copies(guarded: Coordinated) -> None:
    place = plain(guarded)
    begin(guarded, place)
    write(place)
    guarded.hook("Stop", "s-1", place)
    eventually(partial(is_saved, guarded, "n1"))
    (copy,) = copies(guarded, "n1")
    agent: dict[str, Any] = {"CLAUDECODE": "1"}
    listed = guarded.json("worktree", "recover", **agent)
    assert listed and not any(row["private"] for row in listed)
    assert any(row["ref"] == copy.ref for row in guarded.json("worktree", "recover"))
    recovered = guarded.json("worktree", "recover", "n1", **agent)
    assert recovered["ignored_files"] == [] and not (Path(recovered["path"]) / ".env").exists()
    refused = guarded.run("worktree", "recover", copy.ref, check=False, **agent)
    assert refused.returncode != 0 and "needs a person" in refused.stderr
    guarded.run("worktree", "recover", copy.ref)
    for path in ("/salvage", "/audit", "/status", "/worktrees"):
        assert private.PREFIX not in json.dumps(guarded.ask("GET", path))
    assert private.PREFIX not in json.dumps(guarded.ask("POST", "/gc", {"dry_run": True}))


def test_nothing_is_run_for_what_did_not_change_but_one_look(guarded: Coordinated) -> None:
    place = plain(guarded)
    begin(guarded, place)
    write(place)
    guarded.hook("Stop", "s-1", place)
    eventually(partial(is_saved, guarded, "n1"))
    before = salvaged(guarded, "n1"), [copy.ref for copy in copies(guarded, "n1")]
    objects = sum(len(files) for _, _, files in os.walk(guarded.root / ".git" / "objects"))
    for _ in range(3):
        guarded.hook("Stop", "s-1", place)
    guarded.hook("SessionEnd", "s-1", place, reason="other")
    assert before == (salvaged(guarded, "n1"), [copy.ref for copy in copies(guarded, "n1")])
    assert objects == sum(len(files) for _, _, files in os.walk(guarded.root / ".git" / "objects"))
