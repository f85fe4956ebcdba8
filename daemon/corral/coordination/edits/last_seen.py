"""What each session last saw of a file, so that it does not write over what another one changed since, or what it never saw.

Memory only, and evidence only: a file that this daemon saw nobody read, or saw no other session's edit tool change, is no
reason to stop anybody.
"""

from __future__ import annotations

import difflib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from corral.core.visible import visible

LARGEST = 256 * 1024
"""Bytes of a file whose content is remembered."""
MOST_BYTES = 32 * 1024 * 1024
"""Of all contents together; the ones seen longest ago are forgotten first."""
MOST_SHOWN = 4000
"""Characters of a difference that a model is shown."""


class Unseen(NamedTuple):
    """What a session does not know of a file: whether it ever saw the file, and the difference to what it saw, or to git."""

    was_seen: bool
    difference: str


class LastSeen:
    """Thread-safe. Reads files, so it is called off the event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._told: dict[tuple[str, str], bytes] = {}
        self._bytes = 0

    def saw(self, session_id: str, path: Path) -> None:
        """A session read or wrote a file: it knows what stands there now."""
        content = _content(path)
        with self._lock:
            self._told.pop((session_id, str(path)), None)
            self._bytes -= len(self._seen.pop((session_id, str(path)), b""))
            if content is None:
                return
            self._seen[(session_id, str(path))] = content
            self._bytes += len(content)
            while self._bytes > MOST_BYTES:
                self._bytes -= len(self._seen.popitem(last=False)[1])

    def unseen_changes(
        self, sessions: Iterable[str], path: Path, committed: Callable[[], bytes] | None
    ) -> Unseen | None:
        """What stands in a file that these sessions do not know; None: nothing, or that is not known.

        Each state of a file is given once: a session that was told of it knows it.

        Args:
            committed: What git has of the file: of one that they never saw, the rest would be lost for good. None: what they read
                is not told, so that nobody knows what they saw.
        """
        content, keys = _content(path), [(session, str(path)) for session in sessions]
        if content is None:
            return None
        with self._lock:
            seen = [self._seen[key] for key in keys if key in self._seen]
            was_shown = any(self._told.get(key) == content for key in keys)
        known = seen or ([] if was_shown or committed is None else [committed()])
        if was_shown or not known or content in known:
            return None
        with self._lock:
            self._told[keys[0]] = content
        before = "as you saw it" if seen else "as committed"
        return Unseen(bool(seen), _difference(known[-1], content, path.name, before))

    def forget(self, session_id: str) -> None:
        """A session ended."""
        with self._lock:
            for key in [key for key in self._seen if key[0] == session_id]:
                self._bytes -= len(self._seen.pop(key))
            for key in [key for key in self._told if key[0] == session_id]:
                del self._told[key]


def _content(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError:
        return None
    return content if len(content) <= LARGEST else None


def _difference(before: bytes, after: bytes, name: str, which: str) -> str:
    old, new = (text.decode("utf-8", "replace").splitlines() for text in (before, after))
    lines = difflib.unified_diff(old, new, f"{name} {which}", f"{name} now", lineterm="")
    text = "\n".join(visible(line) for line in lines)
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…"
