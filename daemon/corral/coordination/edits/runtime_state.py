"""Observations of the sessions since the daemon started: bridges, tool calls, and the state of checkouts.

Memory only, but for who wrote what is held. Everything else may be lost at any time: a restarted daemon knows less for one
event and harms nobody.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from corral.coordination.edits.attribution import ShellCall
from corral.core.instants import parse
from corral.git.checkouts.salvage import Kept
from corral.git.checkouts.status import Signature
from corral.store.rows.sessions import HeldLock

JUMP_S = 63.0
"""Seconds between two looks that are more than a busy machine's delay."""
REMEMBERED = 4096
"""Tool calls, snapshots and edits that are remembered; the oldest are forgotten first."""
MOST_EDITORS = 8
"""Sessions that are remembered of those that wrote a file."""

Key = TypeVar("Key")
Value = TypeVar("Value")
OF_SKILL = ":preamble-"
"""In the ids that the client gives to the shell commands in a skill's text, whoever called it."""


@dataclass(frozen=True)
class HeldCopies:
    """The last copies of what sessions hold in a checkout.

    Attributes:
        at: When they were made.
        signatures: The copied files as they looked then; those that an event told of since are missing.
    """

    copies: Kept
    at: datetime
    signatures: dict[str, Signature]


class RuntimeState:
    """Thread-safe; every method is a dictionary operation.

    Args:
        locks: Those that are held as the daemon starts: what a session holds by its edits it wrote.

    Attributes:
        on_several: Called when a session wrote a file that another one wrote before.
    """

    def __init__(self, locks: Iterable[HeldLock] = ()) -> None:
        self._lock = threading.Lock()
        self._bridges: dict[str, str] = {}
        self._open: dict[str, int] = {}
        self._client_of: dict[str, int] = {}
        self._awaited: dict[str, tuple[int, datetime]] = {}
        self._announced: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._actors: OrderedDict[str, str] = OrderedDict()
        self._known: set[str] = set()
        self._shell: OrderedDict[tuple[str, str], ShellCall] = OrderedDict()
        self._shell_ended: list[ShellCall] = []
        self._needed: OrderedDict[str, None] = OrderedDict()
        self._kept: dict[str, HeldCopies] = {}
        self._editors: OrderedDict[tuple[str, str], tuple[str, ...]] = OrderedDict()
        self._edited_by_several: dict[str, set[str]] = {}
        self.on_several: Callable[[], None] = lambda: None
        self._edits: OrderedDict[tuple[str, str], tuple[str, datetime]] = OrderedDict()
        self._attempts: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._looked_at: datetime | None = None
        self._woke_at: datetime | None = None
        for lock in locks:
            if lock["automatic"]:
                self.edited(lock["checkout"], lock["match_key"], lock["session_id"], parse(lock["acquired_at"]))

    # -- the machine

    def looks(self, now: datetime, jump_s: float = JUMP_S) -> float:
        """Note a look at the sessions' processes; returns the seconds that the clock jumped since the last look, else 0.

        A jump is a machine that slept, or a clock that was set: silence before it does not count.

        Args:
            jump_s: The length of a jump, where :data:`JUMP_S` is so long that sessions would stall over less.
        """
        with self._lock:
            passed_s = (now - self._looked_at).total_seconds() if self._looked_at is not None else 0.0
            self._looked_at = now
            if abs(passed_s) <= min(JUMP_S, jump_s):
                return 0.0
            self._woke_at = now
            return passed_s

    def rests(self) -> None:
        """Note that the looks pause until a session lives: the time until then is no jump."""
        with self._lock:
            self._looked_at = None

    def awake_since(self, started_at: datetime) -> datetime:
        """When the machine last woke up, or the daemon began to listen."""
        with self._lock:
            return self._woke_at or started_at

    # -- bridges

    def bridge_opened(self, bridge: str, session_id: str, client: int = 0) -> None:
        """A bridge connected; ``session_id`` is only its first guess (stale after /clear, wrong after --continue).

        Args:
            client: The process that started the bridge.
        """
        with self._lock:
            self._open[bridge] = self._open.get(bridge, 0) + 1
            self._bridges.setdefault(bridge, session_id)
            self._client_of[bridge] = client
            self._awaited = {other: entry for other, entry in self._awaited.items() if entry[0] != client}

    def bridge_closed(self, bridge: str) -> str | None:
        """A bridge's last connection closed; returns the session it served, if it is now without one."""
        with self._lock:
            self._open[bridge] = self._open.get(bridge, 1) - 1
            if self._open[bridge] > 0:
                return None
            del self._open[bridge]
            self._client_of.pop(bridge, None)
            return self._bridges.pop(bridge, None)

    def await_bridge(self, session_id: str, client: int, until: datetime) -> None:
        """A session's bridge is expected to connect by an instant, unless one of the client, or of the session, is connected."""
        with self._lock:
            if client not in self._client_of.values() and session_id not in self._bridges.values():
                self._awaited[session_id] = (client, until)

    def next_missing(self) -> datetime | None:
        """When the next expected bridge counts as missing; None if none is expected."""
        with self._lock:
            return min((until for _client, until in self._awaited.values()), default=None)

    def take_missing(self, now: datetime) -> list[str]:
        """The sessions whose bridge did not connect in time; each once."""
        with self._lock:
            missing = [session_id for session_id, (_client, until) in self._awaited.items() if until <= now]
            for session_id in missing:
                del self._awaited[session_id]
            return missing

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

    def clients_of(self, session_id: str) -> list[int]:
        """The clients that have a session open, by the bridges that serve it: more than one after a ``--resume`` elsewhere."""
        with self._lock:
            return [pid for bridge, pid in self._client_of.items() if pid and self._bridges.get(bridge) == session_id]

    # -- tool calls

    def announced(self, session_id: str, use_id: str) -> None:
        """A hook asked about a tool call before it ran, so the session is guarded."""
        with self._lock:
            self._known.add(session_id)
            self._awaited.pop(session_id, None)
            if not use_id:  # an empty id identifies nothing
                return
            self._announced[(session_id, use_id)] = None
            self._actors[use_id] = session_id
            for memory in (self._announced, self._actors):
                while len(memory) > REMEMBERED:
                    memory.popitem(last=False)

    def actor_of(self, use_id: str) -> str | None:
        """The session or subagent whose tool call this is, if it was announced."""
        with self._lock:
            return self._actors.get(use_id)

    def came_unannounced(self, session_id: str, use_id: str) -> bool:
        """Whether a tool call ran although no hook asked about it, in a session whose hooks usually ask."""
        with self._lock:
            unknown = (session_id, use_id) not in self._announced
            first = session_id not in self._known
            self._known.add(session_id)
            return unknown and not first and bool(use_id)

    # -- checkouts

    def shell_began(self, use_id: str, call: ShellCall) -> None:
        """Remember a command that is about to run, and how the checkouts look."""
        with self._lock:
            self._shell[(call.actor, use_id)] = call
            while len(self._shell) > REMEMBERED // 16:
                self._shell.popitem(last=False)

    def shell_ended(self, session_id: str, use_id: str, at: datetime) -> ShellCall | None:
        """The record of a command that has ended; once."""
        with self._lock:
            call = self._shell.pop((session_id, use_id), None)
            if call is not None:
                call.ended = at
                self._shell_ended.append(call)
                self._forget_ended()
            return call

    def commands_without_end(self, session_id: str, over: Collection[str] = ()) -> list[str]:
        """The ids of a session's commands whose end no event tells: those in the text of a skill, and of these the ones that run.

        Args:
            over: Calls that have ended.
        """
        with self._lock:
            mine = [use_id for actor, use_id in self._shell if actor == session_id]
            return [use_id for use_id in mine if OF_SKILL in use_id or use_id in over]

    def turn_ended(self, session_id: str) -> None:
        """The session's turn has ended: forget the commands and edits whose end no hook reported."""
        with self._lock:
            for call in [call for call in self._shell if call[0] == session_id]:
                del self._shell[call]
            for key in [key for key, owner in self._attempts.items() if owner == session_id]:
                del self._attempts[key]

    def shell_calls(self) -> list[ShellCall]:
        """Commands that run, and those that ended while one of these ran."""
        with self._lock:
            return [*self._shell.values(), *self._shell_ended]

    def _forget_ended(self) -> None:
        """Forget the ended commands that overlap none of those whose changes are not attributed yet."""
        looked = [call for call in self._shell_ended if call.after]
        waiting = [*self._shell.values(), *(call for call in self._shell_ended if not call.after)]
        oldest = min((look.started for call in waiting for look in call.before.values()), default=None)
        over = {id(call) for call in looked if oldest is None or (call.ended and call.ended < oldest)}
        self._shell_ended = [call for call in self._shell_ended if id(call) not in over][-REMEMBERED // 16 :]

    def keep(self, checkout: str, held: HeldCopies) -> None:
        """Remember which copies of files in a checkout were made last, and of which state."""
        with self._lock:
            self._kept[checkout] = held

    def kept(self) -> dict[str, HeldCopies]:
        """The last copies of each checkout."""
        with self._lock:
            return dict(self._kept)

    def told_of(self, checkout: str, paths: Collection[str]) -> None:
        """Somebody was told that these files changed: their copies are no longer compared with them."""
        with self._lock:
            if (held := self._kept.get(checkout)) is not None:
                left = {path: how for path, how in held.signatures.items() if path not in paths}
                self._kept[checkout] = replace(held, signatures=left)

    def still(self, checkout: str, copies: Kept, signatures: dict[str, Signature]) -> None:
        """These files look otherwise, and hold what was copied."""
        with self._lock:
            if (held := self._kept.get(checkout)) is not None and held.copies == copies:
                self._kept[checkout] = replace(held, signatures={**held.signatures, **signatures})

    def need(self, ref: str) -> None:
        """Mark the copies on this ref as needed: a command changed the files that they hold."""
        with self._lock:
            self._needed[ref] = None
            while len(self._needed) > REMEMBERED:
                self._needed.popitem(last=False)

    def is_needed(self, ref: str) -> bool:
        """Whether :meth:`need` was called for it."""
        with self._lock:
            return ref in self._needed

    def edits(self, checkout: str, match_key: str, session_id: str) -> None:
        """An edit tool of a session is about to write a file."""
        with self._lock:
            _remember(self._attempts, (checkout, match_key), session_id)

    def edited(self, checkout: str, match_key: str, session_id: str, at: datetime | None) -> None:
        """A session wrote a file, with an edit tool or certainly by its command; ``at`` is None if it failed to."""
        with self._lock:
            if self._attempts.get((checkout, match_key)) == session_id:
                del self._attempts[(checkout, match_key)]
            if at is not None:
                _remember(self._edits, (checkout, match_key), (session_id, at))
                others = [editor for editor in self._editors.get((checkout, match_key), ()) if editor != session_id]
                _remember(self._editors, (checkout, match_key), (*others[-MOST_EDITORS:], session_id))
                if others:
                    self._edited_by_several.setdefault(checkout, set()).add(match_key)
        if at is not None and others:
            self.on_several()

    def take_edited_by_several(self) -> dict[str, list[tuple[str, ...]]]:
        """For each checkout, the sessions that wrote each file that was written since the last call, the last one last."""
        with self._lock:
            taken, self._edited_by_several = self._edited_by_several, {}
            return {top: [self._editors.get((top, key), ()) for key in keys] for top, keys in taken.items()}

    def last_editor(self, checkout: str, match_key: str, asking: str) -> str | None:
        """The session that wrote a file last, as far as this daemon saw; or another than the asking one that was about to write
        it, and whose client died before it could tell the end."""
        with self._lock:
            attempt, edit = self._attempts.get((checkout, match_key), asking), self._edits.get((checkout, match_key))
            return attempt if attempt != asking else edit[0] if edit is not None else None

    def edited_since(self, checkout: str, began: datetime) -> dict[str, str]:
        """match_key to session of the files that edit tools wrote in a checkout since an instant, or are about to."""
        with self._lock:
            wrote = {
                key: session for (where, key), (session, at) in self._edits.items() if where == checkout and at >= began
            }
            return {**wrote, **{key: session for (where, key), session in self._attempts.items() if where == checkout}}


def _remember(memory: OrderedDict[Key, Value], key: Key, value: Value) -> None:
    memory[key] = value
    memory.move_to_end(key)
    while len(memory) > REMEMBERED:
        memory.popitem(last=False)
