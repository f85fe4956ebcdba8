"""Recovery at a start after a dead daemon: each part separately, and tried again by its job if it fails.

Only the database stops a start. A part that fails otherwise is logged, stands under what needs a person, and the daemon serves.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from corral.app.runtime.needs import Need
from corral.errors import CorralError, DatabaseUnavailable
from corral.models.instants import iso
from corral.observe.logs import logger
from corral.observe.redaction import redact
from corral.server.process.jobs import RETRY_S, Step

log = logger("recovery")


class Recovery:
    """One part's recovery, until it has succeeded once.

    Args:
        name: Of the part, for the log and the fault.
        what: The task that failed, as the subject of a sentence: ``"Landings that were begun"``.
        recover: Does it; safe to repeat.
        faults: Where a failure stands as long as it lasts.
    """

    def __init__(self, name: str, what: str, recover: Callable[[datetime], None], faults: dict[str, Need]) -> None:
        self._fault = f"recovery of {name}"
        self._name = name
        self._what = what
        self._recover = recover
        self._faults = faults
        self._done = False

    def run(self, now: datetime) -> None:
        """Recover, unless that is done.

        Raises:
            DatabaseUnavailable: Nothing can be recovered without it.
        """
        if self._done:
            return
        try:
            self._recover(now)
        except DatabaseUnavailable:
            raise
        except (CorralError, OSError) as error:
            why = redact(f"{error.message} {error.cause}" if isinstance(error, CorralError) else str(error))
            remedy = error.remedy if isinstance(error, CorralError) else "Fix that; it is tried again automatically."
            since = self._faults[self._fault].since if self._fault in self._faults else iso(now)
            self._faults[self._fault] = Need(
                "not_recovered", f"{self._what} could not be recovered: {why}", remedy, since
            )
            log.warning("not_recovered", part=self._name, reason=why)
            return
        self._done = True
        self._faults.pop(self._fault, None)

    def before(self, step: Step) -> Step:
        """The step of the part's job, which first recovers what the start could not."""

        def recovering(now: datetime) -> datetime | None:
            self.run(now)
            due = step(now)
            if self._done:
                return due
            again = now + timedelta(seconds=RETRY_S)
            return again if due is None else min(due, again)

        return recovering
