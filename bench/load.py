"""Load: concurrent connections, each sending one request after another, over a Unix socket.

The daemon speaks HTTP/1.1 and the reference daemon JSON lines; both are parsed by as little code as possible, since
client and server share the machine.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Load:
    """The results: every latency in ms, the number of refusals by rule (409) and the total time (s)."""

    latencies: list[float] = field(default_factory=list)
    refused: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.latencies) / self.seconds


def http(method: str, path: str, body: Any = None) -> bytes:
    """A request to the daemon."""
    data = b"" if body is None else json.dumps(body).encode()
    kind = "Content-Type: application/json\r\n" if data else ""
    head = f"{method} /api/v1{path} HTTP/1.1\r\nHost: localhost\r\n{kind}Content-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


def line(**fields: Any) -> bytes:
    """A request to the reference daemon."""
    return json.dumps(fields).encode() + b"\n"


class Link(asyncio.Protocol):
    """One connection, which asks one request after another; ``body``: of the last answer over HTTP."""

    def __init__(self) -> None:
        self._data = self.body = b""
        self._answer: asyncio.Future[int] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def ask(self, request: bytes) -> asyncio.Future[int]:
        """Send a request; the future returns the status."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._data += data
        if self._data.startswith(b"HTTP"):
            head, separator, body = self._data.partition(b"\r\n\r\n")
            at = head.lower().find(b"content-length:")
            if not separator or len(body) < int(head[at + 15 :].split(b"\r\n", 1)[0]):
                return
            status, self.body = int(head[9:12]), body
        elif self._data.endswith(b"\n"):
            status = 200
        else:
            return
        self._data = b""
        assert self._answer is not None
        self._answer.set_result(status)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError("the daemon closed the connection"))

    def close(self) -> None:
        assert self._transport is not None
        self._transport.close()


async def _drive(path: Path, plans: Sequence[Iterable[bytes]]) -> Load:
    loop, load = asyncio.get_running_loop(), Load()
    links = [(await loop.create_unix_connection(Link, str(path)))[1] for _ in plans]

    async def one(link: Link, plan: Iterable[bytes]) -> None:
        for request in plan:
            began = time.perf_counter()
            status = await link.ask(request)
            load.latencies.append((time.perf_counter() - began) * 1000)
            if status == 409:
                load.refused += 1
            elif status >= 400:
                raise RuntimeError(f"the daemon answered {status} to {request[:200]!r}")

    began = time.perf_counter()
    try:
        await asyncio.gather(*(one(link, plan) for link, plan in zip(links, plans, strict=True)))
    finally:
        for link in links:
            link.close()
    load.seconds = time.perf_counter() - began
    return load


def drive(path: Path, plans: Sequence[Iterable[bytes]]) -> Load:
    """Run every plan on its own connection, all at once."""
    return asyncio.run(_drive(path, plans))
