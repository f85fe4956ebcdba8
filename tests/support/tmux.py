"""Real terminals: windows of a tmux server of its own, with keys pressed and screens read from outside."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.coordinated import eventually
from tests.support.programs import program


class Window:
    """A terminal in which one program runs."""

    def __init__(self, server: Tmux, name: str) -> None:
        self._server, self._target = server, f"={name}:"

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names of them."""
        self._server.run("send-keys", "-t", self._target, *keys)

    def type(self, text: str) -> None:
        """Type a text."""
        self._server.run("send-keys", "-t", self._target, "-l", text)

    def click(self, text: str) -> None:
        """Click on a text that it shows, with the left button."""
        lines = self.screen().splitlines()
        row, column = next((row, line.index(text)) for row, line in enumerate(lines) if text in line)
        at = f"0;{column + 1 + len(text) // 2};{row + 1}"
        self.type(f"\x1b[<{at}M\x1b[<{at}m")

    def paste(self, text: str) -> None:
        """Paste a text, as a terminal does it for programs that ask for it."""
        self._server.run("set-buffer", text)
        self._server.run("paste-buffer", "-p", "-t", self._target)

    def screen(self, *how: str) -> str:
        """What it shows; with ``-e`` the colours too."""
        return self._server.run("capture-pane", "-p", "-t", self._target, *how)

    def sees(self, *wanted: str) -> str:
        """Wait until it shows all of these, a line that is broken at the edge taken as one; what it shows."""
        try:
            return str(
                eventually(lambda: (text := self.screen("-J")) and all(words in text for words in wanted) and text)
            )
        except AssertionError as error:
            raise AssertionError(f"{wanted} did not come true:\n{self.screen()}") from error

    @property
    def tty(self) -> str:
        """Its device, as ``tty`` prints it there."""
        return self._server.run("display-message", "-p", "-t", self._target, "#{pane_tty}").strip()

    @property
    def pid(self) -> int:
        """The process that it was opened with."""
        return int(self._server.run("display-message", "-p", "-t", self._target, "#{pane_pid}"))

    def close(self) -> None:
        """Close it, as a person closes a window: whatever runs in it."""
        self._server.run("kill-session", "-t", self._target)

    def record(self, file: Path) -> None:
        """Append from here on what the program writes to a file."""
        self._server.run("pipe-pane", "-t", self._target, f"cat >> {shlex.quote(str(file))}")


class Tmux:
    """A server; ``end`` it. The test is skipped where tmux is not installed.

    Args:
        folder: An existing folder for its socket.
    """

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "tmux"
        self._count = 0
        self._tmux = program("tmux")

    def run(self, *args: str) -> str:
        """Run one command of tmux."""
        argv = [self._tmux, "-S", str(self._socket), "-f", "/dev/null", *args]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout

    def open(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], size: tuple[int, int] = (80, 24)
    ) -> Window:
        """Start a program in a terminal of that size, with that environment and nothing else in it."""
        name = f"w{self._count}"
        self._count += 1
        variables = [f"{key}={value}" for key, value in {**env, "TERM": "screen-256color"}.items()]
        command = shlex.join(["env", "-i", *variables, *argv])
        width, height = map(str, size)
        self.run("new-session", "-d", "-s", name, "-x", width, "-y", height, "-c", str(cwd), command)
        self.run("set-option", "-s", "exit-empty", "off")
        return Window(self, name)

    def end(self) -> None:
        """End it, and all programs in it."""
        if self._count:
            self.run("kill-server")
