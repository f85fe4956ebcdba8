"""The ``corral`` command. Two commands are served without loading the rest: they run in hooks and prompts."""

from __future__ import annotations

import sys


def main() -> int:
    """The console script."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["mcp"] and "--help" not in arguments:
        from corral.bridge import main as bridge

        return bridge()
    if arguments[:1] == ["hook"]:
        from corral.cli.hook import run_script

        run_script(arguments[1:])
    if arguments == ["--version"]:
        from corral.cli.version import show

        return show()
    from corral.cli.app import run

    return run(arguments)
