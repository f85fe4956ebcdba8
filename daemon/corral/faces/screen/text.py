"""Foreign text on the screen: shown as it is written, never interpreted, and cut to the cells that there are."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from corral.core.instants import UTC, parse, short_span
from corral.core.visible import one_line, visible

Row = dict[str, Any]
LONGEST_LINE = 2000
"""Characters of a foreign text that are looked at for one line of the screen."""
STYLES = {
    "good": Style(color="#7ec699"),
    "busy": Style(color="#6cb6ff"),
    "wait": Style(color="#e0b45c"),
    "bad": Style(color="#ff7b72", bold=True),
    "chosen": Style(color="#6cb6ff", bold=True),
    "dim": Style(color="#8b949e"),
    "bold": Style(bold=True),
    "plain": Style(),
}


class Glyphs:
    """The characters that the terminal can show; ``plain`` without UTF-8.

    Args:
        plain: Whether only ASCII is drawn; other characters of foreign text are escaped.
    """

    def __init__(self, *, plain: bool) -> None:
        self.plain = plain
        self.more = "~" if plain else "…"
        self.cursor = ">" if plain else "▸"
        self.bar = "|" if plain else "│"
        self.rule = "-" if plain else "─"
        self.dot = "*" if plain else "●"
        self.between = "-" if plain else "·"
        self.to = "->" if plain else "→"

    def line(self, text: object) -> str:
        """Foreign text as one line."""
        return self._writable(one_line(str(text)[:LONGEST_LINE]))

    def lines(self, text: object) -> str:
        """Foreign text that may have several lines."""
        return self._writable(visible(str(text)).expandtabs(4))

    def cell(self, text: object, width: int, *, right: bool = False) -> str:
        """Foreign text in exactly that many cells."""
        shown = self.line(text)
        size = cell_len(shown)
        if size > width:
            return set_cell_size(shown, width - 1) + self.more if width > 1 else self.more[:width]
        return " " * (width - size) + shown if right else shown + " " * (width - size)

    def _writable(self, text: str) -> str:
        if not self.plain or text.isascii():
            return text
        return text.encode("ascii", "backslashreplace").decode("ascii")


def has_utf8() -> bool:
    """Whether the terminal shows UTF-8, as its locale says; Python itself may write it where the terminal does not."""
    locale = next((value for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := os.environ.get(name))), "")
    encoding = locale.lower().replace("-", "")
    return "utf8" in encoding and (sys.stdout.encoding or "").lower().replace("-", "") in ("utf8", "")


def short_age(instant: str | None, now: datetime | None = None) -> str:
    """The time since an instant in its largest unit: ``now`` below a minute, ``12m``, ``3h``, ``8d``."""
    if not instant:
        return ""
    seconds = ((now or datetime.now(UTC)) - parse(instant)).total_seconds()
    return "now" if seconds < 60 else short_span(seconds)


def joined(parts: Sequence[tuple[str, str]]) -> Text:
    """A text of styled parts ``(text, style name)``; nothing in it is markup."""
    text = Text(no_wrap=False, end="")
    for part, style in parts:
        text.append(part, STYLES[style])
    return text
