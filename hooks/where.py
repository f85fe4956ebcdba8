"""Prints where the daemon of this folder's checkout listens, its main checkout, and the checkout: the first two are empty where
nothing is coordinated.

The mod runs it once in a session. A folder outside of the project says nothing: then it is where the session began. With
``--of-edit`` and a call as JSON on standard input it is about the checkout that the call's file is in. A repository of another
user counts as not coordinated, as for every hook.
"""

from __future__ import annotations

import os
import sys


def main(*options: str) -> int:
    from fallbacks import from_outside, home_of_edit
    from hook import locate
    from ownership import short_socket

    top = ""
    if options:
        home = home_of_edit(sys.stdin.buffer.read(), locate)
    else:
        top, home, foreign = locate(os.getcwd())
        home = home if home or foreign else from_outside(locate)[0]
    path = os.path.join(home, "run", "corral.sock") if home else ""
    if len(os.fsencode(path)) > 100:  # as in hook.py
        path = short_socket(home) or path
    print(path, os.path.dirname(home), top, sep="\n")
    return 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True  # the plugin's folder stays unchanged
    sys.path.insert(0, here := os.path.dirname(os.path.abspath(__file__)))
    sys.path.append(os.path.join(os.path.dirname(here), "daemon", "corral", "client"))  # of the source: the last look
    sys.exit(main(*sys.argv[1:]))
