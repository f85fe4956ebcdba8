"""What a user's ``git clean -fdx`` takes away under a running daemon is put back: the database, the socket, the token.

Whoever cleans a checkout means his build output, not the tasks that wait. The watcher of the configuration sees every
deletion in ``.corral/``; only where nothing can be watched is there a look now and then.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from corral.errors import CorralError
from corral.observe.logs import logger
from corral.server.door import Door
from corral.store.engine import Database

LOOK_EVERY_S = 3.0

log = logger("guard")


class Guard:
    """Step: look whether what clients need is still there.

    Args:
        db: Writes its file back with the next write.
        door: Says whether clients can find the daemon.
        reopen: Lets them in again.
        is_watched: Whether a deletion leads to a step by itself.
    """

    def __init__(self, db: Database, door: Door, reopen: Callable[[], None], is_watched: Callable[[], bool]) -> None:
        self._db = db
        self._door = door
        self._reopen = reopen
        self._is_watched = is_watched
        self._shut = False

    def step(self, now: datetime) -> datetime | None:
        """Look once, the database first: whoever is let in again reads it."""
        if self._db.lost:
            self._db.write(lambda _conn: None)
            log.warning("database_written_back", path=str(self._db.path))
        if not self._door.is_open and not self._opened_again():
            return now + timedelta(seconds=LOOK_EVERY_S)
        return None if self._is_watched() else now + timedelta(seconds=LOOK_EVERY_S)

    def _opened_again(self) -> bool:
        """Let clients in; False where that cannot be (at a logout the system takes the runtime folder), which is told once."""
        try:
            self._reopen()
        except (OSError, CorralError) as error:
            if not self._shut:
                log.warning("door_stays_shut", path=str(self._door.path), reason=str(error))
            self._shut = True
            return False
        self._shut = False
        log.warning("door_opened_again", path=str(self._door.path))
        return True
