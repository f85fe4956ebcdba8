"""Showing text that somebody else wrote: control, bidirectional and invisible characters are made visible, not obeyed."""

from __future__ import annotations

import unicodedata

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_KEPT = {"\n", "\t"}


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
