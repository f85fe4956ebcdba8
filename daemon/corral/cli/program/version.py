"""``corral --version``."""

from __future__ import annotations

import sys
from pathlib import Path

from corral import __version__


def show() -> int:
    """Print Corral's version, its Python and its folder."""
    python = ".".join(str(part) for part in sys.version_info[:3])
    print(f"corral {__version__} (Python {python}, {Path(__file__).parents[2]})")
    return 0
