"""What is typed to add an optional package to the environment that Corral runs in."""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec


def how_to_add(*packages: str) -> str:
    """The command, with the environment's own Python. The packages are named, since an index knows nothing of Corral's extras."""
    python = shlex.quote(sys.executable)
    installer = f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"
    return " ".join((installer, *packages))
