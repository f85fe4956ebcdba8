"""``python -m corral.client.start ROOT``: start the daemon of a project, if none runs.

A bridge executes it. The bridge may be older than this installation, so new imports might not fit its loaded modules. A failure
is one JSON object on stdout, as HTTP would answer it.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

from corral.client.connection import Client
from corral.config.paths import find_project
from corral.core.errors import CorralError


def main() -> int:
    """Start it; returns the exit code."""
    try:
        with contextlib.closing(Client(find_project(Path(sys.argv[1])))) as client:
            client.ensure_daemon()
    except CorralError as error:
        print(json.dumps(error.to_wire()))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
