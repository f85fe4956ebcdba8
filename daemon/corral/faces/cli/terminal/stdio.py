"""Standard output that may be closed, full, or a broken pipe."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TextIO

DEVNULL = Path(os.devnull)


class OutputLost(BaseException):
    """Standard output cannot be written; nothing more is. Not an OSError, which a command may handle.

    Attributes:
        reason: The cause; None for a broken pipe (`corral task list | head`).
    """

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.reason = None if isinstance(error, BrokenPipeError) else error.strerror


class _GuardedStdout(io.TextIOWrapper):
    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self._give_up(error)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> NoReturn:
        with DEVNULL.open("wb") as nowhere:  # else Python would try again at exit, and complain
            os.dup2(nowhere.fileno(), self.fileno())
        raise OutputLost(error) from error


def can_write(stream: TextIO, text: str) -> bool:
    """Whether the stream's encoding can write a text."""
    try:
        text.encode(stream.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def columns(otherwise: int = 80) -> int:
    """The width of the terminal, as ``shutil`` finds it, which would load all archivers.

    Args:
        otherwise: The width where there is no terminal, and no variable ``COLUMNS``.
    """
    try:
        width = int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        width = 0
    if width > 0:
        return width
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or otherwise  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return otherwise


def guard_output(command: Callable[[], int]) -> int:
    """Run a command; returns its exit code, or 1 if its output could not be written.

    A broken pipe is not reported: the command itself succeeded.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the caller closed it
            setattr(sys, name, DEVNULL.open("w"))
    out, code = sys.stdout, 0
    if isinstance(out, io.TextIOWrapper):
        lines, encoding = out.line_buffering, out.encoding
        sys.stdout = _GuardedStdout(out.detach(), encoding=encoding, errors="backslashreplace", line_buffering=lines)
        sys.__stdout__ = sys.stdout  # type: ignore[misc]  # the standard library asks this one for the terminal's size
    try:
        code = command()
        sys.stdout.flush()
    except OutputLost as lost:
        if lost.reason is None:
            return code
        print(f"Error: Cannot write the output: {lost.reason}.", file=sys.stderr)
        return code or 1
    return code
