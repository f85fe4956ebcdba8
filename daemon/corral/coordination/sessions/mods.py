"""The modules of the plugin that run inside clients: which sessions they guard, and which events they have asked about.

A mod asks before the hooks of the same call do. What it was told to let pass is settled: the hook that comes with the same
call is answered with nothing. So nobody has to know whether a mod still lives: without its question, the hook's is answered.

Memory only; used in the event loop alone. A restarted daemon knows the mods again with their next question.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

SINCE = (2, 1, 287)
"""The first version of the client that loads mods without being asked to."""
REMEMBERED = 4096
OFFERED_FOR = timedelta(minutes=10)
"""How long mail that a mod took may take to reach its model: as long as a tool runs. After that the hooks bring it."""
MISSES = 3
"""Calls that a mod which was there before may leave to the hooks (a reload, a slow daemon) before it counts as silent."""


@dataclass
class _Mod:
    has_spoken: bool = False
    misses: int = 0


class Mods:
    """What the mods of all sessions were heard to do."""

    def __init__(self) -> None:
        self._mods: dict[str, _Mod] = {}
        self._settled: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._offers: dict[str, datetime] = {}
        self._listeners: dict[str, tuple[int, Callable[[str], None]]] = {}

    def spoke(self, session_id: str) -> None:
        """The mod of a session asked, or told that it is there."""
        self._mods[session_id] = _Mod(has_spoken=True)

    def missed(self, session_id: str, version: str) -> None:
        """A hook asked about a call that the session's mod said nothing about; clients that know no mods do not count."""
        if knows_mods(version):
            self._mods.setdefault(session_id, _Mod()).misses += 1

    def is_there(self, session_id: str) -> bool:
        """Whether the session's mod has spoken, and not left its calls to the hooks since."""
        mod = self._mods.get(session_id)
        return mod is not None and mod.has_spoken and mod.misses < MISSES

    def is_silent(self, session_id: str) -> bool:
        """Whether hooks of a session were heard whose client should have run the mod, and it is not there."""
        mod = self._mods.get(session_id)
        return mod is not None and mod.misses > 0 and not (mod.has_spoken and mod.misses < MISSES)

    def ended(self, session_id: str) -> None:
        """Forget a session."""
        self._mods.pop(session_id, None)
        self._offers.pop(session_id, None)

    def offered(self, session_id: str, now: datetime) -> None:
        """A mod took mail that its model has not been told yet."""
        self._offers[session_id] = now + OFFERED_FOR

    def offer_ended(self, session_id: str) -> None:
        """The model was told, or never will be."""
        self._offers.pop(session_id, None)

    def brings_mail(self, session_id: str, now: datetime) -> bool:
        """Whether a mod is bringing mail to a session: nobody else then does."""
        until = self._offers.get(session_id)
        return until is not None and now < until

    def settle(self, events: Iterable[str], call: str, client: int) -> None:
        """A mod was told to let a call pass: tell the client's bridges, which then ask no more about it.

        Args:
            events: Those of the call that need no hook any more: the one that the mod asked about, and those that it will tell.
            call: As :func:`corral.client.last_look.call_of` names it: the session, the call, and what it writes.
        """
        for event in events:
            self._settled[(event, call)] = None
            for owner, tell in self._listeners.values():
                if owner == client:
                    tell(f"settled {event} {call}")
        while len(self._settled) > REMEMBERED:
            self._settled.popitem(last=False)

    def is_settled(self, event: str, call: str) -> bool:
        """Whether a mod was told to let this call pass."""
        return (event, call) in self._settled

    def listen(self, bridge: str, client: int, tell: Callable[[str], None]) -> None:
        """A client's bridge listens for what its mod settles."""
        self._listeners[bridge] = (client, tell)

    def unlisten(self, bridge: str, tell: Callable[[str], None]) -> None:
        """A bridge's connection ended; a newer one of the same bridge stays."""
        if self._listeners.get(bridge, (0, None))[1] is tell:
            del self._listeners[bridge]


def knows_mods(version: str) -> bool:
    """Whether a client of this version runs mods; an unknown version is no reason for an alarm."""
    parts = version.split(".")
    return len(parts) >= 3 and all(part.isdecimal() for part in parts[:3]) and tuple(map(int, parts[:3])) >= SINCE
