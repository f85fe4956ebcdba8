"""An HTTP server whose answers have no end, and how much memory a command takes that meets it."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import psutil

from tests.support.coordinated import Coordinated

MOST = 2_000_000_000
"""Bytes after which an answer ends all the same, so that a defect does not take the whole machine."""
_LINE = b"003f" + b"1" * 40 + b" refs/tags/v1.0.0aaaa\n"
_ENDLESS: dict[str, tuple[bytes, bytes]] = {
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X-More: " + b"x" * 1000 + b"\r\n"),
    "line": (b"HTTP/1.1 200 OK\r\nX-More: ", b"x" * 1000),
    "body": (b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n\r\n"
             b"001e# service=git-upload-pack\n0000", _LINE),
    "redirect": (b"HTTP/1.1 302 Found\r\nLocation: /redirect/ours.tar.gz\r\n\r\n", b"x" * 1000),
    "archive": (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 1000),
    "drip": (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 400),
}  # fmt: skip
"""By the first part of the address: the beginning of the answer, and what follows for ever."""


@dataclass
class Flood:
    """The server; ``gone`` counts the clients that went away before the end."""

    port: int
    gone: list[str] = field(default_factory=list)

    def url(self, how: str, name: str = "ours.git") -> str:
        """The address of an answer without an end."""
        return f"http://127.0.0.1:{self.port}/{how}/{name}"


@contextlib.contextmanager
def flood() -> Iterator[Flood]:
    """A server that runs; its answers end with the context."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        made, over = Flood(int(listening.getsockname()[1])), threading.Event()

        def answer(client: socket.socket) -> None:
            with client:
                how = client.recv(65536).split(b" ")[1].decode().split("/")[1]
                begin, more = _ENDLESS[how]
                many = more * (1 if how == "drip" else (1 << 20) // len(more))
                try:
                    client.sendall(begin)
                    for _ in range(MOST // len(many)):
                        client.sendall(many)
                        if over.wait(0.1 if how == "drip" else 0):
                            return
                except OSError:
                    made.gone.append(how)

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=answer, args=(listening.accept()[0],), daemon=True).start()

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield made
        over.set()
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
    serving.join(30)


@dataclass(frozen=True)
class Measured:
    """A command that has ended: what it said, the most memory that it and its descendants had together, and who of them lives."""

    returncode: int
    stderr: str
    peak: int
    left: list[int]


def measured(house: Coordinated, *args: str) -> Measured:
    """Run a command, and measure the resident memory of all of its processes fifty times a second."""
    command = [sys.executable, "-m", "corral", *args]
    with subprocess.Popen(
        command, cwd=house.root, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:  # fmt: skip
        top = psutil.Process(process.pid)
        peak, seen, deadline = 0, set[psutil.Process](), time.monotonic() + 240
        while process.poll() is None:
            size = 0
            with contextlib.suppress(psutil.Error):
                for measured_process in (top, *top.children(recursive=True)):
                    seen.add(measured_process)
                    size += measured_process.memory_info().rss
            peak = max(peak, size)
            if time.monotonic() > deadline:
                process.kill()
            time.sleep(0.02)
        assert process.stderr is not None
        errors = process.stderr.read()
    _, left = psutil.wait_procs(seen, timeout=5)  # who was killed may take a moment to go
    return Measured(
        process.returncode, errors, peak, [process.pid for process in left if process.status() != psutil.STATUS_ZOMBIE]
    )
