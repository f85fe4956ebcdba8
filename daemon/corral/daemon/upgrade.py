"""An upgrade under a running daemon: it is detected, shown until it takes effect, and takes effect when nothing is in progress
that begins again with a new daemon. Workers and verifications go on meanwhile.

A daemon keeps the code that it was started with, while its files on the disk already belong to another version: later imports
would not fit the loaded modules. The record of installed files, which every installer writes, shows that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import corral
from corral.coordination.services import Services
from corral.core.instants import iso
from corral.core.logs import logger
from corral.core.needs import Need
from corral.landing.queue import Queue
from corral.landing.verify.verification_context import DRY_RUN, VerificationContext
from corral.landing.verify.verification_worktree import VerificationWorktree
from corral.work.workers.supervisor import Supervisor

LOOK_EVERY_S = 20.0
"""A check reads one folder: a millisecond or two."""

FAULT = "upgrade"
REMEDY = "It is replaced as soon as nothing starts, ends or is prepared; at once: corral daemon restart"

log = logger("daemon")


class Installed(NamedTuple):
    """The installation that this package is imported from: its version, and the record that each installation writes again."""

    version: str
    record: str
    written_ns: int


def find_installed(package: Path) -> Installed | None:
    """The installation that a package's folder belongs to; None where there is none (any more), as in a source checkout."""
    for distribution in metadata.distributions(name="corral"):
        if Path(str(distribution.locate_file("corral"))) != package:
            continue
        record = Path(str(distribution.locate_file(f"corral-{distribution.version}.dist-info"))) / "RECORD"
        try:
            return Installed(distribution.version, str(record), record.stat().st_mtime_ns)
        except OSError:  # an installation is in progress
            return None
    return None


def is_idle(services: Services) -> bool:
    """Whether no attempt starts or ends, and no verification is prepared: what runs outlives a daemon."""
    if services.of(Supervisor).unsettled_count() or services.of(Queue).unsettled_count:
        return False
    return not VerificationWorktree(
        services.db, services.of(VerificationContext).places, services.git, DRY_RUN
    ).is_there


@dataclass
class Upgrade:
    """Step: check whether the files of this daemon were replaced; if so, report it, and hand over when nothing runs.

    Attributes:
        faults: The needs of a person, to which the upgrade is added until then.
        is_idle: Whether nothing is in progress that the next daemon could not go on with.
        hand_over: Ends this daemon and starts the installed one.
        package: The folder of the code that runs.
    """

    faults: dict[str, Need]
    is_idle: Callable[[], bool]
    hand_over: Callable[[], None]
    package: Path = Path(corral.__file__).parent
    _running: Installed | None = field(default=None, init=False)
    _seen: Installed | None = field(default=None, init=False)

    def step(self, now: datetime) -> datetime | None:
        """Check once; None if the code belongs to no installation."""
        installed = find_installed(self.package)
        self._running = self._running or installed
        if self._running is None:
            return None
        is_at_rest, self._seen = installed == self._seen, installed  # a running installer writes its record last
        if installed is None or installed == self._running or not is_at_rest:
            return now + timedelta(seconds=LOOK_EVERY_S)
        if self.is_idle():
            log.info("handing_over", message=f"Corral {installed.version} was installed; nothing has to end first.")
            self.hand_over()
            return None
        if FAULT not in self.faults:
            what = f"Corral {installed.version} was installed, and this daemon is still the one before ({corral.__version__})."
            self.faults[FAULT] = Need("outdated_daemon", what, REMEDY, iso(now))
        return now + timedelta(seconds=LOOK_EVERY_S)
