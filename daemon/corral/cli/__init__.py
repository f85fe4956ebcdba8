"""The ``corral`` command. What runs in hooks and prompts is served without loading the rest."""

from __future__ import annotations

import gc
import sys


def main() -> int:
    """The console script."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["mcp"] and not {"--help", "-h"} & {*arguments}:
        from corral.bridge import main as bridge

        return bridge()
    if arguments[:1] == ["hook"]:
        from corral.cli.hook import run_script

        run_script(arguments[1:])
    from corral.cli.outlet import heard

    if arguments == ["--version"]:
        from corral.cli.version import show

        return heard(show)
    if arguments in ([], ["status"], ["status", "--json"]):
        from corral.cli.glance import glance
        from corral.cli.output import guarded

        as_json = "--json" in arguments
        return heard(lambda: guarded(lambda: glance(as_json=as_json), as_json=as_json, debug=lambda: False))
    gc.disable()  # a tenth of the import is looking for garbage in what stays for good
    from corral.cli.app import run

    gc.enable()
    return heard(lambda: run(arguments))
