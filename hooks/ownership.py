"""Rarely needed parts of hook.py: foreign owners and long paths, by the rule of ``corral/config/ownership.py``.

Standard library only. A test compares the two.
"""

from __future__ import annotations

import json
import os
import subprocess


def refused(foreign: list[str], checkout: tuple[str, ...], main: str, home: str) -> str:
    """The first foreign path that ``safe.directory`` does not allow, or an empty string.

    Args:
        foreign: Paths that another user owns.
        checkout: The checkout's top folder first, then its ``.git`` and git directory.
        main: The top of the main checkout; the git directory where there is none.
        home: The ``.corral`` folder; the database and ``run`` in it are never allowed.
    """
    for path in foreign:
        is_private = path.startswith((home + "/run", home + "/corral.db"))
        if is_private or not is_safe(checkout[0] if path in checkout else main):
            return path
    return ""


def is_safe(directory: str) -> bool:
    """Whether ``safe.directory`` in the user's or the system's git configuration covers a repository."""
    real, safe = os.path.realpath(directory), False
    for value in _safe_directories():
        allowed = os.path.expanduser(value)
        if not value:
            safe = False
        elif value == "*":
            safe = True
        elif allowed.startswith("/") and allowed.endswith("/*"):
            safe = safe or real.startswith(os.path.realpath(allowed[:-2]).rstrip("/") + "/")
        elif allowed.startswith("/"):
            safe = safe or real == os.path.realpath(allowed)
    return safe


def _safe_directories() -> list[str]:
    environ = {**os.environ, "GIT_DIR": os.devnull}  # no repository's own configuration
    environ.pop("GIT_CONFIG", None)
    argv = ["git", "config", "--show-scope", "--null", "--get-all", "safe.directory"]
    try:
        done = subprocess.run(
            argv, cwd="/", env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=2, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return []
    fields = os.fsdecode(done.stdout).split("\0")
    return [
        value
        for scope, value in zip(fields[::2], fields[1::2], strict=False)
        if scope in ("system", "global", "command")
    ]


def notice(payload: bytes, foreign: str) -> bytes:
    """The notice for a person when a session starts where Corral does nothing; an empty object where it works."""
    if json.loads(payload).get("source") not in ("startup", "resume"):
        return b"{}"
    shown = "".join(letter if letter.isprintable() else "?" for letter in foreign)
    words = f"Corral does nothing here: detected dubious ownership of '{shown}'. `corral doctor` says what to do."
    return json.dumps({"systemMessage": words}).encode()


def short_socket(home: str) -> str:
    """The socket of a project with too long a ``run/`` path, from its daemon.json; empty if that is another project's."""
    from hashlib import sha256

    try:
        with open(os.path.join(home, "run", "daemon.json"), encoding="utf-8") as file:
            named = json.load(file)["socket"]
        expected = sha256(os.fsencode(home)).hexdigest()[:20] + ".sock"
        return named if os.path.basename(named) == expected else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""
