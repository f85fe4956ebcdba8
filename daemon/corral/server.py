"""The former name of :mod:`corral.daemon`: the bridge of an open session, older than this version, starts its daemon by it."""

import sys

from corral.daemon.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
