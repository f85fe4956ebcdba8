"""``corral --version``."""

from __future__ import annotations

import os
import sys

from corral import __version__


def show() -> int:
    """Print the version, the Python it runs on, and where it is installed."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    print(f"corral {__version__} (Python {python}, {os.path.dirname(os.path.dirname(os.path.abspath(__file__)))})")
    return 0
