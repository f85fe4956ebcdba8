"""A person at a terminal who answers the prompts of a command."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Sequence

from tests.support.coordinated import Coordinated


def answered(house: Coordinated, command: Sequence[str], answers: Sequence[tuple[str, str]]) -> tuple[int, str]:
    """Run a command on a terminal, and type an answer whenever its prompt appears.

    Args:
        answers: ``(end of the prompt, answer)``, in the order of the prompts.

    Returns:
        The exit code, and everything that the terminal showed.
    """
    main, line = pty.openpty()
    env = {**os.environ, "TERM": "dumb", "COLUMNS": "200"}
    argv = [sys.executable, "-m", "corral", *command]
    process = subprocess.Popen(
        argv, cwd=house.root, env=env, stdin=line, stdout=line, stderr=line, start_new_session=True
    )
    os.close(line)
    seen, at = "", 0
    try:
        for prompt, answer in answers:
            while prompt not in seen[at:]:
                part = _read(main)
                assert part, f"{prompt!r} was not asked:\n{seen}"
                seen += part
            at = len(seen)
            os.write(main, f"{answer}\n".encode())
        while part := _read(main):
            seen += part
        return process.wait(30), seen.replace("\r\n", "\n")
    finally:
        os.close(main)
        process.kill()
        process.wait()


def _read(terminal: int) -> str:
    """What is shown next; empty once the program has ended."""
    until = time.monotonic() + 60
    while not select.select([terminal], [], [], 1.0)[0]:
        assert time.monotonic() < until, "nothing more was shown"
    try:
        return os.read(terminal, 65536).decode("utf-8", "replace")
    except OSError:  # the other end is closed
        return ""
