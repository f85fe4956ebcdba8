"""The command line: one module per noun; errors are shown and become exit codes here."""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated

from corral.core.errors import InvalidInput
from corral.faces.cli import COMPLETION, parsing
from corral.faces.cli.nouns import NOUNS, Nouns
from corral.faces.cli.parsing import JSON, Abort, Context, Exit, HelpWanted, Option, UsageError
from corral.faces.cli.shared_options import Debug, Output, Profile, Quiet, Verbose
from corral.faces.cli.terminal.context import Common, Format, wants_json
from corral.faces.cli.terminal.options import option
from corral.faces.cli.terminal.output import Interrupted, echo, guarded


def _interrupt(_number: int, _frame: object) -> None:
    raise Interrupted


def _install(context: Context) -> None:
    from corral.faces.cli.completion import install

    install(context)


def _show(context: Context) -> None:
    from corral.faces.cli.completion import show

    show(context)


_INSTALL = "Install completion for the current shell."
_SHOW = "Show completion for the current shell, to copy it or customize the installation."


def top(
    context: Context,
    directory: Annotated[str, option("-C", "Run as if started in this folder.", "PATH")] = "",
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    debug: Debug = False,
    profile: Profile = None,
    as_json: Annotated[bool, Option("--json", help=JSON.help)] = False,
    interactive: Annotated[bool, Option("--interactive", "-i", help="Like `corral interactive`.")] = False,
    version: Annotated[bool, Option("--version", help="Show the version.")] = False,
    install_completion: Annotated[bool, Option("--install-completion", help=_INSTALL, act=_install)] = False,
    show_completion: Annotated[bool, Option("--show-completion", help=_SHOW, act=_show)] = False,
) -> None:
    """Read the options before the noun."""
    output = Format.JSON if as_json else output
    Common.update(directory=directory, output=output, quiet=quiet, verbose=verbose, debug=debug, profile=profile)
    if version:
        from corral.faces.cli.program.version import show

        raise Exit(show(as_json=Common.output == Format.JSON))
    if interactive:
        if context.invoked is not None:
            raise InvalidInput("--interactive has no command.", remedy="Use `corral -i`, or the command alone.")
        from corral.faces.screen.command import interactive as show_screen

        show_screen()
    elif context.invoked is None:
        from corral.observe.view.cli import status

        status()


app = Nouns(
    "Many Claude Code sessions on one git repository: sessions do not overwrite each other, only "
    "verified work lands, no work is lost.\n\nBegin with `corral init` in a repository; then `corral "
    "task submit`, or start `claude`.",
    top,
)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    signal.signal(signal.SIGINT, _interrupt)
    Common.output = None
    return guarded(
        lambda: _run(arguments), as_json=wants_json(arguments), debug=lambda: Common.debug or "--debug" in arguments
    )


def _run(arguments: list[str]) -> int:
    if instruction := os.environ.get(COMPLETION):
        from corral.faces.cli.completion import answer

        return answer(app, instruction)
    try:
        code = parsing.run(app, "corral", _with_alias_expanded(arguments))
    except Exit as ended:
        return ended.code
    except (Abort, EOFError):
        print("aborted", file=sys.stderr)
        return 1
    except HelpWanted as request:
        from corral.faces.cli.help import page_of

        if request.by_option:
            echo(page_of(request.context))
            return 0
        print(page_of(request.context), file=sys.stderr)
        return InvalidInput.exit_code
    except UsageError as error:
        raise _invalid_input(error) from None
    return code if isinstance(code, int) else 0


def _with_alias_expanded(arguments: list[str]) -> list[str]:
    if {*arguments[:1]} <= {*NOUNS, "hook"} or all(word.startswith("-") for word in arguments):
        return arguments
    from corral.faces.cli.terminal.expansion import expanded

    return expanded(arguments, frozenset({*NOUNS, "hook"}))


def _invalid_input(error: UsageError) -> InvalidInput:
    """A complaint about the command line, with cause and remedy."""
    from corral.faces.cli.help import usage_of
    from corral.faces.cli.terminal.suggestions import explained

    message, suggestion = explained(error)
    remedy = f"{suggestion} `{error.context.path} --help` shows what is accepted.".strip()
    return InvalidInput(message, cause=" ".join(usage_of(error.context).split()), remedy=remedy)
