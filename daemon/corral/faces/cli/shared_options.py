"""The options that every command has, before the noun or after the command."""

from __future__ import annotations

import functools
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from corral.core.errors import InvalidInput, NotFound
from corral.faces.cli.terminal.candidates import completer
from corral.faces.cli.terminal.context import Common, Format

Output = Annotated[Format | None, typer.Option("--output", help="Output format (default: human).", show_default=False)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress on stderr.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show steps and daemon requests on stderr.")]
Debug = Annotated[bool, typer.Option("--debug", help="Like --verbose, with requests, answers and tracebacks in full.")]

Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="Profile of settings (default: the daemon's).",
        show_default=False,
        autocompletion=completer("profile"),
    ),
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
def shared_parameters() -> tuple[Any, ...]:
    """The shared options, as the framework has them."""
    made = typer.Typer(add_completion=False, rich_markup_mode=None)
    made.command()(_shared)
    return tuple(typer.main.get_command(made).params)


class Command(TyperCommand):
    """A command with the shared options; one that it declares itself wins."""

    def __init__(self, *given: Any, params: list[Any] | None = None, **more: Any) -> None:
        own = params or []
        taken = {flag for one in own for flag in one.opts}
        self._shared = [one for one in shared_parameters() if not taken.intersection(one.opts)]
        super().__init__(*given, params=[*own, *self._shared], **more)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the command's own options first."""
        shared = {one.name for one in self._shared} | {"as_json", "help"}
        sections: dict[str, list[Any]] = {"Arguments": [], "Options": [], "Shared options": []}
        for one in self.get_params(ctx):
            record = one.get_help_record(ctx)
            if record is not None:
                kind = "Arguments" if one.param_type_name == "argument" else "Options"
                sections["Shared options" if one.name in shared else kind].append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def invoke(self, ctx: Any) -> Any:
        """Store the shared options, then run the command.

        Raises:
            InvalidInput: The command cannot print that format.
            CorralError: The command's; one about an unknown name suggests similar ones.
        """
        given = dict(ctx.params)
        Common.update(**{one.name: ctx.params.pop(one.name) for one in self._shared})
        has_json = any(one.name == "as_json" for one in self.params)
        as_json = bool(ctx.params.get("as_json"))
        if as_json and Common.output not in (None, Format.JSON):
            raise InvalidInput(f"--json and --output {Common.output} contradict each other.", remedy="Use one of them.")
        if Common.output in (Format.JSON, Format.TABLE):
            if not has_json:
                raise InvalidInput(f"This command has no output as {Common.output}.", remedy="Leave --output out.")
            ctx.params["as_json"] = True
        try:
            return super().invoke(ctx)
        except (NotFound, InvalidInput) as error:
            from corral.faces.cli.terminal.suggestions import add_suggestion

            add_suggestion(error, ctx, given)
            raise


def with_shared_options(app: Any) -> Any:
    """Give every command of a noun the shared options."""
    for info in app.registered_commands:
        info.cls = Command
    for group in app.registered_groups:
        with_shared_options(group.typer_instance)
    return app
