"""The keeper of a worker, with real processes: what it leaves on the disk, what it survives, and what it makes certain of."""

from __future__ import annotations

import json
import marshal
import os
import signal
import stat
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from corral.core.errors import OutOfResources
from corral.runners import keeper, keeping
from corral.runners.claude import ClaudeRunner
from corral.runners.command import CommandRunner
from corral.runners.keeping import Kept
from corral.runners.protocol import Assignment, Limits, Running
from tests.integration.running import clock, find_marked, finish, is_alive, keeper_of, kill, look, make_assignment, wait
from tests.support.files import executable

pytestmark = pytest.mark.faults

DAEMON = """
import json, os, sys
from pathlib import Path
from corral.runners.claude import ClaudeRunner
from corral.runners.command import CommandRunner
from corral.runners.protocol import Limits
from tests.integration.running import clock, make_assignment
given = json.loads(sys.argv[2])
runner = ClaudeRunner(os.environ, command=given.pop("client")) if "client" in given else CommandRunner(os.environ)
given["limits"] = Limits(**given.pop("limits", {}))
running = runner.start(make_assignment(Path(sys.argv[1]), keeper=Path(sys.argv[1]) / "keeper", **given), clock())
print(running.pid, flush=True)
os.kill(os.getpid(), 9)
"""
"""A daemon that is killed as soon as its worker runs."""

CLIENT = """#!{python}
import json, sys
print(json.dumps({{"type": "system", "subtype": "init", "model": "m"}}), flush=True)
for line in sys.stdin:
    words = json.loads(line)["message"]["content"]
    block = [{{"type": "text", "text": "got " + words}}]
    print(json.dumps({{"type": "assistant", "message": {{"id": words, "content": block}}}}), flush=True)
    if words.startswith("call"):
        use = {{"type": "tool_use", "id": words, "name": "Bash", "input": {{"command": words}}}}
        print(json.dumps({{"type": "assistant", "message": {{"id": words, "content": [use]}}}}), flush=True)
        done = {{"type": "tool_result", "tool_use_id": words, "content": "ok"}}
        print(json.dumps({{"type": "user", "message": {{"content": [done]}}}}), flush=True)
    if words == "end":
        print(json.dumps({{"type": "result", "subtype": "success", "is_error": False, "result": "bye"}}), flush=True)
print("its input has ended", flush=True)
"""
"""A client that repeats what it gets, until its input ends."""


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Callable[..., Assignment]]:
    """Start a worker by a daemon that is then killed; gives what the worker's assignment was."""
    task_ids: list[str] = []

    def start(**fields: Any) -> Assignment:
        task_ids.append(str(uuid.uuid4()))
        fields = {"task_id": task_ids[-1], **fields}
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        argv = [sys.executable, "-c", DAEMON, str(tmp_path), json.dumps(fields)]
        done = subprocess.run(argv, env=env, capture_output=True, text=True)
        assert done.returncode == -9, done.stderr
        return make_assignment(tmp_path, task_id=task_ids[-1], keeper=tmp_path / "keeper")

    yield start
    for task_id in task_ids:
        kill(task_id)
    if (tmp_path / "keeper").exists():
        keeping.revoke(tmp_path / "keeper", {**make_assignment(tmp_path, task_id=task_ids[-1]).marks})


def adopt(assignment: Assignment, runner: Any = None) -> Running:
    """Follow a worker as the next daemon does."""
    record = keeping.find(assignment.keeper, assignment.marks, assignment.attempt)
    assert record, (assignment.keeper / "record").read_text()
    kept, known = record
    follower: Running = (runner or CommandRunner(os.environ)).follow(known, kept, clock())
    return follower


def test_the_next_daemon_follows_a_worker_to_its_end_and_sees_all_that_it_wrote(
    killed: Callable[..., Assignment], tmp_path: Path
) -> None:
    assignment = killed(command=f"echo first; until test -e {tmp_path}/gate; do sleep 0.02; done; echo last")
    running = adopt(assignment)
    assert running.observe(clock()).finished is None
    (tmp_path / "gate").touch()
    finished = finish(running)
    assert finished.success and finished.result["output"] == "first\nlast"
    wait(lambda: not is_alive(keeper_of(assignment.keeper)))


def test_an_end_that_no_daemon_saw_is_read_from_the_record_even_without_the_keeper(
    killed: Callable[..., Assignment],
) -> None:
    assignment = killed(command="echo done; exit 3")
    wait(lambda: "\nexit 3 " in (assignment.keeper / "record").read_text())
    pid = keeper_of(assignment.keeper)
    worker = Kept(assignment.keeper).pid
    assert psutil.Process(worker).status() == psutil.STATUS_ZOMBIE, "until a daemon has acknowledged it"
    os.kill(pid, signal.SIGKILL)
    wait(lambda: not is_alive(pid))
    finished = finish(adopt(assignment))
    assert (finished.exit_code, finished.error_code) == (3, "command_failed")


def test_messages_reach_an_adopted_worker_and_its_input_ends_with_its_turn(
    killed: Callable[..., Assignment], tmp_path: Path
) -> None:
    client = executable(tmp_path / "client", CLIENT.format(python=sys.executable))
    runner = ClaudeRunner(os.environ, command=str(client))
    assignment = killed(prompt="hello", client=str(client))
    running = adopt(assignment, runner)
    look(running, lambda seen: seen.progress == "got hello")
    assert running.listens and running.tell("more")
    look(running, lambda seen: seen.progress == "got more")
    assert stat.S_IMODE((assignment.keeper / "input").stat().st_mode) == 0o600
    assert running.tell("end")
    finished = finish(running)
    assert finished.success and finished.result["text"] == "bye", finished
    assert "its input has ended" in assignment.log.read_text()
    assert not running.tell("too late")


def test_a_tool_call_is_told_once_whichever_daemon_sees_it(tmp_path: Path) -> None:
    client = executable(tmp_path / "client", CLIENT.format(python=sys.executable))
    runner = ClaudeRunner(os.environ, command=str(client))
    assignment = make_assignment(tmp_path, prompt="call 1")
    before = runner.start(assignment, clock())
    seen = look(before, lambda seen: seen.tool_calls)
    assert [call.use_id for call in seen.tool_calls] == ["call 1"]
    assert before.tell("call 2")
    wait(lambda: '"call 2", "content": "ok"' in assignment.log.read_text())
    after = adopt(assignment, runner)
    uses = [call.use_id for call in look(after, lambda seen: seen.tool_calls).tool_calls]
    assert uses == ["call 2"], "what ended while nobody followed is not lost, and nothing is told twice"
    assert after.tell("end") and finish(after).success


def test_neither_the_command_nor_its_environment_nor_its_first_input_is_anywhere(tmp_path: Path) -> None:
    assignment = make_assignment(tmp_path, program=["cat"], prompt="first-secret", env={"A_VARIABLE": "second-secret"})
    running = CommandRunner(os.environ).start(assignment, clock())
    keeper_process = psutil.Process(keeper_of(assignment.keeper))
    shown = [*keeper_process.cmdline(), *keeper_process.environ(), *keeper_process.environ().values()]
    kept = [file.read_bytes() for file in assignment.keeper.iterdir()]
    assert {file.name for file in assignment.keeper.iterdir()} == {"keeper.py", "record", "input", "followed"}
    assert "secret" not in "".join(shown) and not any(b"secret" in content for content in kept)
    assert stat.S_IMODE(assignment.keeper.stat().st_mode) == 0o700
    assert "first-secret" in finish(running).result["output"], "it got it"


def test_a_worker_whose_keeper_is_killed_is_ended(tmp_path: Path) -> None:
    assignment = make_assignment(tmp_path, command="trap '' TERM; while :; do sleep 0.05; done")
    running = CommandRunner(os.environ, stop_grace_s=0.2).start(assignment, clock())
    os.kill(keeper_of(assignment.keeper), signal.SIGKILL)
    finished = finish(running)
    assert (finished.error_code, finished.retryable) == ("killed", True) and "keeper" in str(finished.error_message)
    assert find_marked(assignment.task_id) == []


@pytest.mark.parametrize(
    ("command", "limits", "code"),
    [
        ("sleep 600", {"timeout_s": 0.5}, "timeout"),
        (f"exec {sys.executable} -c 'x = b\"x\" * 80_000_000; import time; time.sleep(600)'", {"memory_mb": 40}, "memory_limit"),
        ("while :; do echo too much; done", {"output_mb": 1}, "output_limit"),
    ],
)  # fmt: skip
def test_the_keeper_enforces_the_limits_while_no_daemon_lives(
    killed: Callable[..., Assignment], command: str, limits: dict[str, float], code: str
) -> None:
    assignment = killed(command=command, limits=limits)
    wait(lambda: "\nexit " in (assignment.keeper / "record").read_text(), deadline_s=20)
    finished = finish(adopt(assignment))
    assert (finished.success, finished.error_code) == (False, code)
    assert find_marked(assignment.task_id) == []


def test_the_keeper_leaves_the_limits_to_a_daemon_that_follows(killed: Callable[..., Assignment]) -> None:
    assignment = killed(command="sleep 600", limits={"timeout_s": 1.5})
    kept = Kept(assignment.keeper)
    wait(lambda: kept.age_s > 3)
    assert kept.exit() is None
    kept.close()
    wait(lambda: "\nexit " in (assignment.keeper / "record").read_text(), deadline_s=10)


def test_a_keeper_that_comes_after_its_attempt_was_given_up_starts_nothing(tmp_path: Path) -> None:
    """The daemon was killed between the fork and the record: the next one must be certain, whatever the keeper still does."""
    assignment = make_assignment(tmp_path)
    keeping.lay_out(assignment, 0)
    order: dict[str, Any] = {
        "argv": [b"/bin/sh", b"-c", b"touch %s/ran" % os.fsencode(tmp_path)],
        "env": {},
        "cwd": os.fsencode(tmp_path),
    }
    order |= {
        "stdin": None,
        "closes_stdin": True,
        "grace_s": 1.0,
        "timeout_s": None,
        "memory_mb": None,
        "output_mb": None,
    }
    assert keeping.revoke(assignment.keeper, assignment.marks)
    assert run_keeper(assignment, marshal.dumps(order)) == b""
    keeping.lay_out(assignment, 0)
    assert run_keeper(assignment, marshal.dumps(order)[:-3]) == b"", "half an order starts nothing"
    assert not (tmp_path / "ran").exists()
    keeping.lay_out(assignment, 0)
    assert run_keeper(assignment, marshal.dumps(order)).startswith(b"started ")
    wait((tmp_path / "ran").exists)
    while not keeping.revoke(assignment.keeper, assignment.marks):
        pass


def run_keeper(assignment: Assignment, order: bytes) -> bytes:
    argv = [sys.executable, "-I", "-S", "keeper.py"]
    mark = {keeping.KEEPER_MARK: f"{assignment.task_id}/{assignment.attempt}"}
    process = subprocess.Popen(argv, cwd=assignment.keeper, env=mark, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(order)
    process.stdin.close()
    answer = process.stdout.readline()
    process.stdout.close()
    process.returncode = 0  # it stays with its worker; init takes its exit
    return answer


@pytest.mark.parametrize("before", ["worker {self.pid}", "go"])
def test_a_keeper_killed_between_the_fork_and_the_record_leaves_no_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    marker = {"worker {self.pid}": '_note(self._record, f"worker', "go": 'os.write(opening, b"go")'}[before]
    source = Path(keeper.__file__).read_text()
    assert marker in source
    changed = tmp_path / "changed.py"
    changed.write_text(source.replace(marker, f"os.kill(os.getpid(), 9); {marker}"))
    monkeypatch.setattr(keeper, "__file__", str(changed))
    assignment = make_assignment(tmp_path, command=f"touch {tmp_path}/ran")
    with pytest.raises(OutOfResources):
        CommandRunner(os.environ).start(assignment, clock())
    assert not (tmp_path / "ran").exists() and find_marked(assignment.task_id) == []
    assert not assignment.keeper.exists()


def test_an_upgrade_changes_nothing_of_a_keeper_that_runs(
    killed: Callable[..., Assignment], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assignment = killed(command=f"until test -e {tmp_path}/gate; do sleep 0.02; done; echo whole")
    process = psutil.Process(keeper_of(assignment.keeper))
    program = Path(process.cwd()) / process.cmdline()[-1]
    assert program == assignment.keeper / "keeper.py", "its own copy"
    newer = tmp_path / "newer.py"
    newer.write_text("raise SystemExit('the program of another version')\n")
    monkeypatch.setattr(keeper, "__file__", str(newer))
    running = adopt(assignment)
    (tmp_path / "gate").touch()
    assert finish(running).result["output"] == "whole"


@pytest.mark.parametrize(
    "changed", [{"project_id": "another"}, {"attempt": 2}, {"folder": "/elsewhere/keeper"}, {"limits": None}]
)
def test_what_is_not_certainly_its_own_is_not_adopted(
    killed: Callable[..., Assignment], changed: dict[str, Any]
) -> None:
    assignment = killed(command="sleep 600")
    record = assignment.keeper / "record"
    plan, _, rest = record.read_text().partition("\n")
    record.write_text(f"{json.dumps({**json.loads(plan), **changed})}\n{rest}")
    assert keeping.find(assignment.keeper, assignment.marks, 1) is None


def test_a_worker_that_its_daemons_die_of_again_and_again_is_not_adopted_for_ever(
    killed: Callable[..., Assignment],
) -> None:
    assignment = killed(command="sleep 600")
    for _ in range(keeping.MOST_ADOPTIONS):
        record = keeping.find(assignment.keeper, assignment.marks, 1)
        assert record
        record[0].close()
    assert keeping.find(assignment.keeper, assignment.marks, 1) is None


def test_limits_that_passed_are_counted_from_the_workers_start(killed: Callable[..., Assignment]) -> None:
    assignment = killed(command="sleep 600")
    wait(lambda: Kept(assignment.keeper).age_s > 1)
    record = keeping.find(assignment.keeper, assignment.marks, 1)
    assert record
    kept, known = record
    limited = make_assignment(assignment.keeper.parent, task_id=known.task_id, limits=Limits(timeout_s=1))
    running = CommandRunner(os.environ, stop_grace_s=1).follow(limited, kept, clock())
    assert finish(running).error_code == "timeout"
