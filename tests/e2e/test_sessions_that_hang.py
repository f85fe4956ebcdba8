"""A session of the real client that hangs is found, shown and given up; one that rests, or slept with its machine, is not."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.stage import bash_until, text, tool
from tests.e2e.team import Member, Team

pytestmark = [pytest.mark.e2e, pytest.mark.faults]

QUICK = "sessions: {stale_after_s: 4}\n"


def write(path: str, content: str = "x") -> dict[str, object]:
    return tool("Write", file_path=f"$CWD/{path}", content=content)


def in_the_middle_of_a_turn(team: Team, member: Member, path: str) -> Path:
    """Let a member hold a file and go on with a command; returns the file that ends the command."""
    go = team.repo.parent / f"go-{path}"
    member.begin(write(path), bash_until(f"[ -e {go} ]", first=f"touch began-{path}"), text("Done."))
    team.until((team.repo / f"began-{path}").exists)
    return go


@pytest.mark.slow("It waits out two limits of silence with the real client.")
@pytest.mark.req("HEARTBEAT-2", "HEARTBEAT-3")
def test_a_client_that_hangs_is_shown_as_stalled_loses_its_lock_and_is_ended(start_team: Callable[..., Team]) -> None:
    team = start_team(config="sessions: {stale_after_s: 10}\n")
    hung, resting = team.member(), team.member()
    resting.do(write("kept.txt"))
    go = in_the_middle_of_a_turn(team, hung, "a.txt")
    os.kill(hung.pid, signal.SIGSTOP)
    try:
        team.until(lambda: hung.row["status"] == "stalled")
        assert hung.bridge.is_running(), "its connection is as it was"
        needs = [need["what"] for need in team.house.ask("GET", "/status")["needs_you"]]
        assert any(what.startswith(f"{hung.name} gives no sign") for what in needs)
        assert [row["session_id"] for row in team.house.ask("GET", "/sessions?status=stalled")] == [hung.session_id]
        refused = team.house.edit("another", "a.txt")["hookSpecificOutput"]["permissionDecisionReason"]
        assert "is stalled" in refused and "corral lock force-release a.txt" in refused
        taken = team.house.ask("POST", "/locks/force-release", {"paths": ["a.txt"]})["released"]
        assert [row["file_path"] for row in taken] == ["a.txt"] and "is stalled" in taken[0]["stale_reasons"][0]
        team.until(lambda: hung.row["status"] == "disconnected")
        assert hung.row["end_reason"] == "silent"
        assert resting.row["status"] == "idle" and "kept.txt" in team.locks(), "who rests is silent for as long"
    finally:
        os.kill(hung.pid, signal.SIGCONT)
    go.touch()
    hung.conversation.wait(lambda: len(hung.conversation.results) == 1)
    assert team.until(lambda: hung.row["status"] == "idle"), "it comes back with its next sign"


def test_a_machine_that_sleeps_takes_no_session_with_it(start_team: Callable[..., Team]) -> None:
    team = start_team(config=QUICK)
    member = team.member()
    go = in_the_middle_of_a_turn(team, member, "a.txt")
    daemon = team.house.running_pid()
    for pid in (daemon, member.pid):
        os.kill(pid, signal.SIGSTOP)
    time.sleep(10)  # what is tested is that this time goes by
    for pid in (daemon, member.pid):
        os.kill(pid, signal.SIGCONT)
    time.sleep(1.5)  # so that the daemon has looked
    assert member.row["status"] == "active" and "a.txt" in team.locks()
    go.touch()
    member.conversation.wait(lambda: len(member.conversation.results) == 1)
    assert "session.stalled" not in [event["kind"] for event in team.house.ask("GET", "/status")["recent"]]
