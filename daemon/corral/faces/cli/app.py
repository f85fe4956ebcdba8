"""The command line: one module per noun; errors are shown and become exit codes here."""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated, Any

import typer

from corral.core.errors import InvalidInput
from corral.faces.cli import COMPLETION
from corral.faces.cli.help import epilog_of_program, reached
from corral.faces.cli.nouns import NOUNS, Nouns
from corral.faces.cli.shared_options import Debug, Output, Profile, Quiet, Verbose
from corral.faces.cli.terminal.context import Common, Format, wants_json
from corral.faces.cli.terminal.options import Json, option
from corral.faces.cli.terminal.output import Interrupted, echo, guarded


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
    epilog=epilog_of_program(),
    help="Many Claude Code sessions on one git repository: sessions do not overwrite each other, only "
    "verified work lands, no work is lost.\n\nBegin with `corral init` in a repository; then `corral "
    "task submit`, or start `claude`.",
)


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context,
    directory: Annotated[str, option("-C", "Run as if started in this folder.", "PATH")] = "",
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    debug: Debug = False,
    profile: Profile = None,
    as_json: Json = False,
    interactive: Annotated[bool, typer.Option("--interactive", "-i", help="Like `corral interactive`.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    """Read the options before the noun."""
    output = Format.JSON if as_json else output
    Common.update(directory=directory, output=output, quiet=quiet, verbose=verbose, debug=debug, profile=profile)
    if version:
        from corral.faces.cli.program.version import show

        raise typer.Exit(show(as_json=Common.output == Format.JSON))
    if interactive:
        if context.invoked_subcommand is not None:
            raise InvalidInput("--interactive has no command.", remedy="Use `corral -i`, or the command alone.")
        from corral.faces.screen.command import interactive as show_screen

        show_screen()
    elif context.invoked_subcommand is None:
        from corral.observe.view.cli import status

        status(as_json=Common.output in (Format.JSON, Format.TABLE))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    signal.signal(signal.SIGINT, _interrupt)

    def command() -> int:
        if (page := _help_page(arguments)) is not None:
            echo(page)
            return 0
        try:
            code = app(args=_with_alias_expanded(arguments), prog_name="corral", standalone_mode=False)
        except typer.Abort:
            print("aborted", file=sys.stderr)
            return 1
        except Exception as error:
            if not hasattr(error, "format_message"):
                raise
            return _refuse_usage(error)
        return code if isinstance(code, int) else 0

    return guarded(command, as_json=wants_json(arguments), debug=lambda: Common.debug or "--debug" in arguments)


def _help_page(arguments: list[str]) -> str | None:
    """The help page of a command line that is only a command and ``--help``; None if it is another one."""
    if COMPLETION in os.environ or arguments[-1:] not in (["--help"], ["-h"]):
        return None
    found = reached(typer.main.get_command(app), arguments[:-1])
    return None if found is None else str(found[1].get_help(found[0]))


def _with_alias_expanded(arguments: list[str]) -> list[str]:
    if COMPLETION in os.environ or {*arguments[:1]} <= {*NOUNS, "hook"}:
        return arguments
    from corral.faces.cli.terminal.expansion import expanded

    return expanded(arguments, frozenset({*NOUNS, "hook"}))


def _refuse_usage(error: Any) -> int:
    """Turn the framework's complaint about a command line into an error with cause and remedy.

    Returns:
        The exit code, where it is no error: a noun without a command, whose help is shown.

    Raises:
        InvalidInput: The command line is wrong.
    """
    context = getattr(error, "ctx", None)
    if context is not None and type(error).__name__ == "NoArgsIsHelpError":
        print(context.get_help(), file=sys.stderr)
        return InvalidInput.exit_code
    from corral.faces.cli.terminal.suggestions import explained

    path = context.command_path if context is not None else "corral"
    usage = " ".join(context.get_usage().split()) if context is not None else ""
    message, meant = explained(error)
    raise InvalidInput(
        message, cause=usage, remedy=f"{meant} `{path} --help` shows what is accepted.".strip()
    ) from None
