"""``ANTHROPIC_API_KEY`` in the file ``.env`` of a project's root."""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path

from corral.config.ownership import is_own
from corral.core.errors import ApiKeyUnavailable

_LARGEST = 1_000_000


def read_variable(path: Path, name: str) -> str | None:
    """The value of a variable; None if there is no such file or variable. Nothing in the file is expanded.

    Raises:
        ApiKeyUnavailable: It cannot be read, or belongs to another user.
    """
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unusable(path, f"{error.strerror}.") from error
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode):
            return None
        if not is_own(status.st_uid):
            raise _unusable(path, f"It belongs to uid {status.st_uid}.")
        data = os.read(number, _LARGEST + 1)
    finally:
        os.close(number)
    if len(data) > _LARGEST:
        raise _unusable(path, f"It has more than {_LARGEST} bytes.")
    return _parse(data.decode("utf-8", "replace"), name)


def _parse(text: str, name: str) -> str | None:
    from dotenv import dotenv_values  # seldom needed

    return dotenv_values(stream=io.StringIO(text), interpolate=False).get(name)


def _unusable(path: Path, cause: str) -> ApiKeyUnavailable:
    return ApiKeyUnavailable(
        f"{path} cannot be read for an API key.",
        cause=cause,
        remedy="Make it a readable file of your own, or remove it.",
    )
