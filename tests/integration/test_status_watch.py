"""``corral status --watch`` shows what the event stream tells of, across a restart of the daemon, until Ctrl-C."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest

from tests.support.coordinated import DEADLINE_S, Coordinated, eventually


@contextmanager
def watching(house: Coordinated, *args: str, **how: Any) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "corral", "status", "--watch", *args]
    with subprocess.Popen(command, cwd=house.root, bufsize=0, **how) as process:
        try:
            yield process
        finally:
            process.kill()


def views_until(process: subprocess.Popen[bytes], wanted: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """The views that are printed, up to the one that is wanted."""
    assert process.stdout is not None
    views: list[dict[str, Any]] = []
    while not views or not wanted(views[-1]):
        assert select.select([process.stdout], [], [], DEADLINE_S)[0], f"nothing came after {views[-1:]}"
        views.append(json.loads(process.stdout.readline()))
    return views


def lasting(view: dict[str, Any]) -> dict[str, Any]:
    """A view without the fields that tell the time, and without the memory and disk that others use."""
    resources = {name: value for name, value in view["resources"].items() if not name.startswith("free_")}
    at_work = [{**entry, "age_s": 0} for entry in view["at_work"]]
    return {**view, "composed_at": "", "resources": resources, "at_work": at_work}


@pytest.mark.req("FR-MONITOR-002")
def test_each_change_is_told_and_a_daemon_that_comes_back_is_found_again(house: Coordinated) -> None:
    house.run("daemon", "start")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with watching(house, "--json", **pipes) as process:
        assert [view["tasks"] for view in views_until(process, lambda view: True)] == [{}]
        house.submit("first", "echo one > one.txt")
        views = views_until(process, lambda view: view["open"] == {} and bool(view["tasks"]))
        assert views[-1]["merges"] == {"landed": 1}
        assert [view["seq"] for view in views] == sorted(view["seq"] for view in views), "none is of the past"
        # One event may show in two views: what a worker's end leaves to do is done after it is recorded.
        assert all(lasting(former) != lasting(other) for former, other in pairwise(views)), "none is shown twice"
        house.kill_daemon()
        house.run("daemon", "start")
        house.submit("second", "true")
        views_until(process, lambda view: view["tasks"] == {"completed": 2})
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0
        assert [json.loads(line)["error"]["name"] for line in errors.splitlines()] == ["daemon_unreachable"]


@pytest.mark.req("FR-MONITOR-002")
def test_a_terminal_has_its_former_screen_again_after_ctrl_c(house: Coordinated) -> None:
    master, slave = pty.openpty()
    shown = b""

    def screen() -> str:
        nonlocal shown
        while select.select([master], [], [], 0.05)[0]:
            shown += os.read(master, 65536)
        return shown.decode()

    house.configure("notifications: {bell: true}")
    house.ask("POST", "/pause", {"reason": "before"})
    with watching(house, stdin=slave, stdout=slave, stderr=slave) as process:
        eventually(lambda: "project" in screen())
        assert screen().startswith("\x1b[?1049h\x1b[?25l")
        house.ask("POST", "/resume")
        eventually(lambda: screen().count("project") == 2)
        assert "\a" not in screen(), "there is nothing new that needs a person"
        house.ask("POST", "/pause", {"reason": "again"})
        eventually(lambda: "\a" in screen())
        house.ask("POST", "/resume")
        house.submit("a thing", "true")
        eventually(lambda: "1 completed" not in screen() and "a thing" in screen())
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=DEADLINE_S) == 0
        assert screen().endswith("\x1b[?25h\x1b[?1049l")
    os.close(master)
    os.close(slave)
