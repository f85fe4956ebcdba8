"""Restores files that ``git clean -fdx`` removes under a running daemon: the database, the socket, the token.

A person who cleans a checkout means the build output, not the waiting tasks. The watcher of the configuration sees every
deletion in ``.corral/``. No watch sees a move of a parent folder, so a check runs every second, which takes microseconds: a
daemon whose repository is gone from its path, or whose lock another daemon holds, ends and restores nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from corral.core.errors import CorralError
from corral.core.logs import logger
from corral.daemon.instance import Instance
from corral.daemon.leaving import Reason
from corral.daemon.listeners import Listeners
from corral.store.engine.database import Database

LOOK_EVERY_S = 1.0

SETTLE_S = 0.5
"""Delay between noticing a loss and restoring it: the whole repository may be being deleted."""

DISPLACED_AFTER_S = 3.0
"""Seconds after which another holder of the lock counts as the daemon: a starter holds it only for a moment."""

log = logger("guard")


@dataclass
class SelfHeal:
    """Step: check whether the files that clients need still exist, and restore them.

    Attributes:
        instance: The lock, which is taken again if somebody removed its file.
        db: Writes its file back with the next write.
        listeners: Whether clients can find the daemon.
        reopen: Makes the daemon reachable again.
        has_left: Whether the repository is gone from its path.
        leave: Ends the daemon, without another write.
    """

    instance: Instance
    db: Database
    listeners: Listeners
    reopen: Callable[[], None]
    has_left: Callable[[], bool]
    leave: Callable[[Reason], None]
    _shut: bool = field(default=False, init=False)
    _lost_at: datetime | None = field(default=None, init=False)
    _unlocked_at: datetime | None = field(default=None, init=False)

    def step(self, now: datetime) -> datetime | None:
        """Check once. Restore in this order: the lock, the database (clients that connect again read it), the listeners."""
        if self.has_left():
            self.leave(Reason.MOVED)
            return None
        if self.instance.is_kept and not self.db.lost and self.listeners.is_open:
            self._lost_at = self._unlocked_at = None
            return now + timedelta(seconds=LOOK_EVERY_S)
        self._lost_at = self._lost_at or now
        if now < self._lost_at + timedelta(seconds=SETTLE_S):
            return self._lost_at + timedelta(seconds=SETTLE_S)
        if self.instance.keep():
            self._unlocked_at = None
            self._put_back()
        else:
            self._unlocked_at = self._unlocked_at or now
            if now - self._unlocked_at >= timedelta(seconds=DISPLACED_AFTER_S):
                self.leave(Reason.DISPLACED)
                return None
        return now + timedelta(seconds=LOOK_EVERY_S)

    def _put_back(self) -> None:
        if self.db.lost:
            self.db.write(lambda _conn: None)
            log.warning("database_written_back", path=str(self.db.path))
        if self.listeners.is_open or self._reopen():
            self._lost_at = None

    def _reopen(self) -> bool:
        """Make the daemon reachable; False if that fails (at a logout the system removes the runtime folder), logged once."""
        try:
            self.reopen()
        except (OSError, CorralError) as error:
            if not self._shut:
                log.warning("door_stays_shut", path=str(self.listeners.path), reason=str(error))
            self._shut = True
            return False
        self._shut = False
        log.warning("door_opened_again", path=str(self.listeners.path))
        return True
