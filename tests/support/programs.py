"""What a fresh machine surely has, and how a test says that it takes more than that.

Whatever the machine has, a test finds on its PATH nothing but the programs of ``PLAIN`` and ``PRODUCTS``, and a ``python3``
without packages (the environment that the installer made is ``sys.executable``). What more it takes it says, and is skipped with
that reason where it is not installed: ``@requires("jq")`` puts it on the test's PATH; a fixture asks for ``program("tmux")``.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

MACHINE = os.environ.get("PATH", os.defpath)
"""The machine's own PATH, before any test is sealed."""
COMMON = "/usr/local/bin:/usr/bin:/bin"
"""The PATH of no particular machine."""

PLAIN = """
[ awk basename cat chgrp chmod chown cksum cmp comm cp cut date dd df diff dirname du echo env expand expr false find fold
getconf grep head id join kill link ln logname ls mkdir mkfifo mktemp mv nice nl nohup od paste pathchk pr printf pwd readlink
realpath renice rm rmdir sed seq sh sleep sort split stty tail tee test timeout touch tr true tsort tty uname unexpand uniq
unlink wc who xargs
"""
"""What POSIX has and every system's base; ``mktemp`` and ``seq`` are beside POSIX, and as common."""

PRODUCTS = "git prlimit"
"""What the product runs: it needs git, and tags workers by ``prlimit`` where there is one, as in every distribution of Linux."""

requires = pytest.mark.requires
"""``@requires("jq", "node")``: programs of the machine that a test finds on its PATH; without one of them it is skipped."""


def find(name: str) -> str | None:
    """The absolute path of a program of the machine, or None where it is not installed."""
    return shutil.which(name, path=MACHINE)


def is_on(name: str, path: str) -> bool:
    """Whether a process with that PATH finds a program."""
    return shutil.which(name, path=path) is not None


def program(name: str) -> str:
    """The same; skips the test where it is not installed."""
    path = find(name)
    if path is None:
        pytest.skip(_missing([name]))
    return path


def _missing(names: list[str]) -> str:
    return f"not installed: {', '.join(names)}"


def skip_without(item: pytest.Item) -> None:
    """Skip a test that requires what is not installed."""
    if missing := [name for name in _required(item) if find(name) is None]:
        pytest.skip(_missing(missing))


def _required(item: pytest.Item) -> list[str]:
    return list(dict.fromkeys(name for mark in item.iter_markers("requires") for name in mark.args))


class PlainSystem:
    """Folders of links to programs, which stand for the machine's.

    Args:
        top: An empty folder; everybody may read it, since some tests act as another user.
    """

    def __init__(self, top: Path) -> None:
        self._top = top
        self._plain = self._folder("bin")
        for name in f"{PRODUCTS} {PLAIN}".split():
            if path := find(name):
                self._link(self._plain, name, path)
        # As an environment is made: the interpreter beside which this file is has no packages but its own library.
        interpreter = Path(getattr(sys, "_base_executable", None) or sys.executable)
        self._link(self._plain, "python3", interpreter)
        (top / "pyvenv.cfg").write_text(f"home = {interpreter.parent}\ninclude-system-site-packages = false\n")

    def path(self, item: pytest.Item) -> str:
        """The PATH of a test: what every machine has, and what the test requires."""
        return os.pathsep.join(map(os.fspath, [self._plain, *map(self._added, _required(item))]))

    def _added(self, name: str) -> Path:
        folder = self._top / name
        if not folder.exists():
            self._link(self._folder(name), name, program(name))
        return folder

    def _folder(self, name: str) -> Path:
        folder = self._top / name
        folder.mkdir()
        folder.chmod(0o755)
        return folder

    def _link(self, folder: Path, name: str, target: Path | str) -> None:
        (folder / name).symlink_to(target)
