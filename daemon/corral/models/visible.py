"""Showing text that somebody else wrote: control, bidirectional and invisible characters are made visible, not obeyed."""

from __future__ import annotations

import unicodedata

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_KEPT = {"\n", "\t"}
MOST_EMBEDDED = 200
"""Characters of what somebody else wrote inside a sentence of Corral's."""


def visible(text: str) -> str:
    """The text with every character that a terminal would act on written as an escape such as ``\\x1b``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if unicodedata.category(character) in _HIDDEN and character not in _KEPT
        else character
        for character in text
    )


def embedded(text: str) -> str:
    """What somebody else wrote, fit for a sentence that a model reads: one short line that opens no tag."""
    line = visible(" ".join(text[: 2 * MOST_EMBEDDED].split())).replace("<", "&lt;")
    whole = len(text) <= 2 * MOST_EMBEDDED and len(line) <= MOST_EMBEDDED
    return line if whole else line[: MOST_EMBEDDED - 1] + "…"
