"""Runners that misbehave, all at once, under one daemon: each has a clear end, nothing is stuck, and no process stays."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from tests.conftest import worktrees_of
from tests.faults.storm import processes_of
from tests.integration.running import ESCAPES, is_alive
from tests.support.coordinated import Coordinated, eventually

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]

CONFIG = """
tasks: {max_retries: 0, retry_initial_s: 0.1, retry_max_s: 0.2}
supervisor: {max_agents: 12, stop_grace_s: 1}
limits: {memory_mb_per_agent: 250, output_mb_per_agent: 8}
"""


def python(code: str) -> str:
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}"


class Bad(NamedTuple):
    """A command, and the end that it must have; ``told`` is in its error message, ``remedy`` in what ``status`` says to type."""

    command: str
    outcome: str
    code: str | None = None
    told: str = ""
    remedy: str = ""


ESCAPED = "escaped.pid"
ESCAPING = f"{python(ESCAPES)} ../{ESCAPED}; until test -e ../{ESCAPED}; do sleep 0.02; done; echo x > escaped.txt"
LEAVES = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/")
        os.execvp("sleep", ["sleep", "600"])
    os._exit(0)
os.wait()
"""
GARBAGE = python("import os\nfor _ in range(500): os.write(1, os.urandom(4096))\nos._exit(3)")
FLOODS = python("import os\nwhile True: os.write(1, b'x' * 65536)")
EATS = python("b = bytearray(b'x' * 600_000_000); import time; time.sleep(600)")

BAD = {
    "writes garbage": Bad(GARBAGE, "dead", "command_failed", "exited with 3", "corral task logs"),
    "floods": Bad(FLOODS, "failed", "output_limit", "more than 8 MB of output; let it write less"),
    "leaves its session": Bad(f"{python(LEAVES)}; echo x > left.txt", "landed"),
    "leaves its environment too": Bad(ESCAPING, "landed"),
    "is deaf": Bad("trap '' TERM; while :; do sleep 1; done", "dead", "timeout", "timed out after 2 s"),
    "eats": Bad(EATS, "dead", "memory_limit", "the limit is 250"),
    "does nothing": Bad("true", "nothing to land"),
    "closes its output": Bad("exec >&- 2>&-; sleep 1; echo x > closed.txt", "landed"),
    "leaves a child behind": Bad("sleep 600 & echo x > child.txt", "landed"),
    "deletes its worktree": Bad('rm -rf "$PWD"', "dead", "path_replaced", "it is gone", "run the task again"),
    "deletes it and fails": Bad('rm -rf "$PWD"; exit 3', "dead", "path_replaced", "exited with 3", "run the task again"),
    "replaces its worktree": Bad(
        'cd / && rm -rf "$OLDPWD" && mkdir "$OLDPWD" && echo mine > "$OLDPWD/mine.txt"',
        "dead", "path_replaced", "a folder of files", "Move it away",
    ),
    "breaks its checkout": Bad("echo nonsense > .git", "dead", "path_replaced", ".git", ""),
}  # fmt: skip


@pytest.mark.req("SUP-NFR1", "D14")
@pytest.mark.executed
def test_each_has_a_clear_end_and_nothing_of_it_stays(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate(config=CONFIG)
    house.run("daemon", "start")
    daemon = psutil.Process(house.daemon_pid() or 0)
    ids = {
        name: house.submit(name, bad.command, *(("--timeout", "2") if name == "is deaf" else ()))
        for name, bad in BAD.items()
    }
    most = 0

    def is_over() -> bool:
        nonlocal most
        most = max(most, daemon.memory_info().rss)
        return all(row["status"] in ("completed", "failed", "dead") for row in house.ask("GET", "/tasks"))

    eventually(is_over, 120)
    house.run("wait", "--all", "--timeout", "60", check=False)
    ends = {name: house.json("task", "detail", task_id) for name, task_id in ids.items()}
    for name, bad in BAD.items():
        end = ends[name]
        assert (end["outcome"], end["error_code"]) == (bad.outcome, bad.code), (name, end["error_message"])
        assert bad.told in (end["error_message"] or ""), (name, end)
    _check_remedies(house)
    assert most < 300 << 20, "nothing that a worker writes is kept in the daemon"
    log = house.root / ".corral" / "logs" / "tasks" / ids["floods"] / "1.log"
    assert log.stat().st_size == 8 << 20
    left = list(worktrees_of(house.root).glob("*/mine.txt"))
    saved = [saved_work for saved_work in house.ask("GET", "/salvage") if "mine.txt" in saved_work["files"]]
    assert left or saved, "a folder that is not certainly Corral's stays; of one that is, the files are saved"
    eventually(lambda: [process for process, _ in processes_of(house.root)] == [daemon])
    shown = house.run("task", "detail", ids["leaves a child behind"]).stdout
    assert "Corral ended what it had left running: " in shown  # `sleep`, or the shell that is about to become it
    assert "sleep 600" in shown
    escaped = int((worktrees_of(house.root) / ESCAPED).read_text())
    assert not is_alive(escaped) or sys.platform != "linux"
    fine = house.carry_out("fine", "echo fine > fine.txt")
    assert house.json("task", "detail", fine)["merge"]["state"] == "landed", "nobody else suffers"


def _check_remedies(house: Coordinated) -> None:
    needs: list[dict[str, str]] = [row for row in house.json("status")["needs_you"] if row["kind"] == "failed_task"]
    for name, bad in BAD.items():
        if bad.code is not None:
            (need,) = [row for row in needs if row["what"].startswith(f"'{name}' is ")]
            assert bad.told in need["what"] and bad.remedy in need["remedy"], need
            assert "corral task retry" in need["remedy"], need


def test_what_a_worker_does_in_another_checkout_never_lands_by_accident(house: Coordinated, tmp_path: Path) -> None:
    other = Path(house.json("worktree", "create", "other")["path"])
    there = house.carry_out("elsewhere", f"echo x > {other}/x.txt; echo changed > {house.root}/README.md")
    assert house.json("task", "detail", there)["outcome"] == "nothing to land"
    assert (other / "x.txt").read_text() == "x\n" and (house.root / "README.md").read_text() == "changed\n"
    beside = house.carry_out("beside", "echo y > y.txt")
    assert house.run("status").returncode == 0
    shown = house.ask("GET", f"/tasks/{beside}/detail")
    assert shown["merge"]["state"] == "landed", shown["delay"]
