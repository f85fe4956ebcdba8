"""The options that every command has, before the noun or after the command."""

from __future__ import annotations

import functools
from typing import Annotated, Any

from corral.core.errors import InvalidInput, NotFound
from corral.faces.cli.parsing import JSON, Command, Context, Group, Option, Parameter, call, parameters_of
from corral.faces.cli.terminal.context import Common, Format
from corral.faces.cli.terminal.options import option
from corral.faces.cli.terminal.output import for_programs

Output = Annotated[Format | None, Option("--output", help="Output format (default: human).", show_default=False)]
Quiet = Annotated[bool, Option("--quiet", "-q", help="No progress on stderr.")]
Verbose = Annotated[bool, Option("--verbose", "-v", help="Show steps and daemon requests on stderr.")]
Debug = Annotated[bool, Option("--debug", help="Like --verbose, with requests, answers and tracebacks in full.")]

Profile = Annotated[
    str | None,
    option("--profile", "Profile of settings (default: the daemon's).", "NAME", show_default=False, of="profile"),
]


def _shared(
    output: Output = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    debug: Debug = False,
    profile: Profile = None,
) -> None:
    """Have the shared options as parameters."""


@functools.cache
def shared_parameters() -> tuple[Parameter, ...]:
    """The shared options."""
    return tuple(parameters_of(_shared))


def with_shared_options(command: Command) -> Command:
    """Give a command, or every command of a group, the shared options."""
    if isinstance(command, Group):
        for member in command.commands.values():
            with_shared_options(member)
    else:
        command.shared, command.invoke = shared_parameters(), _invoke
    return command


def _invoke(context: Context) -> Any:
    """Store the shared options, then run the command.

    Raises:
        InvalidInput: The command cannot print that format.
        CorralError: The command's; one about an unknown name suggests similar ones.
    """
    params, own = dict(context.params), context.command.params
    Common.update(**{option.name: context.params.pop(option.name) for option in shared_parameters() if option in own})
    if context.params.get(JSON.name):
        if Common.output not in (None, Format.JSON):
            raise InvalidInput(f"--json and --output {Common.output} contradict each other.", remedy="Use one of them.")
        Common.update(output=Format.JSON)
    if for_programs() and not context.command.prints:
        raise InvalidInput(f"This command has no output as {Common.output}.", remedy="Leave --output out.")
    try:
        return call(context)
    except (NotFound, InvalidInput) as error:
        from corral.faces.cli.terminal.suggestions import add_suggestion

        add_suggestion(error, context, params)
        raise
