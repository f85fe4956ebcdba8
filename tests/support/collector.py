"""An OpenTelemetry collector as a process of its own: it decodes what it gets, fails or hangs as it is told, dies and comes back.

``python -m tests.support.collector FOLDER PORT``: in ``FOLDER``, ``received.jsonl`` has a line per request that was decoded, and
``mode`` says how to answer: a status, ``hang`` (no answer), ``drip`` (an answer that never ends), ``flood`` (a redirect whose
body has no end; ``flooded`` says how many bytes of it were taken), ``reject`` (a partial success).
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.coordinated import eventually

MOST_FLOODED = 200 << 20
ROOT = Path(__file__).resolve().parents[2]


class Collector:
    """The test's side of the process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.answer("200")

    @property
    def url(self) -> str:
        """As a person writes it: without a path."""
        return f"http://127.0.0.1:{self.port}"

    def answer(self, mode: str) -> None:
        """Answer so from now on."""
        partial = self.folder / "mode.new"
        partial.write_text(mode)
        partial.replace(self.folder / "mode")

    def start(self) -> None:
        """Start it, on the same port as before."""
        ready = self.folder / "port"
        ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", "tests.support.collector", str(self.folder), str(self.port)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        self.port = int(eventually(lambda: ready.exists() and ready.read_text()))

    def kill(self) -> None:
        """Kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def requests(self) -> list[dict[str, Any]]:
        """Each ``{path, mode, resource, spans}``, in their order."""
        file = self.folder / "received.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def spans(self) -> list[dict[str, Any]]:
        """The spans that were acknowledged, in their order; each as often as it was."""
        return [
            span for request in self.requests() if request["mode"] in ("200", "reject") for span in request["spans"]
        ]

    def trace(self, trace_id: str) -> list[dict[str, Any]]:
        """The acknowledged spans of a trace in the order of their begin."""
        return sorted(
            (span for span in self.spans() if span["trace_id"] == trace_id), key=lambda span: int(span["start"])
        )


@contextmanager
def collector(folder: Path) -> Iterator[Collector]:
    """A collector that runs; it ends with the context."""
    folder.mkdir()
    made = Collector(folder)
    made.start()
    try:
        yield made
    finally:
        made.kill()


def _values(attributes: Any) -> dict[str, Any]:
    return {attribute.key: getattr(attribute.value, attribute.value.WhichOneof("value")) for attribute in attributes}


def _decoded(body: bytes) -> dict[str, Any]:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    (resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
    (scope,) = resource.scope_spans
    spans = [
        {
            "name": span.name,
            "kind": span.kind,
            "trace_id": span.trace_id.hex(),
            "span_id": span.span_id.hex(),
            "parent_id": span.parent_span_id.hex(),
            "start": str(span.start_time_unix_nano),
            "end": str(span.end_time_unix_nano),
            "status": span.status.code,
            "attributes": _values(span.attributes),
            "links": [[link.trace_id.hex(), link.span_id.hex()] for link in span.links],
            "events": [[event.name, _values(event.attributes)] for event in span.events],
        }
        for span in scope.spans
    ]
    return {"resource": _values(resource.resource.attributes), "scope": scope.scope.name, "spans": spans}


def _handler(folder: Path) -> type[BaseHTTPRequestHandler]:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            mode = (folder / "mode").read_text()
            about = {"path": self.path, "mode": mode, "key": self.headers.get("x-key")}
            line = json.dumps({**about, **_decoded(body)}) + "\n"
            with (folder / "received.jsonl").open("a") as file:
                file.write(line)  # one write: a reader sees the whole line or none
            if mode == "hang":
                time.sleep(600)
            elif mode == "drip":
                self._drip()
            elif mode == "flood":
                self._flood()
            else:
                self._answer(200 if mode == "reject" else int(mode), mode)

        def _answer(self, status: int, mode: str) -> None:
            answer = ExportTraceServiceResponse()
            if mode == "reject":
                answer.partial_success.rejected_spans = 2
                answer.partial_success.error_message = "too old"
            self.send_response(status)
            self.send_header("Content-Type", "application/x-protobuf")
            if status == 429:
                self.send_header("Retry-After", "40")
            if status == 302:
                self.send_header("Location", f"http://127.0.0.1:{self.connection.getsockname()[1]}/elsewhere")
            self.end_headers()
            self.wfile.write(answer.SerializeToString())

        def _drip(self) -> None:
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while True:
                    self.wfile.write(b"x")
                    time.sleep(0.05)

        def _flood(self) -> None:
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.end_headers()
            taken = 0
            with suppress(OSError):
                while taken < MOST_FLOODED:
                    self.wfile.write(bytes(1 << 20))
                    taken += 1 << 20
            (folder / "flooded.new").write_text(str(taken))
            (folder / "flooded.new").replace(folder / "flooded")

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


def main(folder: Path, port: int) -> None:
    """Serve until it is killed."""
    server = ThreadingHTTPServer(("127.0.0.1", port), _handler(folder))
    partial = folder / "port.new"
    partial.write_text(str(server.server_address[1]))
    partial.replace(folder / "port")
    server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
