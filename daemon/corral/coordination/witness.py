"""What the daemon has seen of its sessions since it started: bridges, tool calls, and what checkouts looked like.

Memory only. Everything here may be lost at any time: a restarted daemon knows less for one event and harms nobody.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime

from corral.git.status import Seen

JUMP_S = 63.0
"""Seconds between two looks that are more than a busy machine's delay."""
REMEMBERED = 4096
"""Tool calls, snapshots and edits that are remembered; the oldest are forgotten first."""


@dataclass
class ShellCall:
    """A shell command that runs: when it began, and how each checkout it might touch looked then."""

    began: datetime
    before: dict[str, Seen] = field(default_factory=dict)


class Witness:
    """Thread-safe; every method is a dictionary operation."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bridges: dict[str, str] = {}
        self._open: dict[str, int] = {}
        self._announced: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._actors: OrderedDict[str, str] = OrderedDict()
        self._known: set[str] = set()
        self._shell: OrderedDict[tuple[str, str], ShellCall] = OrderedDict()
        self._edits: OrderedDict[tuple[str, str], tuple[str, datetime]] = OrderedDict()
        self._looked_at: datetime | None = None
        self._woke_at: datetime | None = None

    # -- the machine

    def looks(self, now: datetime) -> float:
        """Somebody looks whether sessions live; the seconds that the clock jumped since the last look, 0 where it did not.

        A jump is a machine that slept, or a clock that was set: silence before it does not count.
        """
        with self._lock:
            passed_s = (now - self._looked_at).total_seconds() if self._looked_at is not None else 0.0
            self._looked_at = now
            if abs(passed_s) <= JUMP_S:
                return 0.0
            self._woke_at = now
            return passed_s

    def rests(self) -> None:
        """Nobody looks any more until somebody lives: the time until then is no jump."""
        with self._lock:
            self._looked_at = None

    def awake_since(self, started_at: datetime) -> datetime:
        """When the machine last woke up, or the daemon began to listen."""
        with self._lock:
            return self._woke_at or started_at

    # -- bridges

    def bridge_opened(self, bridge: str, session_id: str) -> None:
        """A bridge connected; ``session_id`` is only its first guess (stale after /clear, wrong after --continue)."""
        with self._lock:
            self._open[bridge] = self._open.get(bridge, 0) + 1
            self._bridges.setdefault(bridge, session_id)

    def bridge_closed(self, bridge: str) -> str | None:
        """A bridge's last connection closed; returns the session it served, if it is now without one."""
        with self._lock:
            self._open[bridge] = self._open.get(bridge, 1) - 1
            if self._open[bridge] > 0:
                return None
            del self._open[bridge]
            return self._bridges.pop(bridge, None)

    def serves(self, bridge: str, session_id: str) -> None:
        """A hook event of this session came through this bridge: from now on the bridge is the session's."""
        with self._lock:
            self._bridges[bridge] = session_id

    def served_by(self, bridge: str) -> str | None:
        """The session whose hooks came through this bridge last; None if none did."""
        with self._lock:
            return self._bridges.get(bridge) or None

    def connected(self) -> frozenset[str]:
        """Sessions whose bridge is connected."""
        with self._lock:
            return frozenset(self._bridges[bridge] for bridge in self._open if bridge in self._bridges)

    # -- tool calls

    def announced(self, session_id: str, use_id: str) -> None:
        """A tool call was asked about before it ran."""
        with self._lock:
            self._known.add(session_id)
            if not use_id:  # nobody can be known by that
                return
            self._announced[(session_id, use_id)] = None
            self._actors[use_id] = session_id
            for seen in (self._announced, self._actors):
                while len(seen) > REMEMBERED:
                    seen.popitem(last=False)

    def actor_of(self, use_id: str) -> str | None:
        """The session or subagent whose tool call this is, if it was announced."""
        with self._lock:
            return self._actors.get(use_id)

    def came_unannounced(self, session_id: str, use_id: str) -> bool:
        """Whether a tool call ran without having been asked about, although the session's calls usually are."""
        with self._lock:
            unknown = (session_id, use_id) not in self._announced
            first = session_id not in self._known
            self._known.add(session_id)
            return unknown and not first and bool(use_id)

    # -- checkouts

    def shell_began(self, session_id: str, use_id: str, call: ShellCall) -> None:
        """Remember how the checkouts looked when a command began."""
        with self._lock:
            self._shell[(session_id, use_id)] = call
            while len(self._shell) > REMEMBERED // 16:
                self._shell.popitem(last=False)

    def shell_ended(self, session_id: str, use_id: str) -> ShellCall | None:
        """What was remembered of a command; once."""
        with self._lock:
            return self._shell.pop((session_id, use_id), None)

    def edited(self, checkout: str, match_key: str, session_id: str, at: datetime) -> None:
        """An edit tool of a session wrote a file."""
        with self._lock:
            self._edits[(checkout, match_key)] = (session_id, at)
            self._edits.move_to_end((checkout, match_key))
            while len(self._edits) > REMEMBERED:
                self._edits.popitem(last=False)

    def edited_since(self, checkout: str, began: datetime) -> dict[str, str]:
        """match_key to session of the files that edit tools wrote in a checkout since an instant."""
        with self._lock:
            return {
                key: session for (where, key), (session, at) in self._edits.items() if where == checkout and at >= began
            }
