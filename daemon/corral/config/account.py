"""The user of this process and their home folder, also where the system has no account for the user id (in containers)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from corral.core.errors import NotFound


def user_name() -> str:
    """The account's name; ``uid-N`` if the system knows none."""
    import getpass  # the bridge and the hooks' clients never need it

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # OSError from Python 3.13 on
        return f"uid-{os.getuid()}"


def home() -> Path:
    """The home folder.

    Raises:
        NotFound: Neither HOME nor the account names one.
    """
    try:
        return Path.home()
    except RuntimeError as error:
        raise NotFound(
            f"There is no home folder for user id {os.getuid()}.",
            cause="HOME is not set, and the system has no account for this id.",
            remedy="Set HOME to a folder that this user can write, e.g. `export HOME=/tmp/home`.",
        ) from error


def base_folder(kind: str, environ: Mapping[str, str], home: Path) -> Path:
    """A folder of the user's by the XDG Base Directory Specification.

    Args:
        kind: One of :data:`BASE_FOLDERS`.
    """
    named = environ.get(f"XDG_{kind}_HOME", "")  # what is not absolute does not count
    return Path(named) if named.startswith("/") else home / BASE_FOLDERS[kind]


BASE_FOLDERS = {"CONFIG": ".config", "STATE": ".local/state", "CACHE": ".cache"}
"""Where they are unless a variable names another place, below the home folder."""
