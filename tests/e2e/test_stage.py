"""The stage itself, with the real client: what every other test of this folder stands on."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.client import Run
from tests.e2e.stage import Stage, bash, script, text, tool

pytestmark = pytest.mark.e2e


def test_a_script_is_played_and_what_follows_a_denied_call(
    run_claude: Callable[..., Run], repo: Path, stage: Stage
) -> None:
    denied = tool("Write", file_path="/etc/corral-test", content="x", if_denied=[bash("echo plan-b > b.txt")])
    allowed = bash("pwd", if_denied=[bash("echo never > never.txt")])
    run = run_claude(
        repo, script(tool("Write", file_path="$CWD/new.txt", content="`new`"), allowed, denied, text("Done."))
    )
    assert (run.exit_code, run.result["result"]) == (0, "Done.")
    assert (repo / "new.txt").read_text() == "`new`"
    last = stage.requests_in(repo)[-1]
    assert last.result_texts[1] == str(repo)
    assert {"Write", "Edit", "Bash"} <= set(last.tools)
    assert last.step == {"text": "Done."}
    assert (repo / "b.txt").exists()
    assert not (repo / "never.txt").exists()


def test_leaving_interrupts_an_answer_that_sleeps() -> None:
    with Stage(latency=600) as stage, socket.create_connection(stage.address) as client:
        client.sendall(b'POST /v1/messages HTTP/1.1\r\ncontent-length: 15\r\n\r\n{"messages":[]}')
        deadline = time.monotonic() + 20
        while not stage.requests:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        before = time.monotonic()
    assert time.monotonic() - before < 20


def test_failures_strike_only_whom_they_are_meant_for(run_claude: Callable[..., Run], repo: Path, stage: Stage) -> None:
    stage.fail(400, times=None, containing="doomed")
    assert run_claude(repo, script(text("x"), say="doomed")).result["api_error_status"] == 400
    assert run_claude(repo, script(text("fine"))).result["result"] == "fine"
