"""Prints where the daemon of this folder's checkout listens, then the main checkout; nothing where nothing is coordinated.

The mod runs it once in a session. A folder outside of the project says nothing: then it is where the session began. A
repository of another user counts as not coordinated, as for every hook.
"""

from __future__ import annotations

import os
import sys


def main() -> int:
    from fallbacks import from_outside
    from hook import locate
    from ownership import short_socket

    _top, home, foreign = locate(os.getcwd())
    home = home if home or foreign else from_outside(locate)[0]
    if home:
        path = os.path.join(home, "run", "corral.sock")
        if len(os.fsencode(path)) > 100:  # as in hook.py
            path = short_socket(home) or path
        print(f"{path}\n{os.path.dirname(home)}")
    return 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True  # the plugin's folder stays unchanged
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.exit(main())
