"""Recovery at a start after a dead daemon: each part separately, and tried again by its job if it fails.

Only the database prevents a start. Any other failing part is logged and shown among the needs of a person; the daemon serves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from corral.core.errors import CorralError, DatabaseUnavailable
from corral.core.logs import logger
from corral.core.needs import Fault, Need
from corral.core.redaction import redact
from corral.core.steps import Run
from corral.daemon.jobs import RETRY_S

log = logger("recovery")


@dataclass
class Recovery:
    """One part's recovery, until it has succeeded once.

    Attributes:
        name: The part's name, for the log and the fault.
        what: The task that failed, as the subject of a sentence: ``"Landings that were begun"``.
        recover: Does it; safe to repeat.
        faults: The needs of a person, to which a failure is added while it lasts.
    """

    name: str
    what: str
    recover: Callable[[datetime], None]
    faults: dict[str, Need]
    _done: bool = field(default=False, init=False)

    def run(self, now: datetime) -> None:
        """Recover, unless that is done.

        Raises:
            DatabaseUnavailable: Nothing can be recovered without it.
        """
        if self._done:
            return
        fault = Fault(self.faults, f"recovery of {self.name}", "not_recovered")
        try:
            self.recover(now)
        except DatabaseUnavailable:
            raise
        except (CorralError, OSError) as error:
            why = redact(f"{error.message} {error.cause}" if isinstance(error, CorralError) else str(error))
            remedy = error.remedy if isinstance(error, CorralError) else "Fix that; it is tried again automatically."
            fault.show(f"{self.what} could not be recovered: {why}", remedy, now)
            log.warning("not_recovered", part=self.name, reason=why)
            return
        self._done = True
        fault.end()

    def before(self, step: Run) -> Run:
        """The step of the part's job, with a recovery before it if the start's recovery failed."""

        def recovering(now: datetime) -> datetime | None:
            self.run(now)
            due = step(now)
            if self._done:
                return due
            again = now + timedelta(seconds=RETRY_S)
            return again if due is None else min(due, again)

        return recovering
