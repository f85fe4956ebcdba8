"""An upgrade under a running daemon: it is noticed, named until it has taken effect, and takes effect when nothing runs.

A daemon keeps the code that it was started with, while its files on the disk are another version's already: what it imports
later would not fit what it has. The record of installed files that every installer writes says when that is so.
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
from corral.core.states import MergeState
from corral.landing.verify.verification_context import DRY_RUN, VerificationContext
from corral.landing.verify.verification_worktree import VerificationWorktree
from corral.work.merges.store import merges
from corral.work.workers.supervisor import Supervisor

LOOK_EVERY_S = 20.0
"""A look reads one folder: a millisecond or two."""

FAULT = "upgrade"
REMEDY = "It is replaced as soon as nothing runs; at once: corral daemon restart --drain"

log = logger("daemon")


class Installed(NamedTuple):
    """The installation that this package is imported from: its version, and what changes with each installation."""

    version: str
    record: str
    written_ns: int


def find_installed(package: Path) -> Installed | None:
    """The installation that a package's folder belongs to; None where there is none (any more), as in a source checkout."""
    for found in metadata.distributions(name="corral"):
        if Path(str(found.locate_file("corral"))) != package:
            continue
        record = Path(str(found.locate_file(f"corral-{found.version}.dist-info"))) / "RECORD"
        try:
            return Installed(found.version, str(record), record.stat().st_mtime_ns)
        except OSError:  # an installation that goes on just now
            return None
    return None


def is_idle(services: Services) -> bool:
    """Whether no attempt runs and nothing is verified or landed."""
    if services.of(Supervisor).running_count() or services.db.read(merges.counts).get(MergeState.VERIFYING):
        return False
    return not VerificationWorktree(
        services.db, services.of(VerificationContext).places, services.git, DRY_RUN
    ).is_there


@dataclass
class Upgrade:
    """Step: look whether the files of this daemon were replaced; if so, say it, and hand over when nothing runs.

    Attributes:
        faults: Where it is named until then.
        is_idle: Whether no attempt runs and nothing is verified or landed.
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
        """Look once; nothing to look for where the code is of no installation."""
        found = find_installed(self.package)
        self._running = self._running or found
        if self._running is None:
            return None
        is_at_rest, self._seen = found == self._seen, found  # a running installer writes its record last
        if found is None or found == self._running or not is_at_rest:
            return now + timedelta(seconds=LOOK_EVERY_S)
        if self.is_idle():
            log.info("handing_over", message=f"Corral {found.version} was installed; nothing runs.")
            self.hand_over()
            return None
        if FAULT not in self.faults:
            what = (
                f"Corral {found.version} was installed, and this daemon is still the one before ({corral.__version__})."
            )
            self.faults[FAULT] = Need("outdated_daemon", what, REMEDY, iso(now))
        return now + timedelta(seconds=LOOK_EVERY_S)
