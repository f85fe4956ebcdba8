"""The command line: one module per noun; errors are shown and become exit codes here."""

from __future__ import annotations

import contextlib
import io
import signal
import sys
from typing import Annotated

import typer

from corral.cli.nouns import Nouns
from corral.cli.terminal.options import Common, option
from corral.cli.terminal.output import Interrupted, guarded
from corral.errors import InvalidInput


def _interrupt(_number: int, _frame: object) -> None:
    raise Interrupted


app = typer.Typer(
    cls=Nouns,
    name="corral",
    no_args_is_help=False,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Many Claude Code sessions on one git repository: sessions do not overwrite each other, only "
    "verified work lands, no work is lost.\n\nBegin with `corral init` in a repository; then `corral "
    "task submit`, or start `claude`.",
)


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context,
    directory: Annotated[str, option("-C", "Run as if started in this folder.", "PATH")] = "",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks with errors.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Read the options before the noun."""
    Common.set(directory=directory, quiet=quiet, debug=debug)
    if version:
        from corral.cli.program.version import show

        raise typer.Exit(show())
    if context.invoked_subcommand is None:
        from corral.cli.commands.status import status

        status(as_json=False)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    signal.signal(signal.SIGINT, _interrupt)

    as_json = "--json" in arguments

    def command() -> int:
        said = io.StringIO()
        try:
            # A caller that asked for JSON gets usage errors as JSON too.
            with contextlib.redirect_stderr(said) if as_json else contextlib.nullcontext():
                code = app(args=arguments, prog_name="corral", standalone_mode=True)
        except SystemExit as leaving:
            code = leaving.code
        if as_json and code == InvalidInput.exit_code:
            raise InvalidInput(said.getvalue().rpartition("Error: ")[2].strip() or "Invalid command line.")
        sys.stderr.write(said.getvalue())
        return code if isinstance(code, int) else 0

    return guarded(command, as_json=as_json, debug=lambda: Common.debug)
