"""One signed POST to a webhook, in a thread of its own, with a limit for the whole of it."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from corral import __version__

FINAL = frozenset({*range(300, 500)} - {408, 425, 429})
"""Statuses after which another try would be answered alike; redirects are not followed, since only one address is approved."""


@dataclass(frozen=True)
class Outcome:
    """How a try ended.

    Attributes:
        error: None: it was delivered.
        is_final: Whether another try makes no sense.
    """

    error: str | None
    is_final: bool = False


NO_SECRET = Outcome("there is no secret to sign with")


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """The signature: HMAC-SHA256 of ``TIMESTAMP.BODY`` in hex, behind ``sha256=``."""
    return "sha256=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


class Posting:
    """One try of a delivery; the constructor starts it.

    Args:
        url: The address; http or https.
        body: The message.
        secret: Gives the signing secret, or None; may take long, and is called in the thread.
        now: For the timestamp.
        ended: Called in the thread when the try has ended.

    Attributes:
        outcome: None while it runs.
    """

    def __init__(
        self,
        url: str,
        body: dict[str, Any],
        secret: Callable[[], str | None],
        now: datetime,
        timeout_s: float,
        ended: Callable[[], None],
    ) -> None:
        self.outcome: Outcome | None = None
        self._url = url
        self._body = json.dumps(body, separators=(",", ":")).encode()
        self._delivery_id = str(body["delivery_id"])
        self._secret = secret
        self._timestamp = str(int(now.timestamp()))
        self._timeout_s = timeout_s
        self._ended = ended
        self._connection: http.client.HTTPConnection | None = None
        threading.Thread(target=self._run, name="webhook-post", daemon=True).start()

    def abandon(self) -> None:
        """Abandon the try: close its connection, which ends the thread."""
        connection = self._connection
        link = connection.sock if connection is not None else None
        if link is not None:
            with suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        try:
            secret = self._secret()
            self.outcome = NO_SECRET if secret is None else self._post(secret)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.outcome = Outcome(f"{type(error).__name__}: {error}")
        except Exception as error:  # noqa: BLE001 - the edge of a thread: a key store raises errors of its own
            self.outcome = Outcome(str(error))
        self._ended()

    def _post(self, secret: str) -> Outcome:
        parts = urlsplit(self._url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = connection = kind(parts.hostname or "", parts.port, timeout=self._timeout_s)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"corral/{__version__}",
            "X-Corral-Delivery": self._delivery_id,
            "X-Corral-Timestamp": self._timestamp,
            "X-Corral-Signature": sign(secret, self._timestamp, self._body),
        }
        try:
            connection.request("POST", path, self._body, headers)
            status = connection.getresponse().status
        finally:
            connection.close()
        return Outcome(None) if status // 100 == 2 else Outcome(f"it answered {status}", status in FINAL)
