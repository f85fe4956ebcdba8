"""The runner ``command`` with real processes: how they end, what they see, and that nothing of them is left."""

from __future__ import annotations

import os
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from corral.core.errors import InvalidInput, RunnerUnavailable
from corral.runners.command import CommandRunner
from corral.runners.protocol import Assignment, Limits, Running
from tests.integration.running import clock, find_marked, finish, look, make_assignment, wait
from tests.support.programs import requires

Start = Callable[..., Running]
DAEMONISE = """
import os, signal, socket, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
if sys.argv[2:] == ["stubborn"]: signal.signal(signal.SIGTERM, signal.SIG_IGN)
server = socket.create_server(("127.0.0.1", 0))
open(sys.argv[1] + ".part", "w").write(f"{server.getsockname()[1]} {os.getpid()}")
os.rename(sys.argv[1] + ".part", sys.argv[1])
time.sleep(600)
"""


@pytest.fixture
def start(tmp_path: Path, assignments: list[Assignment]) -> Start:
    """Start a shell text: ``start("true", limits=..., env=...)``."""

    def begin(command: str, **changes: Any) -> Running:
        assignment = make_assignment(tmp_path, command=command, **changes)
        assignments.append(assignment)
        return CommandRunner(os.environ, stop_grace_s=5).start(assignment, clock())

    return begin


def test_exit_code_zero_is_success(start: Start, tmp_path: Path) -> None:
    running = start("echo first; echo second >&2; pwd")
    finished = finish(running)
    assert (finished.success, finished.exit_code, finished.error_code) == (True, 0, None)
    assert finished.result["output"] == f"first\nsecond\n{tmp_path}/worktree"
    assert (tmp_path / "logs/1.log").read_text() == f"first\nsecond\n{tmp_path}/worktree\n"
    assert running.observe(clock()).finished is finished


def test_output_is_for_its_owner_alone(start: Start, tmp_path: Path) -> None:
    finish(start("echo secret"))
    assert stat.S_IMODE((tmp_path / "logs/1.log").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "logs").stat().st_mode) == 0o700


def test_a_second_start_appends_to_the_log_and_reads_only_its_own(start: Start, tmp_path: Path) -> None:
    finish(start("echo before"))
    finished = finish(start("echo after"))
    assert finished.result["output"] == "after"
    assert (tmp_path / "logs/1.log").read_text() == "before\nafter\n"


def test_another_exit_code_is_a_failure_worth_another_attempt(start: Start) -> None:
    finished = finish(start("echo no such thing; exit 3"))
    assert (finished.success, finished.exit_code, finished.error_code) == (False, 3, "command_failed")
    assert finished.error_message == "The command exited with 3: no such thing"
    assert finished.retryable


def test_a_last_line_without_a_word_is_not_the_reason(start: Start) -> None:
    output = r"""
x=1 cause="ModelNotFoundError: Model not found: g/m. Did you mean: g/m-2?\n    at f (a.js)"
Error: {
  "name": "UnknownError",
  "data": {"ref": "err_1"
  }
}
"""
    finished = finish(start(f"cat <<'END'\n{output}END\nexit 1"))
    assert (
        finished.error_message
        == "The command exited with 1: ModelNotFoundError: Model not found: g/m. Did you mean: g/m-2?"
    )
    assert (
        finish(start("echo out of paper; echo; echo ']'; exit 2")).error_message
        == "The command exited with 2: out of paper"
    )


def test_a_worker_killed_from_outside_is_told_apart(start: Start) -> None:
    running = start("exec sleep 600")
    os.kill(running.pid, signal.SIGKILL)
    finished = finish(running)
    assert (finished.error_code, finished.retryable) == ("killed", True)
    assert finished.error_message == "The command was killed by SIGKILL."


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("kill -TERM $$", "killed"),
        ("sh -c 'kill -9 $$'", "killed"),  # the shell above it tells 137
        ("kill -SEGV $$", "crashed"),
        ("exit 130", "command_failed"),
    ],
)
def test_who_sent_the_signal_is_told_by_its_kind(start: Start, command: str, code: str) -> None:
    assert finish(start(f"{command}; exit $?")).error_code == code


@pytest.mark.req("X10")
def test_what_a_worker_finds_in_its_environment(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "GIT_DIR": "/elsewhere",
        "CLAUDE_CODE_SESSION_ID": "another's",
        "ANTHROPIC_API_KEY": "the-key",
        "CLAUDE_CODE_OAUTH_TOKEN": "the-token",
        "NPM_TOKEN": "t",
    }.items():
        monkeypatch.setenv(name, value)
    env = {"PATH": "/our/bin", "PORT": "20010"}
    running = start("env", env=env, identity_env={"GIT_AUTHOR_NAME": "Ada"}, task_id="a-task", session_id="a-session")
    lines = finish(running, deadline_s=5).result["output"].splitlines()
    environment = dict(line.split("=", 1) for line in lines)
    assert environment["PATH"] == "/our/bin:" + os.environ["PATH"]
    assert (environment["PORT"], environment["GIT_AUTHOR_NAME"]) == ("20010", "Ada")
    assert (environment["CORRAL_TASK_ID"], environment["CORRAL_SESSION_ID"]) == ("a-task", "a-session")
    credentials = {"ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "NPM_TOKEN"}
    assert not {"GIT_DIR", "CLAUDE_CODE_SESSION_ID", *credentials} & set(environment)


@pytest.mark.req("D6")
def test_it_has_no_input_and_none_of_our_descriptors(start: Start) -> None:
    ours, theirs = os.pipe()
    os.set_inheritable(theirs, True)
    try:
        finished = finish(start(f"cat; test -e /dev/fd/{theirs} && echo leaked; echo done"))
    finally:
        os.close(ours)
        os.close(theirs)
    assert finished.result["output"] == "done"


@pytest.mark.faults
def test_a_server_that_left_the_group_does_not_outlive_its_task(start: Start, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(DAEMONISE)
    where = tmp_path / "where"
    running = start(f"{sys.executable} {tmp_path}/server.py {where}; until test -e {where}; do sleep 0.02; done")
    finished = finish(running)
    port, pid = map(int, where.read_text().split())
    assert finished.success
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.faults
def test_a_stubborn_one_is_killed_after_the_grace(start: Start, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(DAEMONISE)
    where = tmp_path / "where"
    running = start(
        f"{sys.executable} {tmp_path}/server.py {where} stubborn; until test -e {where}; do sleep 0.02; done"
    )
    wait(where.exists)
    running.await_exit()
    now = clock()
    pid = int(where.read_text().split()[1])
    assert running.observe(now).finished is None
    assert running.observe(now + timedelta(seconds=4.9)).finished is None
    assert psutil.pid_exists(pid)
    assert psutil.Process(running.pid).status() == psutil.STATUS_ZOMBIE, "no other process may get its group's number"
    running.observe(now + timedelta(seconds=5))
    assert finish(running).success
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    wait(lambda: not psutil.pid_exists(running.pid))


@requires("setsid")
@pytest.mark.faults
def test_a_process_that_nobody_here_can_end_is_named_while_its_worker_waits_for_it(
    start: Start, assignments: list[Assignment], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of another user is: no signal reaches it. It cannot be had here, so the signals are left out."""
    running = start("setsid sleep 600 & echo up; exit 0")
    wait(lambda: psutil.Process(running.pid).status() == psutil.STATUS_ZOMBIE)
    (pid,) = find_marked(assignments[0].task_id)
    now = clock()
    with monkeypatch.context() as patched:
        patched.setattr("corral.runners.worker.signal_each", lambda _processes, _number: None)
        assert running.observe(now).undying is None
        assert running.observe(now + timedelta(seconds=14)).undying is None, "the kernel may need a moment"
        seen = running.observe(now + timedelta(seconds=16))
        assert seen.finished is None and seen.undying == f"pid {pid}"
    seen = look(running, lambda seen: seen.finished)
    assert seen.undying is None and seen.finished is not None and seen.finished.success


def test_a_stop_ends_the_whole_group_at_once(start: Start, assignments: list[Assignment]) -> None:
    running = start("sleep 600 & sleep 600 & echo up; wait")
    look(running, lambda seen: seen.progress == "up")
    running.stop(clock(), "cancelled", "Cancelled by its owner.")
    finished = finish(running, deadline_s=3)
    assert (finished.success, finished.error_code, finished.retryable) == (False, "cancelled", False)
    assert finished.error_message == "Cancelled by its owner."
    assert find_marked(assignments[0].task_id) == []


def test_a_stopped_worker_has_time_to_tidy_up(start: Start) -> None:
    running = start("trap 'kill %1; sleep 0.3; echo tidy; exit 0' TERM; echo up; sleep 600 & wait")
    look(running, lambda seen: seen.progress == "up")
    running.stop(clock(), "cancelled", "Cancelled.")
    assert finish(running, deadline_s=4).exit_code == 0
    assert running.observe(clock()).progress == "tidy"


@pytest.mark.faults
def test_what_ignores_sigterm_is_killed_after_the_grace(start: Start, assignments: list[Assignment]) -> None:
    running = start("trap '' TERM; echo up; while :; do sleep 600; done")
    look(running, lambda seen: seen.progress == "up")
    now = clock()
    running.stop(now, "interrupted", "The daemon stops.")
    assert running.observe(now + timedelta(seconds=4.9)).finished is None
    assert psutil.pid_exists(running.pid)
    running.observe(now + timedelta(seconds=5))
    finished = finish(running, deadline_s=3)
    assert (finished.exit_code, finished.error_code, finished.retryable) == (-9, "interrupted", True)
    assert find_marked(assignments[0].task_id) == []


def test_a_suspended_worker_can_be_stopped(start: Start) -> None:
    running = start("sleep 600")
    os.killpg(running.pid, signal.SIGSTOP)
    now = clock()
    running.stop(now, "cancelled", "Cancelled.")
    running.observe(now + timedelta(seconds=5))
    assert finish(running, deadline_s=3).error_code == "cancelled"


def test_the_first_reason_to_stop_counts(start: Start) -> None:
    running = start("sleep 600")
    running.stop(clock(), "cancelled", "Cancelled.")
    running.stop(clock(), "interrupted", "The daemon stops.")
    assert finish(running, deadline_s=3).error_code == "cancelled"
    running.stop(clock(), "interrupted", "Too late.")
    assert running.observe(clock()).finished == finish(running)


def test_a_time_limit(start: Start) -> None:
    running = start("sleep 600", limits=Limits(timeout_s=60))
    now = clock()
    assert running.observe(now + timedelta(seconds=59)).finished is None
    running.observe(now + timedelta(seconds=61))
    finished = finish(running, deadline_s=3)
    assert (finished.error_code, finished.retryable) == ("timeout", True)
    assert finished.error_message == "The worker timed out after 60 s."


@pytest.mark.parametrize("limits", [Limits(timeout_s=60), Limits(stall_s=60)])
def test_who_is_stopped_by_a_limit_is_quoted(start: Start, limits: Limits) -> None:
    running = start("echo 'Quota exceeded, trying again in 1 h.'; echo '}'; sleep 600", limits=limits)
    wait(lambda: running.observe(clock()).progress)
    running.observe(clock() + timedelta(seconds=61))
    finished = finish(running, deadline_s=3)
    assert finished.error_message and finished.error_message.endswith(
        "Last output: Quota exceeded, trying again in 1 h."
    )


def test_a_silent_idle_worker_is_stalled(start: Start) -> None:
    running = start("sleep 600", limits=Limits(stall_s=30))
    now = clock()
    assert running.observe(now + timedelta(seconds=29)).finished is None
    running.observe(now + timedelta(seconds=31))
    assert finish(running, deadline_s=3).error_code == "stalled"


def test_output_is_progress(start: Start) -> None:
    running = start("sleep 0.2; echo one; sleep 600", limits=Limits(stall_s=30))
    now = clock()
    wait(lambda: running.observe(now + timedelta(seconds=29)).progress == "one")
    assert running.observe(now + timedelta(seconds=58)).finished is None
    assert psutil.pid_exists(running.pid)
    running.stop(clock(), "cancelled", "")
    finish(running, deadline_s=3)


def test_a_silent_worker_that_computes_is_not_stalled(start: Start) -> None:
    running = start("(while :; do :; done) & wait", limits=Limits(stall_s=3))

    begun = clock()

    def is_busy() -> bool:
        children = psutil.Process(running.pid).children()
        elapsed_s = (clock() - begun).total_seconds()
        return bool(children) and children[0].cpu_times().user > 0.1 * (elapsed_s + 3)

    wait(is_busy)
    now = clock()
    running.observe(now + timedelta(seconds=2))
    running.observe(now + timedelta(seconds=4))
    assert psutil.Process(running.pid).status() != psutil.STATUS_ZOMBIE
    running.stop(now, "cancelled", "")
    assert finish(running, deadline_s=3).error_code == "cancelled"


def test_a_flood_of_output_is_followed_without_delay(start: Start, tmp_path: Path) -> None:
    size = 5_000_000
    running = start(f"head -c {size} /dev/zero | tr '\\0' x | fold -w 100; echo; echo the end")
    slowest = 0.0
    while True:
        before = time.perf_counter()
        seen = running.observe(clock())
        slowest = max(slowest, time.perf_counter() - before)
        if seen.finished:
            break
        time.sleep(0.01)
    assert seen.finished.success
    assert seen.progress == "the end"
    assert (tmp_path / "logs/1.log").stat().st_size > size
    assert len(seen.finished.result["output"]) < 10_000
    assert slowest < 1


def test_who_writes_without_end_is_stopped_and_the_log_is_cut(start: Start, tmp_path: Path) -> None:
    finished = finish(start("while :; do head -c 1000000 /dev/zero; done", limits=Limits(output_mb=2)))
    assert (finished.error_code, finished.retryable) == ("output_limit", False)
    assert finished.error_message and "more than 2 MB" in finished.error_message
    assert (tmp_path / "logs/1.log").stat().st_size == 2 << 20


def test_who_was_done_before_the_flood_was_seen_has_succeeded_and_the_log_is_cut(start: Start, tmp_path: Path) -> None:
    running = start("head -c 5000000 /dev/zero", limits=Limits(output_mb=2))
    wait(lambda: psutil.Process(running.pid).status() == psutil.STATUS_ZOMBIE)
    assert finish(running).success
    assert (tmp_path / "logs/1.log").stat().st_size == 2 << 20


def test_what_is_shown_has_no_secrets_and_no_control_characters(start: Start) -> None:
    key = "sk-ant-api03-" + "a1" * 12
    finished = finish(start(f"printf 'red \\033[31m{key}\\033[0m \\007end\\n'; exit 1"))
    assert finished.error_message == "The command exited with 1: red [redacted] end"
    assert key not in str(finished)


@pytest.mark.req("FR-CONFIG-006")
def test_memory_is_counted_over_the_whole_tree(start: Start, tmp_path: Path) -> None:
    eater = f"{sys.executable} -c \"b = bytearray(b'x' * 90_000_000); print('full', flush=True); import time; time.sleep(600)\""
    running = start(f"{eater} & {eater} & wait", limits=Limits(memory_mb=150))
    wait(lambda: (tmp_path / "logs/1.log").read_text().count("full") == 2)
    running.observe(clock() + timedelta(seconds=2))
    finished = finish(running, deadline_s=3)
    assert (finished.error_code, finished.retryable) == ("memory_limit", True)
    assert finished.error_message and finished.error_message.endswith("the limit is 150.")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells shared pages apart")
def test_pages_that_processes_share_are_counted_once(start: Start) -> None:
    forks = "import os, time; b = bytearray(b'x' * 90_000_000)\nfor _ in range(3): os.fork() and 0 or None"
    script = f"{forks}\nprint('full', flush=True); time.sleep(600)"
    running = start(f'exec {sys.executable} -c "{script}"', limits=Limits(memory_mb=300))
    wait(lambda: len(psutil.Process(running.pid).children(recursive=True)) == 7)
    now = clock()
    assert running.observe(now + timedelta(seconds=2)).finished is None
    assert psutil.Process(running.pid).status() != psutil.STATUS_ZOMBIE
    running.stop(now, "cancelled", "")
    assert finish(running, deadline_s=3).error_code == "cancelled"


def test_a_worker_that_removes_its_log_is_still_followed(start: Start, tmp_path: Path) -> None:
    finished = finish(start(f"rm {tmp_path}/logs/1.log; echo still here"))
    assert finished.result["output"] == "still here"


@pytest.mark.parametrize("command", [None, "", "echo \0"])
def test_an_assignment_without_a_command_is_refused(tmp_path: Path, command: str | None) -> None:
    with pytest.raises(InvalidInput):
        CommandRunner(os.environ).start(make_assignment(tmp_path, command=command), clock())


def test_a_worker_that_cannot_start_leaves_no_descriptor(tmp_path: Path) -> None:
    assignment = make_assignment(tmp_path, command="true")
    before = psutil.Process().num_fds()
    with pytest.raises(RunnerUnavailable, match="No such file"):
        CommandRunner(os.environ).start(replace(assignment, worktree=tmp_path / "gone"), clock())
    with pytest.raises(RunnerUnavailable, match="too long"):
        CommandRunner(os.environ).start(replace(assignment, command="x" * 3_000_000), clock())
    assert psutil.Process().num_fds() == before


def test_a_finished_worker_holds_no_descriptor(start: Start) -> None:
    before = psutil.Process().num_fds()
    finish(start("true"))
    assert psutil.Process().num_fds() == before


def test_a_command_takes_no_messages(start: Start) -> None:
    running = start("true")
    assert not running.tell("hello")
    finish(running)
