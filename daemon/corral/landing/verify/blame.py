"""Whose fault it is that a change was not found green: decided from evidence, as pure functions.

Three kinds of failures are told apart (reliability.md 4.2, I5):
    * *red*: the commands ran and failed. The change is at fault if its target was seen green without it, shortly before or since.
    * *suspect*: there was no verdict, and the change could be why (it ran out of time, wrote too much, changed tracked files,
      cannot be set up, met a full disk that it may have filled). The change is at fault if its target then gets a green
      verdict, and the change fails again.
    * *fault*: there was no verdict, and the change cannot be why (a full disk, a killed git, a killed command). It is never
      counted against the change: the request waits, and where every try ends so, the target's queue is paused.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from corral.core.errors import CorralError, GitFailed
from corral.core.instants import after, iso, parse
from corral.core.redaction import redact
from corral.core.states import ReceiptStatus

FIRST_WAIT_S = 5.0
LONGEST_WAIT_S = 300.0
KILLED = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP, -signal.SIGINT, 128 + signal.SIGKILL)
"""Exit codes of a command that somebody else ended: a person, the system, or the kernel because memory ran out."""

_PORT_TAKEN = re.compile(
    r"address already in use|eaddrinuse|port (?:\S{1,20} )?(?:is|was) already (?:in use|used|allocated)|port \d{1,5} is in use"
)
_MACHINES = re.compile(
    _PORT_TAKEN.pattern
    + "|no space left|quota exceeded|input/output error|read-only file system|cannot allocate memory"
    "|too many open files in system|resource temporarily unavailable"
    "|temporary failure in name resolution|could not resolve host|eai_again|network is unreachable"
    "|signal: killed|signal: 9, sigkill|signal sigkill|killed signal terminated program|\\] killed"
)
"""What the C library and build tools print, in lower case, when the system refused a call, killed a part of a command for lack of
memory, or reached no network: the next run may do without."""


@dataclass(frozen=True)
class Run:
    """A verification that was concluded: its status, and when (an instant as text)."""

    status: ReceiptStatus
    at: str


class Step(Enum):
    """The conclusion from the evidence about one request."""

    RETURN = auto()
    """The change is at fault: the request comes back as failed."""
    RUN_TARGET = auto()
    """Verify the target without the change."""
    RUN_AGAIN = auto()
    """Verify the change again."""
    TARGET_RED = auto()
    """The target is red without the change: the request waits for it."""


def is_control(green: Run, first: Run, max_age_s: float, now: datetime) -> bool:
    """Whether a green run of the target, with the same fingerprint, is evidence about a candidate's run.

    It is if it was made after that run, or so shortly before it that nothing else has changed meanwhile. An instant that is
    still to come was stamped before the clock was set back: how old such a run is cannot be told.

    Args:
        max_age_s: Seconds from the end of the green run to that of the candidate's (``landing.control_max_age_s``).
    """
    is_young = after(parse(first.at), -max_age_s) < green.at <= iso(now)
    return green.at >= first.at or is_young


def weigh(first: Run, target_green: Run | None, target_red: Run | None, second: Run | None = None) -> Step:
    """Decide what to do about a request whose candidate was red, or ended without a verdict that the change may have caused.

    Args:
        first: The candidate's run, ``failed`` or ``error``.
        target_green: The latest green run of the target without the change that :func:`is_control`.
        target_red: Its latest red run.
        second: A later run of the same candidate that ended with ``error`` again.
    """
    if first.status is ReceiptStatus.FAILED:
        if target_green is not None:
            return Step.RETURN
    elif target_green is not None and target_green.at >= first.at:
        # The load of the machine an hour ago says nothing about a time-out now: this green must be younger.
        again = second is not None and second.status is ReceiptStatus.ERROR and second.at >= target_green.at
        return Step.RETURN if again else Step.RUN_AGAIN
    # A red target counts if it was seen no earlier than the request's own failure: so a retry looks at it again.
    if target_red is not None and target_red.at >= first.at:
        return Step.TARGET_RED
    return Step.RUN_TARGET


def wait_s(failures: int) -> float:
    """Seconds to wait after so many failures in a row (at least 1): 5, 10, 20, … up to 300."""
    return float(min(FIRST_WAIT_S * 2 ** min(failures - 1, 10), LONGEST_WAIT_S))


@dataclass(frozen=True)
class Setback:
    """The consequence of one more fault.

    Attributes:
        failures: Of the target, in a row, with this one.
        wait_s: Seconds until the request is tried again, unless its target is looked at earlier.
        look_s: Seconds until a paused target is looked at again; 0 while it is not paused.
    """

    failures: int
    wait_s: float
    look_s: float


def set_back(tries: int, failures: int, *, pause_after: int, proven: bool = False) -> Setback:
    """Decide how long a request, and its target's queue, wait after a fault. No number of faults ends a request.

    Args:
        tries: Of this request that ended in a fault, with this one.
        failures: Of its target since its last verdict, without this one.
        pause_after: Failures in a row after which a target is paused.
        proven: Whether it is known already that the target cannot be verified either.
    """
    number = max(failures + 1, pause_after) if proven else failures + 1
    look_s = wait_s(number - pause_after + 1) if number >= pause_after else 0.0
    return Setback(number, wait_s(tries), look_s)


def describe(error: CorralError | OSError) -> str:
    """An error in one line, without a secret."""
    return redact(f"{error.message} {error.cause}" if isinstance(error, CorralError) else str(error))


def is_failed_setup(error: CorralError | OSError) -> bool:
    """Whether a setup command of the verification worktree ended with a failure of its own, which a change can cause."""
    return isinstance(error, GitFailed) and "exit_code" in error.details and may_be_the_changes(error)


def refusal_in(output: str) -> str | None:
    """The system's refusal that a failed command printed: no verdict then, although its change may be why."""
    match = _MACHINES.search(output.lower())
    return match[0] if match is not None else None


def is_of_port(refusal: str | None) -> bool:
    """Whether a refusal (:func:`refusal_in`) is that of a port which somebody else has."""
    return refusal is not None and _PORT_TAKEN.fullmatch(refusal) is not None


def may_be_the_changes(error: CorralError | OSError) -> bool:
    """Whether a change, or what it ran, could have caused an error: not what the system refused, and not what was killed."""
    if not isinstance(error, GitFailed):
        return isinstance(error, CorralError)
    code = error.details.get("exit_code", error.details.get("rc"))
    output = str(error.details.get("stderr", ""))
    return isinstance(code, int) and code > 0 and code not in KILLED and refusal_in(output) is None
