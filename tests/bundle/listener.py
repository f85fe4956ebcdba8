"""A tiny HTTP server on a Unix socket, which stands where the daemon stands and says what a test wants."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corral.config.paths import find_project, socket_path

Body = dict[str, Any]
Answer = Callable[[str, Body], "Body | bytes | None"]


@dataclass
class Listener:
    """What was heard: hook events in order, the held requests that were opened and closed, the number of connections."""

    events: list[tuple[str, Body]] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    connections: int = 0

    def named(self) -> list[str]:
        """The names of the events, in order."""
        return [name for name, _ in self.events]


def nothing(_event: str, _body: Body) -> Body:
    return {}


@contextlib.contextmanager
def listening(path: Path, answer: Answer = nothing) -> Iterator[Listener]:
    """Listen at ``path``; ``answer`` gives the JSON object, raw bytes for the wire, or None to hang up unanswered."""
    heard = Listener()
    links: list[socket.socket] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            heard.opened.append(self.path)
            with contextlib.suppress(OSError):
                self.connection.recv(1)
            heard.closed.append(self.path)
            self.close_connection = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.path.startswith("/mcp"):  # it has no tools
                self.send_error(503)
                return
            event = self.path.removeprefix("/api/v1/hooks/")
            heard.events.append((event, body))
            reply = answer(event, body)
            if reply is None or isinstance(reply, bytes):
                self.wfile.write(reply or b"")
                self.close_connection = True
                return
            data = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
        daemon_threads = True
        block_on_close = False
        request_queue_size = 64

        def get_request(self) -> tuple[Any, Any]:
            link, _ = super().get_request()
            links.append(link)
            heard.connections += 1
            return link, ("client", 0)

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    server = Server(str(path), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield heard
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        for link in links:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
            link.close()
        path.unlink(missing_ok=True)


def coordinate(root: Path) -> Path:
    """Make a repository look as ``corral init`` leaves it, and return where the daemon's socket belongs."""
    (root / ".corral" / "run").mkdir(parents=True)
    (root / ".corral" / "config.yaml").write_text("{}\n")
    sock = socket_path(find_project(root))
    sock.parent.mkdir(parents=True, exist_ok=True)
    (root / ".corral" / "run" / "daemon.json").write_text(json.dumps({"socket": str(sock)}))
    return sock
