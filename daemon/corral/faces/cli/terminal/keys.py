"""Convert typed paths, globs and logical keys to lock keys, relative to the top of the repository."""

from __future__ import annotations

import os
from pathlib import Path

from corral.config.paths import find_checkout
from corral.faces.cli.terminal.context import here


def to_lock_keys(keys: list[str]) -> list[str]:
    """Convert paths that are absolute or relative to the current folder, as git does. Logical keys stay."""
    folder = here().absolute()
    checkout = find_checkout(folder)
    if checkout is None:
        return keys
    below = os.path.relpath(folder, checkout.top)
    return [_lock_key(key, checkout.top, "" if below == "." else below) for key in keys]


def _lock_key(key: str, top: Path, below: str) -> str:
    if key.startswith("/") and key.startswith(f"{top}/"):
        return key[len(f"{top}/") :]
    if not below or not key or key.startswith("/") or ":" in key.partition("/")[0]:
        return key
    slash = "/" if key.endswith("/") else ""  # a folder's key ends in a slash
    return os.path.normpath(f"{below}/{key}") + slash
