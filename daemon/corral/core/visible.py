"""Make control, bidirectional and invisible characters in foreign text visible."""

from __future__ import annotations

import re
import unicodedata

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_KEPT = {"\n", "\t"}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_COLOUR = re.compile(r"(\x1b\[[0-9;:]*m)")
MOST_EMBEDDED = 200
"""Maximum length of foreign text inside a sentence of Corral's, characters."""


def visible(text: str) -> str:
    """The text with every character that a terminal would act on as an escape such as ``\x1b``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if unicodedata.category(character) in _HIDDEN and character not in _KEPT
        else character
        for character in text
    )


def one_line(text: str) -> str:
    """Like :func:`visible`, with line ends and tabs escaped too: the text cannot forge a line."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def log_text(text: str, *, colours: bool) -> str:
    """A program's output, safe for a terminal: line ends stay, other control characters are removed.

    Args:
        colours: Whether colour codes are kept.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii() and not _CONTROL.search(text):
        return text
    parts = _COLOUR.split(text)  # text and colour codes alternate
    return "".join((part if colours else "") if number % 2 else visible(part) for number, part in enumerate(parts))


def embedded(text: str) -> str:
    """Foreign text for a sentence that a model reads: one short line that opens no tag."""
    line = visible(" ".join(text[: 2 * MOST_EMBEDDED].split())).replace("<", "&lt;")
    whole = len(text) <= 2 * MOST_EMBEDDED and len(line) <= MOST_EMBEDDED
    return line if whole else line[: MOST_EMBEDDED - 1] + "…"


def waiting(reason: str) -> str:
    """The reason why a session waits, as a predicate: Claude Code's own words, or a noun such as "permission for Bash"."""
    return reason.removeprefix("Claude ") if reason.startswith("Claude ") else f"is waiting for {reason}"
