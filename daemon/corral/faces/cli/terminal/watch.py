"""``corral status --watch``: the status, printed again when the daemon tells of a change.

Nothing is polled: the daemon's event stream says when to look, and every 15 s that it is still there.
"""

from __future__ import annotations

import io
import shutil
import sys
import time
from collections.abc import Iterator
from typing import Any

from corral.client.connection import Client
from corral.client.events import EventStream
from corral.core.errors import DaemonUnreachable
from corral.faces.cli.terminal.bell import RING, Bell
from corral.faces.cli.terminal.context import client, guarded_project
from corral.faces.cli.terminal.output import Interrupted, fail, for_programs, printed
from corral.faces.cli.terminal.status_summary import show

TOGETHER_S = 0.1
"""Events that come within this time are shown together."""
AGAIN_S = 0.5
"""Between two tries to reach a daemon that is gone."""
_MOMENT = ("composed_at", "age_s")
"""Fields that change although nothing happens."""
_ENTER, _LEAVE = "\033[?1049h\033[?25l\033[?7l", "\033[?7h\033[?25h\033[?1049l"
"""The terminal's second screen without a cursor and without wrapped lines, and back."""


def watch_status() -> None:
    """Show the status until Ctrl-C; on a terminal in its place, else one after the other."""
    in_place = sys.stdout.isatty() and not for_programs()
    bell = Bell()
    if in_place:
        Client.waiting = None  # progress would be drawn over the status
        _write(_ENTER)
    try:
        for answer in views():
            if in_place and not isinstance(answer, DaemonUnreachable) and bell.rings(answer):
                _write(RING)
            if for_programs() and isinstance(answer, DaemonUnreachable):
                fail(answer, as_json=True)
            elif printed(answer, indent=None):
                sys.stdout.flush()
            elif in_place:
                _draw(answer)
            elif isinstance(answer, DaemonUnreachable):
                print(_away_text(answer), file=sys.stderr, flush=True)
            else:
                show(answer)
                print(flush=True)
    except (Interrupted, KeyboardInterrupt):
        pass
    finally:
        if in_place:
            _write(_LEAVE)


def views() -> Iterator[Any]:
    """Yield the view now and after each visible change, and a :class:`DaemonUnreachable` whenever the daemon is lost.

    Raises:
        CorralError: The first view cannot be had.
    """
    speaker, shown = client(), None
    answer = speaker.request("GET", "/status")
    speaker.close()
    speaker, stream = Client(guarded_project(), autostart=False), EventStream(guarded_project(), answer["seq"])
    try:
        while True:
            if (now := (_without_moments(answer), shutil.get_terminal_size())) != shown:
                shown = now
                yield answer
            try:
                if not stream.is_open:
                    stream.open()
                _wait(stream)
                answer = speaker.request("GET", "/status")
            except (OSError, DaemonUnreachable) as error:
                stream.close()
                shown = None
                yield error if isinstance(error, DaemonUnreachable) else DaemonUnreachable("The daemon is away.")
                answer = _view_when_back(speaker)
                stream.seq = answer["seq"]
    finally:
        stream.close()
        speaker.close()


def _wait(stream: EventStream) -> None:
    """Wait for an event, and take those that follow within :data:`TOGETHER_S`."""
    stream.read()
    until = time.monotonic() + TOGETHER_S
    while (left := until - time.monotonic()) > 0 and stream.read(left) is not None:
        pass


def _view_when_back(speaker: Client) -> Any:
    while True:
        time.sleep(AGAIN_S)
        try:
            return speaker.request("GET", "/status")
        except (OSError, DaemonUnreachable):
            speaker.close()


def _without_moments(value: Any) -> Any:
    """A view without the fields that tell the time, and without the memory and disk that others use."""
    if isinstance(value, dict):
        return {
            key: _without_moments(inner)
            for key, inner in value.items()
            if key not in _MOMENT and not key.startswith("free_")
        }
    return [_without_moments(item) for item in value] if isinstance(value, list) else value


class _Screen(io.StringIO):
    """A text with the colours of the terminal that it is for."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return True


def _draw(answer: Any) -> None:
    """Replace what the screen shows; lines that do not fit are counted."""
    terminal, page = sys.stdout, _Screen(sys.stdout.encoding)
    sys.stdout = page
    try:
        if isinstance(answer, DaemonUnreachable):
            print(_away_text(answer))
        else:
            show(answer)
    finally:
        sys.stdout = terminal
    lines, rows = page.getvalue().splitlines(), shutil.get_terminal_size().lines
    if len(lines) > rows:
        lines = [*lines[: rows - 1], f"and {len(lines) - rows + 1} more lines"]
    _write("\033[H" + "\033[K\r\n".join(lines) + "\033[K\033[J")


def _away_text(error: DaemonUnreachable) -> str:
    return f"{error.message} Shown again when it is back; `corral daemon start` starts it. Ctrl-C ends this."


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
