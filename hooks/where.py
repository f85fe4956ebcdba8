"""Prints where the daemon of this folder's checkout listens: its socket, then the main checkout; nothing where nothing is coordinated.

The mod runs it once in a session. A repository of another user counts as not coordinated, as for every hook.
"""

from __future__ import annotations

import os
import sys


def main() -> int:
    from hook import locate, socket_of

    home = locate(os.getcwd())[1]
    if home:
        print(f"{socket_of(home)}\n{os.path.dirname(home)}")
    return 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True  # the plugin's folder stays unchanged
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.exit(main())
