"""Reading a log that may still grow, redacted, in parts."""

from __future__ import annotations

import asyncio
import functools
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from corral.coordination.services import Services
from corral.core.redaction import redact

PART = 256 * 1024
"""Bytes in one answer at most."""

POLL_S = 0.25

_TAIL = 8192

FURTHEST = 2**53
"""No file is longer."""


Tail = Annotated[
    int | None,
    Field(
        ge=0, le=PART, description="Instead of `offset`: begin at most so many bytes before the end, with a whole line."
    ),
]
"""How much of a log's end is asked for."""


class LogPart(BaseModel):
    """Text from an offset on, where to go on, and whether nothing more will come."""

    text: str
    next_offset: int
    complete: bool


def read_part(file: Path, offset: int, *, growing: bool) -> tuple[str, int]:
    """Text from ``offset`` (bytes) on, and the next offset.

    Whole lines only while there may be more, so that no secret is cut in two on its way through the redaction.
    """
    try:
        with file.open("rb") as handle:
            handle.seek(offset)
            data = handle.read(PART)
    except FileNotFoundError:
        return "", offset
    if len(data) == PART or growing:
        data = data[: data.rindex(b"\n") + 1] if b"\n" in data else data if len(data) == PART else b""
    return redact(data.decode("utf-8", "replace")), offset + len(data)


def last_lines(file: Path) -> str:
    """The end of a log that no longer grows, some 8 KB of whole lines; empty without one."""
    try:
        size = file.stat().st_size
    except FileNotFoundError:
        return ""
    text, _ = read_part(file, max(0, size - _TAIL), growing=False)
    return text if size <= _TAIL else text.partition("\n")[2]


def offset_of_tail(file: Path, tail: int) -> int:
    """The offset of the first whole line among the last ``tail`` bytes of a log; 0 without one."""
    try:
        with file.open("rb") as handle:
            size = handle.seek(0, os.SEEK_END)
            start = max(0, size - tail)
            if start == 0:
                return 0
            handle.seek(start - 1)
            return min(size, start - 1 + len(handle.readline(PART)))
    except FileNotFoundError:
        return 0


async def follow(
    services: Services,
    file: Path,
    offset: int,
    wait_s: float,
    running: Callable[[], Awaitable[bool]],
    *,
    tail: int | None = None,
) -> LogPart:
    """The next part of a log; waits up to ``wait_s`` seconds for something to come.

    Args:
        tail: Bytes before the end to begin at, instead of at ``offset``.
    """
    deadline = time.monotonic() + wait_s
    if tail is not None:
        offset = await services.work(functools.partial(offset_of_tail, file, tail))
    while True:
        open_end = await running()  # asked before reading: what was written before the end is then read
        text, following = await services.work(functools.partial(read_part, file, offset, growing=open_end))
        if text or not open_end or time.monotonic() >= deadline:
            return LogPart(text=text, next_offset=following, complete=not open_end and not text)
        await asyncio.sleep(POLL_S)
