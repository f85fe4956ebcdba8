"""What the tests fork commands from outlives whoever asks it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.forked import Forks

pytestmark = pytest.mark.one_python


def test_a_test_that_is_killed_while_it_asks_for_a_command_takes_none_along(forks: Forks) -> None:
    for part in (b"", b"\0\0", (100).to_bytes(8, "big"), (100).to_bytes(8, "big") + b"{"):
        with socket.socket(socket.AF_UNIX) as killed, Path(os.devnull).open() as null:
            killed.connect(forks.address())
            if part:
                socket.send_fds(killed, [part], [null.fileno()] * 3)
    done = subprocess.run([sys.executable, "-m", "corral", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()[0]) == (0, "corral"), done.stderr
