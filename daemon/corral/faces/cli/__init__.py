"""The ``corral`` command. Hooks and shell prompts are served without loading the parser."""

from __future__ import annotations

import gc
import os
import sys

COMPLETION = "_CORRAL_COMPLETE"
"""Set by the completion function of a shell, which calls ``corral`` without arguments."""


def main() -> int:
    """The console script."""
    arguments = sys.argv[1:]
    if COMPLETION not in os.environ and (code := _run_without_parser(arguments)) is not None:
        return code
    from corral.faces.cli.terminal.stdio import guard_output

    gc.disable()  # garbage collection would take a tenth of the import time
    from corral.faces.cli.app import run

    gc.enable()
    return guard_output(lambda: run(arguments))


def _run_without_parser(arguments: list[str]) -> int | None:
    """Run a command that must start fast; None if the command line must be parsed."""
    if arguments[:1] == ["mcp"] and not {"--help", "-h"} & {*arguments}:
        from corral.client.bridge import main as bridge

        return bridge()
    if arguments == ["statusline"]:
        from corral.client.status_line import main as status_line

        return status_line()
    if arguments[:1] == ["hook"]:
        from corral.faces.cli.program.hook import run_script

        run_script(arguments[1:])
    from corral.faces.cli.terminal.stdio import guard_output

    if arguments == ["--version"]:
        from corral.faces.cli.program.version import show

        return guard_output(show)
    if arguments in ([], ["status"], ["status", "--json"]):
        from corral.faces.cli.terminal.context import Common, Format
        from corral.faces.cli.terminal.output import guarded
        from corral.faces.cli.terminal.status_summary import show_status

        as_json = "--json" in arguments
        Common.output = Format.JSON if as_json else None
        return guard_output(lambda: guarded(show_status, as_json=as_json, debug=lambda: False))
    return None
