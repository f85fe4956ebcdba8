"""The job that delivers notifications to the webhook: one at a time, retried with backoff, then given up.

The notifications wait in the database, so that a restart loses none. A step never waits for the network: each try runs in a
thread of its own, and one that takes too long is abandoned. Without an approved address, or without a secret to sign with,
nothing leaves the machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from corral.config.keys.webhook_secret import WebhookSecret
from corral.config.sections.alerts import Notifications
from corral.coordination.services import Services
from corral.core.instants import iso, parse
from corral.core.logs import logger
from corral.core.needs import Fault, Need
from corral.core.payload import Payload
from corral.core.redaction import redact, remember_secret
from corral.core.steps import Step
from corral.observe.alerts import store as alerts
from corral.observe.alerts.posting import NO_SECRET, Outcome, Posting
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
        """The secret; raises as :meth:`corral.config.keys.webhook_secret.WebhookSecret.find` does."""
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
        self._db.write(lambda conn: alerts.change_delivery(conn, row["delivery_id"], values))
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
