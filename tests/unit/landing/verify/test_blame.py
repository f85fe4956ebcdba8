"""The decision about a request that was not found green: never against it without evidence, whatever happened before."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone

import pytest

from corral.core.errors import GitFailed, NotAProject
from corral.core.instants import after, iso
from corral.core.states import ReceiptStatus
from corral.landing.verify.blame import (
    LONGEST_WAIT_S,
    Run,
    Step,
    is_control,
    is_failed_setup,
    is_of_port,
    may_be_the_changes,
    refusal_in,
    set_back,
    wait_s,
    weigh,
)

RED, ERROR, GREEN = ReceiptStatus.FAILED, ReceiptStatus.ERROR, ReceiptStatus.PASSED


def run(status: ReceiptStatus, at: int) -> Run:
    return Run(status, f"{at:04}")


def test_the_waits_grow_from_seconds_to_minutes_and_never_end_a_request() -> None:
    assert [wait_s(number) for number in range(1, 9)] == [5, 10, 20, 40, 80, 160, 300, 300]
    assert wait_s(10**6) == LONGEST_WAIT_S


def test_a_target_is_paused_from_the_third_failure_in_a_row_or_at_once_if_it_fails_too() -> None:
    first, second, third, fourth = (set_back(1, before, pause_after=3) for before in range(4))
    assert [(failure.failures, failure.look_s) for failure in (first, second, third, fourth)] == [
        (1, 0),
        (2, 0),
        (3, 5),
        (4, 10),
    ]
    proven = set_back(1, 0, pause_after=3, proven=True)
    assert (proven.failures, proven.look_s) == (3, 5)
    assert set_back(7, 0, pause_after=3).wait_s == 300


@pytest.mark.req("I5")
def test_a_red_run_needs_a_green_target_and_a_run_without_a_verdict_needs_one_between_two_of_its_kind() -> None:
    assert weigh(run(RED, 5), None, None) is Step.RUN_TARGET
    assert weigh(run(RED, 5), run(GREEN, 1), None) is Step.RETURN
    assert weigh(run(RED, 5), None, run(RED, 6)) is Step.TARGET_RED
    assert weigh(run(RED, 5), None, run(RED, 4)) is Step.RUN_TARGET
    assert weigh(run(ERROR, 5), run(GREEN, 4), None) is Step.RUN_TARGET, (
        "a green of long ago proves nothing about a time-out"
    )
    assert weigh(run(ERROR, 5), run(GREEN, 6), None) is Step.RUN_AGAIN
    assert weigh(run(ERROR, 5), run(GREEN, 6), None, run(ERROR, 7)) is Step.RETURN
    assert weigh(run(ERROR, 5), None, run(RED, 6), run(ERROR, 7)) is Step.TARGET_RED


@pytest.mark.req("I5")
def test_a_green_run_is_a_control_if_it_came_after_the_failure_or_shortly_before_it() -> None:
    at = datetime(2031, 3, 1, 12, tzinfo=timezone.utc)

    def made(seconds: float) -> Run:
        return Run(GREEN, after(at, seconds))

    first = Run(RED, iso(at))
    assert is_control(made(-3599), first, 3600, at) and not is_control(made(-3600), first, 3600, at)
    assert is_control(made(1), first, 0, at), "it was run for this, whatever the limit is"
    assert not is_control(made(-1), first, 0, at)
    set_back = at - timedelta(days=1)
    assert not is_control(made(-1), first, 3600, set_back), (
        "stamped before the clock was set back: its age cannot be told"
    )
    assert is_control(made(1), first, 3600, set_back)
    assert is_control(made(-10), first, 3600, at + timedelta(days=9)), "what counts is the age at the failure"


@pytest.mark.req("I5")
def test_whatever_happens_to_it_an_innocent_change_comes_back_only_if_the_machine_fails_twice_around_a_green_run() -> (
    None
):
    """Random machines: a request is judged as the queue does, from what its runs and the target's ended with."""
    for seed in range(2000):
        chance = random.Random(seed)
        first: Run | None = None
        green: Run | None = None
        red: Run | None = None
        history: list[tuple[str, ReceiptStatus]] = []
        for at in range(12):
            step = weigh(first, green, red) if first else Step.RUN_AGAIN
            if step is Step.TARGET_RED:
                break
            if step is Step.RETURN:
                assert ("change", RED) in history and ("target", GREEN) in history, (seed, history)
                break
            status = chance.choice((RED, ERROR, GREEN))
            history.append(("target" if step is Step.RUN_TARGET else "change", status))
            seen = run(status, at)
            if step is Step.RUN_TARGET:
                if status is ERROR:
                    break  # the machine's fault: paused, and begun anew
                green, red = (seen, red) if status is GREEN else (green, seen)
            elif status is GREEN:
                break
            elif first is not None and weigh(first, green, red, seen) is Step.RETURN:
                errors = [place for place, entry in enumerate(history) if entry == ("change", ERROR)]
                assert len(errors) >= 2 and ("target", GREEN) in history[errors[0] : errors[-1]], (seed, history)
                break
            else:
                first = seen


@pytest.mark.parametrize(
    ("error", "suspect"),
    [
        (GitFailed("x", details={"rc": 128, "stderr": "fatal: index file corrupt"}), True),
        (GitFailed("x", details={"rc": -9, "stderr": ""}), False),
        (GitFailed("x", details={"rc": 128, "stderr": "fatal: write error: No space left on device"}), False),
        (GitFailed("x", details={"rc": 1, "stderr": "Error: ENOSPC: no space left on device, write"}), False),
        (
            GitFailed("x", details={"rc": 1, "stderr": "Error: listen EADDRINUSE: address already in use :::3000"}),
            False,
        ),
        (GitFailed("git cannot be run."), False),
        (NotAProject("it has lost its git directory"), True),
        (OSError(28, "No space left on device"), False),
    ],
)
def test_what_the_system_refused_and_what_was_killed_is_not_the_changes_doing(error: Exception, suspect: bool) -> None:
    assert isinstance(error, GitFailed | NotAProject | OSError)
    assert may_be_the_changes(error) is suspect
    assert is_failed_setup(error) is False


def test_a_setup_command_that_fails_by_itself_may_be_the_changes_doing() -> None:
    assert is_failed_setup(GitFailed("x", details={"exit_code": 1}))
    assert not is_failed_setup(GitFailed("x", details={"exit_code": 137}))
    assert not is_failed_setup(GitFailed("x", details={"exit_code": None}))


@pytest.mark.req("I5")
@pytest.mark.parametrize(
    ("printed", "is_port"),
    [
        ("OSError: [Errno 98] Address already in use", True),
        ("Error: listen EADDRINUSE 0.0.0.0:3000", True),
        ("Web server failed to start. Port 8080 was already in use.", True),
        ("Error: That port is already in use.", True),
        ("Bind for 0.0.0.0:5432 failed: port is already allocated", True),
        ("Port 5000 is in use by another program.", True),
        ("c++: fatal error: Killed signal terminated program cc1plus", False),
        ("make: *** [Makefile:2: test] Killed", False),
        ("process didn't exit successfully: `rustc` (signal: 9, SIGKILL: kill)", False),
        ("npm ERR! signal SIGKILL", False),
        ("fork: Resource temporarily unavailable", False),
        ("fatal: unable to access: Could not resolve host: example.invalid", False),
    ],
)
def test_what_the_machine_refused_is_told_from_what_a_test_says(printed: str, is_port: bool) -> None:
    refusal = refusal_in(f"collected 3 items\n{printed}\n")
    assert refusal is not None and is_of_port(refusal) is is_port


def test_a_test_that_fails_is_no_refusal() -> None:
    assert (
        refusal_in("FAILED test_ports.py::test_killed - AssertionError: the port is not in use, 1 process was killed")
        is None
    )
