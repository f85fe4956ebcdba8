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


def notice(payload: bytes, foreign: str, top: str) -> bytes:
    """The notice when a session starts where Corral does nothing, although it seems to be there; else an empty object.

    Args:
        foreign: What another user owns; empty: nothing.
        top: The checkout, which is no repository's main one.
    """
    if json.loads(payload).get("source") not in ("startup", "resume"):
        return b"{}"
    if foreign:
        words = f"detected dubious ownership of '{_shown(foreign)}'. `corral doctor` says what to do."
    elif above := _coordinated_above(top):
        words = (
            f"'{_shown(top)}' is a submodule, so a repository of its own, and only '{_shown(above)}' is coordinated."
        )
        words += " Locks of either do not count in the other. `corral init` here coordinates it too."
    else:
        return b"{}"
    text = f"Corral does nothing here: {words}"
    output = {} if foreign else {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": text}}
    return json.dumps({"systemMessage": text, **output}).encode()


def _coordinated_above(top: str) -> str:
    """The checkout of the coordinated repository that a checkout is a submodule of; empty if it is none."""
    try:
        with open(os.path.join(top, ".git"), encoding="utf-8", errors="surrogateescape") as file:
            git_dir = os.path.realpath(os.path.join(top, file.read(8192).strip().removeprefix("gitdir: ")))
    except OSError:
        return ""
    above, _git, inner = git_dir.partition("/.git/")
    is_submodule = "modules/" in inner and os.path.isfile(os.path.join(above, ".corral", "config.yaml"))
    return above if is_submodule else ""


def _shown(path: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in path)


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
