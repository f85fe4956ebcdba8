"""The lines of a patch, and what each of them is."""

from __future__ import annotations

from collections.abc import Iterator

_HEADS = (
    "diff --git ",
    "index ",
    "--- ",
    "+++ ",
    "new file ",
    "deleted file ",
    "similarity ",
    "rename ",
    "old mode ",
    "new mode ",
)


def marked(patch: str) -> Iterator[tuple[str, str]]:
    """The lines of a patch, each with what it is: ``file``, ``hunk``, ``plus``, ``minus`` or ``same``."""
    in_hunk = False
    for line in patch.rstrip("\n").split("\n") if patch else ():
        if line.startswith("diff --git "):
            in_hunk = False
        if line.startswith("@@"):
            in_hunk = True
            yield "hunk", line
        elif not in_hunk and line.startswith(_HEADS):
            yield "file", line
        else:
            yield {"+": "plus", "-": "minus"}.get(line[:1], "same"), line
