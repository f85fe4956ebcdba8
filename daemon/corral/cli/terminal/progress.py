"""Progress of a command that takes more than a second, on stderr."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from corral.cli.terminal.context import Common


class Progress:
    """A progress line: calling it changes the text; ``tell`` prints a permanent line above it.

    Args:
        change: Changes the text.
        tell: Prints a line on stderr.
    """

    def __init__(self, change: Callable[[str], None], tell: Callable[[str], None]) -> None:
        self._change = change
        self.tell = tell

    def __call__(self, text: str) -> None:
        """Change the text."""
        self._change(text)


@contextlib.contextmanager
def progress(text: str) -> Iterator[Progress]:
    """Show progress on stderr after one second: a spinner on a terminal, else only permanent lines.

    Yields:
        The progress line.
    """
    if not sys.stderr.isatty() or Common.quiet:
        yield Progress(lambda _text: None, lambda line: print(line, file=sys.stderr, flush=True))
        return
    from rich import progress as bars
    from rich.console import Console
    from rich.table import Column
    from rich.text import Text

    # The timer column updates itself, so a long wait never looks frozen. Only the text is cut: a longer one than the
    # terminal is wide would push out the other columns.
    given = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    words = bars.TextColumn("{task.description}", markup=False, table_column=given)
    columns = (bars.SpinnerColumn(), bars.TimeElapsedColumn(), words)
    with bars.Progress(*columns, console=Console(stderr=True), transient=True, expand=True) as bar:
        shown = bar.add_task(text, total=None)
        yield Progress(
            lambda more: bar.update(shown, description=more),
            lambda line: bar.console.print(Text.from_ansi(line), soft_wrap=True),
        )
