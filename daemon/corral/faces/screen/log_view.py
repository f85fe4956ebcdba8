"""The log: what happens, or the output of one task or verification, in bounded memory however long it is."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from rich.segment import Segment
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from corral.client.connection import Client
from corral.config.paths import Project
from corral.core.errors import CorralError
from corral.core.run_heading import run_heading
from corral.core.visible import log_text
from corral.faces.screen.text import LONGEST_LINE, STYLES, Glyphs

MOST_LINES = 5000
"""Lines that are kept; the oldest go first."""
TAIL = 64 * 1024
"""Bytes of the end of an output that is begun with."""
ROUND_S = 20.0
"""Length of a long poll, seconds."""
Line = tuple[str, str]
"""A line and the name of its style."""


class LogView(ScrollView, can_focus=True):
    """The last lines of something that grows; it follows the end unless it was scrolled away from it."""

    DEFAULT_CSS = "LogView { overflow-x: hidden; scrollbar-size: 0 1; }"

    def __init__(self, *, glyphs: Glyphs, **more: Any) -> None:
        super().__init__(**more)
        self._glyphs = glyphs
        self._lines: deque[Line] = deque(maxlen=MOST_LINES)
        self._shown: list[Line] = []
        self._words = ""

    def replace(self, lines: list[Line]) -> None:
        """Show other lines."""
        self._lines.clear()
        self._lines.extend(lines)
        self._arrange(follow=True)

    def add(self, lines: list[Line]) -> None:
        """Add lines at the end."""
        if lines:
            follow = self.scroll_offset.y >= self.max_scroll_y
            self._lines.extend(lines)
            self._arrange(follow=follow)

    def filter(self, words: str) -> None:
        """Show only the lines that contain these words."""
        self._words = words.casefold()
        self._arrange(follow=True)

    def move(self, by: int) -> None:
        """Scroll by lines."""
        self.scroll_relative(y=by, animate=False, force=True, immediate=True)

    def move_to(self, line: int) -> None:
        """Scroll to a line."""
        self.scroll_to(y=min(line, self.max_scroll_y), animate=False, force=True, immediate=True)

    @property
    def visible_rows(self) -> int:
        """Lines that fit."""
        return max(1, self.size.height)

    @property
    def lines(self) -> list[Line]:
        """The lines that the filter leaves."""
        return self._shown

    def _arrange(self, *, follow: bool) -> None:
        words = self._words.split()
        self._shown = [line for line in self._lines if all(word in line[0].casefold() for word in words)]
        self.virtual_size = Size(self.size.width, len(self._shown))
        if follow:
            self.scroll_to(y=max(0, len(self._shown) - self.size.height), animate=False, force=True, immediate=True)
        self.refresh()

    def on_resize(self) -> None:
        """Keep the end in sight."""
        self._arrange(follow=True)

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        width, at = self.scrollable_content_region.width, y + int(self.scroll_offset.y)
        text, style = self._shown[at] if at < len(self._shown) else ("", "plain")
        return Strip([Segment(self._glyphs.cell(text, width), self.rich_style + STYLES[style])], width)


class OutputGrew(Message):
    """New lines of the followed output ``number``. The follower waits until they are ``taken``."""

    def __init__(self, number: int, lines: list[Line]) -> None:
        super().__init__()
        self.number, self.lines, self.taken = number, lines, threading.Event()


class Follower(threading.Thread):
    """Reads an output from near its end on, until it is complete or :meth:`stop` is called.

    Args:
        path: The log's address: of a task or a merge request.
        readable: Whether a model's event stream is shown as its texts and tool calls; for tasks alone.
        number: Told with each part.
        tell: Called in this thread with each :class:`OutputGrew`.
    """

    def __init__(
        self, project: Project, path: str, number: int, tell: Callable[[Message], Any], *, readable: bool = False
    ) -> None:
        super().__init__(name="follower", daemon=True)
        self._client = Client(project, autostart=False)
        self._path, self._number, self._tell = path, number, tell
        self._how = {"readable": "true"} if readable else {}
        self._over = threading.Event()

    def stop(self) -> None:
        """Show nothing more; callable from any thread."""
        self._over.set()

    def run(self) -> None:
        """Follow the output; after the daemon was away, go on at the same offset."""
        query: dict[str, Any] = {"tail": TAIL, "wait_s": 0, **self._how}
        heading = ""
        while not self._over.is_set():
            try:
                part = self._client.request("GET", self._path, query=query, timeout_s=ROUND_S + 20)
            except (OSError, CorralError) as error:
                if isinstance(error, CorralError) and error.name != "daemon_unreachable":
                    self._show([(error.message, "bad")])
                    break
                self._over.wait(1.0)
                continue
            run_line = run_heading(part["run"]) if part.get("run") else ""
            if run_line != heading:
                self._show([(line, "dim") for line, _ in split(run_line)])
            if part["text"]:
                self._show(split(part["text"]))
            heading = run_line
            if part["complete"] and not part["text"]:
                self._show([("(end)", "dim")])
                break
            number = part["run"]["number"] if part.get("run") else None
            query = {"offset": part["next_offset"], "wait_s": ROUND_S, "run": number, **self._how}
        self._client.close()

    def _show(self, lines: list[Line]) -> None:
        message = OutputGrew(self._number, lines)
        self._tell(message)
        while not message.taken.wait(0.5) and not self._over.is_set():  # so no more of them pile up
            pass


def split(text: str) -> list[Line]:
    """A program's output as lines of the screen; long lines are cut."""
    whole = log_text(text, colours=False)
    lines = whole.removesuffix("\n").split("\n")[-MOST_LINES:]
    return [(line[:LONGEST_LINE].expandtabs(8), "plain") for line in lines]
