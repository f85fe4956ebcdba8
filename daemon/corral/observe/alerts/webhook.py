"""The job that delivers notifications to the webhook: one at a time, retried with backoff, then given up.

The notifications wait in the database, so that a restart loses none. A step never waits for the network: each try runs in a
thread of its own, and one that takes too long is abandoned. Without an approved address, or without a secret to sign with,
nothing leaves the machine.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from corral import __version__
from corral.config.keys.lookup import WebhookSecret
from corral.config.sections.alerts import Notifications
from corral.coordination.services import Services
from corral.core.instants import iso, parse
from corral.core.logs import logger
from corral.core.needs import Fault, Need
from corral.core.payload import Payload
from corral.core.redaction import redact, remember_secret
from corral.core.steps import Step
from corral.observe.alerts import store as alerts
from corral.observe.view.needs_of_alerts import NOTIFICATIONS
from corral.store.protocol import Store
from corral.store.rows.records import DeliveryRow

FIRST_PAUSE_S, FACTOR, LONGEST_PAUSE_S = 1.0, 4.0, 3600.0
WITHOUT_SECRET_S = 60.0
"""Seconds until a notification without a signing secret is looked at again; that does not count as a try."""
_SET_SECRET = "corral config set-key --webhook; or set CORRAL_WEBHOOK_SECRET in the daemon's environment"

log = logger("webhook")


def pause_s(tries: int) -> float:
    """Seconds to wait after ``tries`` failed tries."""
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * FACTOR ** (tries - 1))


class SigningSecret:
    """Gives the secret, and keeps it out of logs and answers.

    Args:
        environ: The daemon's environment.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._places = WebhookSecret(environ)

    def __call__(self) -> str | None:
        """The secret; raises as :meth:`corral.config.keys.lookup.WebhookSecret.find` does."""
        secret = self._places.find()
        if secret is not None:
            remember_secret(secret)
        return secret


class Webhook:
    """Step: settle the try that ended, begin the next one that is due.

    Args:
        settings: The settings of the moment.
        url: The approved address; None: nothing may leave.
        secret: The secret to sign with; may take seconds.
        nudge: Asks for a step.
        settled: Called when a notification has been tried.
        faults: Where a person is told that it fails.
    """

    def __init__(
        self,
        db: Store,
        settings: Callable[[], Notifications],
        url: Callable[[], str | None],
        secret: Callable[[], str | None],
        nudge: Callable[[], None],
        settled: Callable[[], None],
        faults: dict[str, Need],
    ) -> None:
        self._db = db
        self._settings = settings
        self._url = url
        self._secret = secret
        self._nudge = nudge
        self._settled = settled
        self._fault = Fault(faults, "webhook", NOTIFICATIONS)
        self._current: tuple[DeliveryRow, Posting, datetime] | None = None

    def step(self, now: datetime) -> datetime | None:
        """Do what is due; returns when the next try is due, or when the running one ends at the latest."""
        if self._current is not None:
            row, posting, deadline = self._current
            outcome = posting.outcome
            left_s = (deadline - now).total_seconds()
            if outcome is None and 0 < left_s <= self._settings().webhook_timeout_s:
                return deadline
            if outcome is None:
                posting.abandon()
                outcome = Outcome(f"it did not answer within {self._settings().webhook_timeout_s:g} s")
            self._current = None
            self._settle(row, outcome, now)
        return self._begin(now)

    def _begin(self, now: datetime) -> datetime | None:
        row, url = self._db.read(alerts.next_delivery), self._url()
        if row is None or url is None:
            return None
        wait = parse(row["not_before_at"]) - now
        if (
            timedelta(0) < wait <= timedelta(seconds=max(LONGEST_PAUSE_S, WITHOUT_SECRET_S))
        ):  # no more: the clock was set back
            return now + wait
        timeout_s = self._settings().webhook_timeout_s
        posting = Posting(url, row["body"], self._secret, now, timeout_s, self._nudge)
        deadline = now + timedelta(seconds=timeout_s)
        self._current = row, posting, deadline
        return deadline

    def _settle(self, row: DeliveryRow, outcome: Outcome, now: datetime) -> None:
        tries = row["tries"] + 1
        error = redact(outcome.error) if outcome.error is not None else None
        values: Payload = {"tries": tries, "error": error}
        if outcome is NO_SECRET:
            values = {"error": error, "not_before_at": iso(now + timedelta(seconds=WITHOUT_SECRET_S))}
        elif error is None:
            values |= {"state": "delivered", "settled_at": iso(now)}
        elif outcome.is_final or tries >= self._settings().webhook_tries:
            values |= {"state": "failed", "settled_at": iso(now)}
        else:
            values |= {"not_before_at": iso(now + timedelta(seconds=pause_s(tries)))}
        self._db.write(alerts.change_delivery, row["delivery_id"], values)
        self._show(outcome, error, tries, now)
        self._settled()

    def _show(self, outcome: Outcome, error: str | None, tries: int, now: datetime) -> None:
        if error is None:
            self._fault.end()
            return
        log.warning("not_delivered", reason=error, tries=tries)
        remedy = _SET_SECRET if outcome is NO_SECRET else "corral alert test shows whether it works again."
        self._fault.show(f"Notifications do not reach the webhook: {error}.", remedy, now)


def job(services: Services) -> Step:
    """The job of this module."""
    webhook = Webhook(
        services.db,
        lambda: services.settings().notifications,
        services.settings.webhook,
        SigningSecret(os.environ),
        lambda: services.jobs["webhook"].nudge(),
        services.changes.announce,
        services.faults,
    )
    return Step("webhook", webhook.step, reads_settings=True)


# -- One signed POST to a webhook, in a thread of its own, with a limit for the whole of it

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
