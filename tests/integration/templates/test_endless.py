"""A server that never stops sending: git is killed at the bound, and the disk is free again."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.coordinated import Coordinated

SHA = "1" * 40
MOST = 320_000_000
"""Bytes after which it stops all the same; the bound is 200 MB."""


def pkt(text: bytes) -> bytes:
    return b"%04x" % (len(text) + 4) + text


def pack() -> Iterator[bytes]:
    """A pack with one blob of 4 GB, stored without compression."""
    size, first, rest = 1 << 32, 0xB0, bytearray()
    more = size >> 4
    while more:
        rest.append((more & 0x7F) | (0x80 if more >> 7 else 0))
        more >>= 7
    yield b"PACK" + struct.pack(">II", 2, 1) + bytes([first | (size & 0xF)]) + bytes(rest) + b"\x78\x01"
    block = b"\x00" + struct.pack("<HH", 0xFFFF, 0) + b"x" * 0xFFFF
    for _ in range(MOST // len(block)):
        yield block


def answer(client: socket.socket) -> None:
    """Speak as ``git upload-pack`` does, to a client that lists the refs or fetches."""
    with client, contextlib.suppress(OSError), client.makefile("rb") as asked:
        asked.read(int(asked.read(4), 16) - 4)
        refs = f"{SHA} HEAD\0side-band-64k shallow ofs-delta\n", f"{SHA} refs/tags/v1.0.0\n"
        client.sendall(b"".join(pkt(ref.encode()) for ref in refs) + b"0000")
        flushes = 0
        while (length := asked.read(4)) != b"0009":  # `done`
            if not length:
                return
            if length == b"0000":
                flushes += 1
                if flushes == 1:
                    client.sendall(pkt(f"shallow {SHA}".encode()) + b"0000")
                continue
            asked.read(int(length, 16) - 4)
        client.sendall(pkt(b"NAK\n"))
        for data in pack():
            for start in range(0, len(data), 60_000):
                client.sendall(pkt(b"\x01" + data[start : start + 60_000]))


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    answer(listening.accept()[0])

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield int(listening.getsockname()[1])
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
    serving.join(30)


@pytest.mark.slow("git writes 200 MB before it is killed")
@pytest.mark.req("NFR-SEC-004", "FR-TMPL-001")
def test_an_endless_template_is_stopped_and_leaves_nothing(repo: Path, port: int) -> None:
    house = Coordinated(repo)
    done = house.run("init", "--template", f"git://127.0.0.1:{port}/ours", "--yes", check=False, timeout_s=240)
    assert done.returncode != 0 and "bytes and was killed" in done.stderr and "1 try" in done.stderr, done.stderr
    assert not (repo / ".corral").exists()
    cached = Path.home() / ".cache/corral/templates"
    assert sum(file.stat().st_size for file in cached.rglob("*") if file.is_file()) < 1_000_000
