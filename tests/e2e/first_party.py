"""The stage in the place of ``api.anthropic.com``, for what a client does against no other address: Code Mode.

The client reaches it through a proxy on loopback, and trusts a certificate that was made for the test.
"""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.stage import Json, Server, Stage, handler_of
from tests.support.programs import program

HOST = "api.anthropic.com"
ANSWERS: dict[str, Json] = {"/api/claude_code/policy_limits": {"restrictions": {}}}


@contextmanager
def first_party(stage: Stage, folder: Path) -> Iterator[dict[str, str]]:
    """Serve the stage under that name; gives the variables by which a client comes here, in place of ``ANTHROPIC_BASE_URL``."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    made = ("-keyout", str(key), "-out", str(certificate), "-days", "2", "-subj", f"/CN={HOST}")
    named = ("-addext", f"subjectAltName=DNS:{HOST}")
    argv = [program("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", *made, *named]
    subprocess.run(argv, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    class Handler(handler_of(stage)):  # type: ignore[misc]
        request: socket.socket

        def do_CONNECT(self) -> None:
            if self.path != f"{HOST}:443":
                self.send_error(403)
                return
            self.send_response_only(200)
            self.end_headers()
            tunnel = context.wrap_socket(self.request, server_side=True)
            self.connection = self.request = tunnel
            self.rfile, self.wfile = tunnel.makefile("rb"), tunnel.makefile("wb", buffering=0)
            self.close_connection = False

        def finish(self) -> None:
            super().finish()
            self.request.close()

        def do_GET(self) -> None:
            answer = ANSWERS.get(self.path.partition("?")[0])
            self._json(404 if answer is None else 200, answer or {})

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield {
            "HTTPS_PROXY": f"http://127.0.0.1:{server.server_address[1]}",
            "NODE_EXTRA_CA_CERTS": str(certificate),
        }
        server.shutdown()
        thread.join()
