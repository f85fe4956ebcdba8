"""Progress on stderr of a command that takes more than a second.

A command has one line of progress: a nested step changes that line, and restores it. Nothing is shown for what is done
at once, and nothing stays of it at the end.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

from corral.faces.cli.terminal.context import Common
from corral.faces.cli.terminal.output import echo
from corral.faces.cli.terminal.stdio import can_write

SHOWN_AFTER_S = 0.7
"""Seconds; what is done earlier shows no progress."""
PER_SECOND = 12
"""Times a second that a spinner, a bar and the elapsed time are drawn."""
_BAR_CELLS = 20
DAEMON = "waiting for the daemon"


class Progress:
    """A line of progress; this one is never shown. Calling it changes the text."""

    def __init__(self, text: str) -> None:
        self.state: tuple[str, int | None, int | None] = text, None, None

    def __call__(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """Change the text; with a total a bar is shown, else a spinner.

        Args:
            done: Number of the finished parts.
            total: Number of all parts.
        """
        self.state = text, done, total

    def tell(self, line: str) -> None:
        """Print a permanent line on stderr, above the progress."""
        print(line, file=sys.stderr, flush=True)

    def show(self, line: str) -> None:
        """Print a line on stdout."""
        echo(line)

    def end(self) -> None:
        """Remove the progress from the screen."""


class _Shown(Progress):
    """Progress on a terminal. A thread begins to show it; the framework draws it in another one."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._bars: Any = None
        self._bar: Any = None
        self._has_ended = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(SHOWN_AFTER_S, self._begin)
        self._timer.daemon = True
        self._timer.start()

    def __call__(self, text: str, done: int | None = None, total: int | None = None) -> None:
        with self._lock:
            super().__call__(text, done, total)
            if self._bars is not None:
                self._bars.update(self._bar, description=text, completed=done or 0, total=total)

    def tell(self, line: str) -> None:
        with self._lock:
            if self._bars is None:
                super().tell(line)
                return
            from rich.text import Text

            self._bars.console.print(Text.from_ansi(line), soft_wrap=True)

    def show(self, line: str) -> None:
        with self._lock:
            if self._bars is not None:
                self._bars.stop()
            super().show(line)
            sys.stdout.flush()
            if self._bars is not None:
                self._bars.start()

    def end(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._has_ended = True
            if self._bars is not None:
                self._bars.stop()

    def _begin(self) -> None:
        bars = _bars()  # loads the framework
        with self._lock:
            if not self._has_ended:
                text, done, total = self.state
                self._bars, self._bar = bars, bars.add_task(text, completed=done or 0, total=total)
                bars.start()


def _bars() -> Any:
    """The framework's progress: a spinner or a bar with a percentage, the elapsed time and the text."""
    from rich import progress as bars
    from rich.console import Console
    from rich.table import Column

    console = Console(stderr=True)
    spinner = bars.SpinnerColumn("dots" if can_write(sys.stderr, "⠋") else "line")
    bar = bars.BarColumn(_BAR_CELLS)
    has_room = console.width >= 3 * _BAR_CELLS

    class Amount(bars.ProgressColumn):
        def render(self, task: Any) -> Any:
            return bar.render(task) if task.total is not None and has_room else spinner.render(task)

    # The timer column updates itself, so a long wait never looks frozen. Only the text is cut: a longer one than the
    # terminal is wide would push out the other columns.
    text_column = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    words = bars.TextColumn("{task.description}", markup=False, table_column=text_column)
    columns = (Amount(), bars.TaskProgressColumn(), bars.TimeElapsedColumn(), words)
    # Without `redirect_stdout` the framework leaves standard output alone, which may be a file.
    return bars.Progress(
        *columns,
        console=console,
        transient=True,
        expand=True,
        refresh_per_second=PER_SECOND,
        redirect_stdout=False,
        redirect_stderr=False,
    )


class _Line:
    """The progress of this process's command."""

    shown: ClassVar[Progress | None] = None


def is_visible() -> bool:
    """Whether a person can see progress: on a terminal that can move its cursor, without ``--quiet``."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not Common.quiet


@contextlib.contextmanager
def progress(text: str | None = None) -> Iterator[Progress]:
    """Show progress on stderr if it takes long: a spinner, or a bar if the total is known.

    Inside another progress it is a step of that: its text stays until the step ends.

    Args:
        text: The step; None: waiting for the daemon, unless another step is shown already.

    Yields:
        The progress line; without a terminal only its permanent lines are shown.
    """
    outer = _Line.shown
    if outer is not None:
        before = outer.state
        if text is not None:
            outer(text)
        try:
            yield outer
        finally:
            if text is not None:
                outer(*before)
        return
    own = _Shown(text or DAEMON) if is_visible() else Progress(text or DAEMON)
    _Line.shown = own
    try:
        yield own
    finally:
        own.end()
        _Line.shown = None
