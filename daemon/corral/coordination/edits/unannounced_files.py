"""Sessions and files of the time in which no daemon ran. Every method is a dictionary operation; thread-safe."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from corral.coordination.edits.unannounced import Claim
from corral.coordination.edits.verdicts import Target
from corral.git.checkouts.status import Signature

Files = Mapping[str, tuple[str, Signature]]
"""match_key to the path of a file, and how it was when it was looked at."""
MOST_LOOKS = 5
"""Looks at a session's changes after its first sign."""


class Unannounced:
    """The sessions that could not ask for a while, and the files that somebody changed meanwhile.

    Args:
        silent_since: By session, its last sign before the daemon started.
        away_since: When the daemon before this one was last at work; None if that is not known.
        back_at: When this daemon started.

    Attributes:
        first_look: Set when the look at the start is over.
        is_shown: Whether :meth:`show` was called.
    """

    def __init__(self, silent_since: Mapping[str, datetime], away_since: datetime | None, back_at: datetime) -> None:
        self.silent_since = dict(silent_since)
        self.away_since = away_since
        self.back_at = back_at
        self.first_look = threading.Event()
        self.is_shown = False
        self._lock = threading.Lock()
        self._heard: dict[str, datetime] = {}
        self._looks_left = dict.fromkeys(silent_since, MOST_LOOKS)
        self._again: set[str] = set()
        self._due = bool(silent_since)
        if not silent_since:
            self.first_look.set()
        self._seen: set[tuple[str, Target]] = set()
        self._files: dict[str, dict[str, tuple[str, Signature]]] = {}

    # -- sessions

    def note_session(self, session_id: str, at: datetime) -> bool:
        """Note a sign of a session; returns whether its earlier changes are still to be examined."""
        if session_id not in self._looks_left:
            return False
        with self._lock:
            self._heard.setdefault(session_id, at)
            self._due = session_id in self._looks_left
            return self._due

    def heard_at(self, session_id: str) -> datetime | None:
        """When a session first gave a sign again."""
        with self._lock:
            return self._heard.get(session_id)

    def take_due(self) -> frozenset[str] | None:
        """The sessions that were heard, if there is something to examine; a session that is heard from now on is due again."""
        with self._lock:
            due, self._due = self._due, False
            return frozenset(self._heard.keys() & self._looks_left.keys()) if due else None

    def put_back(self) -> None:
        """A look failed: it is due again."""
        with self._lock:
            self._due = True

    def look_again(self, session_id: str) -> None:
        """A change of a session is not over: look again with its next event."""
        with self._lock:
            self._again.add(session_id)

    def looked_at(self, heard: Iterable[str]) -> None:
        """The changes of these sessions before they were heard have been examined."""
        with self._lock:
            for session_id in heard:
                self._looks_left[session_id] -= 1
                if session_id not in self._again or not self._looks_left[session_id]:
                    del self._looks_left[session_id]
            self._again.clear()

    # -- files

    def is_news(self, claim: Claim) -> bool:
        """Whether a claim was not settled before."""
        with self._lock:
            return (claim.session_id, claim.target) not in self._seen

    def settled(self, claims: Iterable[Claim]) -> None:
        """Note that these claims are settled; their files have an author."""
        with self._lock:
            for claim in claims:
                self._seen.add((claim.session_id, claim.target))
                self._files.get(claim.target.checkout, {}).pop(claim.target.key.match_key, None)

    def show(self, files: Mapping[str, Files]) -> None:
        """Set the files without an author, by checkout; once."""
        with self._lock:
            self._files = {top: dict(by_key) for top, by_key in files.items()}
            self.is_shown = True

    def keep_only(self, checkout: str, match_keys: Collection[str]) -> None:
        """Forget the other files of a checkout."""
        with self._lock:
            files = {key: file for key, file in self._files.pop(checkout, {}).items() if key in match_keys}
            if files:
                self._files[checkout] = files

    def files(self) -> dict[str, dict[str, tuple[str, Signature]]]:
        """By checkout, the files that still have no author."""
        with self._lock:
            return {top: dict(files) for top, files in self._files.items()}

    def path_of(self, target: Target) -> str | None:
        """The path of a file without an author; None if it has one."""
        with self._lock:
            file = self._files.get(target.checkout, {}).get(target.key.match_key)
            return file[0] if file is not None else None
