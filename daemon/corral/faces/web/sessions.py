"""Access to the web view: a link that opens once becomes a browser session, which ends by time and by number.

Of a secret only its digest is kept. Sessions stand in a file that only the owner can read, so that an open page goes on after a
restart of the daemon; links are kept in memory alone.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from datetime import datetime, timedelta
from pathlib import Path

from corral.config.ownership import write_private
from corral.core.instants import iso, parse

LINK_S = 60.0
"""Seconds in which a link can be opened, once."""
SESSION_S = 24 * 3600.0
"""Seconds that a browser session lasts, whatever is done in it."""
MOST_LINKS = 16
MOST_SESSIONS = 64


class BrowserSessions:
    """The links and the sessions of one daemon. Used in the event loop alone.

    Args:
        file: Where sessions and the port are kept; what cannot be read of it counts as empty.

    Attributes:
        port: The loopback port that the pages were last served on; 0: none yet.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._links: dict[str, datetime] = {}
        self._sessions: dict[str, datetime] = {}
        self.port = 0
        self._load()

    def new_link(self, now: datetime) -> str:
        """The secret of a new link; where there are too many, the oldest one is void."""
        secret = secrets.token_urlsafe(32)
        self._links[_digest(secret)] = now + timedelta(seconds=LINK_S)
        while len(self._links) > MOST_LINKS:
            del self._links[next(iter(self._links))]
        return secret

    def enter(self, link: str, now: datetime) -> str | None:
        """Begin a session with a link, which is void from now on.

        Returns:
            The session's secret; None: there is no such link, it was used, or its time is over.
        """
        expires_at = self._links.pop(_digest(link), None)
        if expires_at is None or expires_at <= now:
            return None
        secret = secrets.token_urlsafe(32)
        self._sessions[_digest(secret)] = now + timedelta(seconds=SESSION_S)
        self._drop_ended(now)
        while len(self._sessions) > MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self._store()
        return secret

    def is_open(self, secret: str, now: datetime) -> bool:
        """Whether a session with this secret lasts."""
        expires_at = self._sessions.get(_digest(secret))
        return expires_at is not None and expires_at > now

    def any_open(self, now: datetime) -> bool:
        """Whether any session lasts."""
        self._drop_ended(now)
        return bool(self._sessions)

    def end(self, secret: str) -> None:
        """End a session."""
        if self._sessions.pop(_digest(secret), None) is not None:
            self._store()

    def listens_on(self, port: int) -> None:
        """Keep the port, so that open pages find the next daemon."""
        if port != self.port:
            self.port = port
            self._store()

    def _drop_ended(self, now: datetime) -> None:
        self._sessions = {digest: until for digest, until in self._sessions.items() if until > now}

    def _load(self) -> None:
        try:
            stored = json.loads(self._file.read_text(encoding="utf-8"))
            self._sessions = {str(digest): parse(until) for digest, until in stored["sessions"].items()}
            self.port = int(stored["port"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self._sessions, self.port = {}, 0

    def _store(self) -> None:
        stored = {"port": self.port, "sessions": {digest: iso(until) for digest, until in self._sessions.items()}}
        write_private(self._file, json.dumps(stored) + "\n")


def form_token(secret: str) -> str:
    """The token that each form of a session carries: a page of another origin cannot know it."""
    return hmac.new(secret.encode(), b"corral form", hashlib.sha256).hexdigest()


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
