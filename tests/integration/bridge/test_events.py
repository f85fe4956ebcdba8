"""Hook events through a bridge: as the client sent them, to the daemon of the repository."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from tests.bundle.listener import Body, listening
from tests.conftest import git
from tests.integration.bridging import DENIAL, Start, logged, said


@pytest.mark.executed  # what is forked is no child of this process
def test_an_event_reaches_the_daemon_as_the_client_would_have_sent_it(repo: Path, sock: Path, start: Start) -> None:
    began = time.time()
    with listening(sock, lambda *_: DENIAL) as heard:
        bridge = start(repo / "src")
        answer = bridge.hook(
            "PreToolUse",
            cwd="/a/b",
            agent_id="",
            tool_name="Write",
            tool_input={"file_path": '/a/b/ü "c"\n', "notebook_path": "", "command": ""},
        )
    assert answer == DENIAL
    sent = heard.events[0][1]["_hook"]["sent"]
    assert began <= sent <= time.time()
    assert heard.events == [
        (
            "PreToolUse",
            {
                "hook_event_name": "PreToolUse",
                "session_id": "s-1",
                "cwd": "/a/b",
                "tool_name": "Write",
                "tool_input": {"file_path": '/a/b/ü "c"\n'},
                "_hook": {
                    "bridge": str(bridge.process.pid),
                    "pid": os.getpid(),
                    "source": "bridge",
                    "sent": sent,
                    "client_version": "",
                },
            },
        )
    ]


def test_flags_become_booleans_long_texts_are_cut_and_commands_are_not(repo: Path, sock: Path, start: Start) -> None:
    with listening(sock) as heard:
        bridge = start(repo)
        bridge.hook("Stop", stop_hook_active="true", last_assistant_message="x" * 1_000_000)
        bridge.hook("Stop", stop_hook_active="false", tool_input={"command": "y" * 1_000_000})
    first, second = (body for _, body in heard.events)
    assert (first["stop_hook_active"], len(first["last_assistant_message"])) == (True, 4000)
    assert (second["stop_hook_active"], len(second["tool_input"]["command"])) == (False, 1_000_000)


def test_twenty_events_are_answered_side_by_side(repo: Path, sock: Path, start: Start) -> None:
    together = threading.Barrier(20)

    def answer(_event: str, body: Body) -> Body:
        together.wait(3)  # nobody is answered before all have come
        return {"systemMessage": body["tool_use_id"]}

    with listening(sock, answer):
        bridge = start(repo)
        numbers = {bridge.start_hook("PreToolUse", tool_use_id=f"t{n}"): f"t{n}" for n in range(20)}
        for number, use in numbers.items():
            assert said(bridge.answer_to(number)) == {"systemMessage": use}


@pytest.mark.parametrize("name", ["", "../tasks", "a b", "Stop?x=1"])
def test_an_event_without_a_proper_name_goes_nowhere(repo: Path, sock: Path, start: Start, name: str) -> None:
    with listening(sock) as heard:
        assert start(repo).hook(name) == {}
    assert heard.events == []
    assert len(logged(repo)) == 1


@pytest.mark.parametrize("place", ["a plain folder", "a repository"])
def test_without_corral_it_answers_and_touches_nothing(repo: Path, tmp_path: Path, start: Start, place: str) -> None:
    cwd = repo if place == "a repository" else tmp_path
    before = sorted(tmp_path.rglob("*"))
    bridge = start(cwd)
    assert bridge.hook("PreToolUse", tool_name="Write") == {}
    assert bridge.ask("tools/list")["result"] == {"tools": []}
    assert bridge.close() == 0
    assert sorted(tmp_path.rglob("*")) == before


def test_a_worktree_speaks_to_the_daemon_of_its_repository(
    repo: Path, sock: Path, start: Start, tmp_path: Path
) -> None:
    git(repo, "worktree", "add", "-q", "-b", "linked", os.fspath(tmp_path / "linked"))
    with listening(sock) as heard:
        start(tmp_path / "linked").hook("Stop")
    assert heard.named() == ["Stop"]
