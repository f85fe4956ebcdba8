"""Restores files that ``git clean -fdx`` removes under a running daemon: the database, the socket, the token.

A person who cleans a checkout means the build output, not the waiting tasks. The watcher of the configuration sees every
deletion in ``.corral/``. No watch sees a move of a folder above, so there is a look every second, which costs some
microseconds: a daemon whose repository is gone from its place, or whose lock another one holds, ends and puts nothing back.
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
"""So long somebody else holds the lock before they count as the daemon: a starter holds it for a moment, to look around."""

log = logger("guard")


@dataclass
class SelfHeal:
    """Step: look whether what clients need is still there.

    Attributes:
        instance: The lock, which is taken again where somebody removed its file.
        db: Writes its file back with the next write.
        door: Says whether clients can find the daemon.
        reopen: Lets them in again.
        has_left: Whether the repository is not at its place any more.
        leave: Ends the daemon, without another write.
    """

    instance: Instance
    db: Database
    door: Listeners
    reopen: Callable[[], None]
    has_left: Callable[[], bool]
    leave: Callable[[Reason], None]
    _shut: bool = field(default=False, init=False)
    _lost_at: datetime | None = field(default=None, init=False)
    _unlocked_at: datetime | None = field(default=None, init=False)

    def step(self, now: datetime) -> datetime | None:
        """Look once. Put back in this order: the lock, the database (clients that connect again read it), the door."""
        if self.has_left():
            self.leave(Reason.MOVED)
            return None
        if self.instance.is_kept and not self.db.lost and self.door.is_open:
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
        if self.door.is_open or self._opened_again():
            self._lost_at = None

    def _opened_again(self) -> bool:
        """Let clients in; False where that cannot be (at a logout the system takes the runtime folder), which is told once."""
        try:
            self.reopen()
        except (OSError, CorralError) as error:
            if not self._shut:
                log.warning("door_stays_shut", path=str(self.door.path), reason=str(error))
            self._shut = True
            return False
        self._shut = False
        log.warning("door_opened_again", path=str(self.door.path))
        return True
