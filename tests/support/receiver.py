"""A real HTTP server that receives notifications: it verifies signatures, fails, drips or hangs as it is told."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

SECRET = "whsec-0123456789-abcdefghij"


class Received(NamedTuple):
    """A request, and whether its signature is right."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    is_signed: bool


class Receiver:
    """The server's side of a test.

    Attributes:
        answers: The statuses of the next requests; ``hang``: no answer before the end; ``drip``: a header that never ends.
    """

    def __init__(self, url: str, closing: threading.Event) -> None:
        self.url = url
        self.answers: list[int | str] = []
        self.received: list[Received] = []
        self.closing = closing


@contextmanager
def receiver() -> Iterator[Receiver]:
    """A receiver on loopback; it ends with the context."""
    closing = threading.Event()
    made: list[Receiver] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(lambda: made[0]))
    server.daemon_threads = True
    made.append(Receiver(f"http://127.0.0.1:{server.server_address[1]}/hook?room=4", closing))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield made[0]
    finally:
        closing.set()
        server.shutdown()
        server.server_close()


def _handler(of: Callable[[], Receiver]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            own, headers = of(), dict(self.headers)
            body = self.rfile.read(int(headers["Content-Length"]))
            expected = hmac.new(SECRET.encode(), f"{headers['X-Corral-Timestamp']}.".encode() + body, hashlib.sha256)
            is_signed = hmac.compare_digest(f"sha256={expected.hexdigest()}", headers["X-Corral-Signature"])
            answer = own.answers.pop(0) if own.answers else 200
            own.received.append(Received(self.path, headers, json.loads(body), is_signed))
            if answer == "hang":
                own.closing.wait(30)
            elif answer == "drip":
                with suppress(OSError):
                    while not own.closing.wait(0.05):
                        self.wfile.write(b"x")
            else:
                self.send_response(int(answer))
                self.send_header("Location", own.url)
                self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
