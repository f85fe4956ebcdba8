"""The job that raises and resolves alerts, and tells a person of them and of everything else that needs one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from sqlalchemy import Connection

from corral.coordination.services import Services
from corral.core.extras import how_to_add
from corral.core.identifiers import new_id
from corral.core.logs import logger
from corral.core.needs import Need
from corral.core.redaction import redact
from corral.core.steps import Step
from corral.observe.alerts import alerts as operations
from corral.observe.alerts import news, rules
from corral.observe.alerts import store as alerts
from corral.observe.alerts.facts import EndedAttempts, gather
from corral.observe.alerts.news import News
from corral.observe.alerts.rules import Decision
from corral.observe.view.needs_of_alerts import NOTIFICATIONS

# -- Notifications on the desktop, by the library ``desktop-notifier`` (the extra ``desktop``).
#
# A thread of its own shows one notification at a time, so that a desktop that does not answer blocks nobody; what
# comes while one hangs is not shown.

Show = Callable[[str, str], None]
"""Shows a title and a text; raises what a desktop raises."""
_FAULT = "desktop"


def show_by_library(title: str, text: str) -> None:
    """Show a notification; imports the library, which is optional.

    Raises:
        ImportError: It is not installed.
    """
    from desktop_notifier import DesktopNotifierSync

    DesktopNotifierSync(app_name="Corral").send(title=title, message=text)


class Desktop:
    """Shows notifications; where that fails it stands under what needs a person, until one is shown.

    Args:
        faults: Where a person is told that it fails.
        show: Does it.
    """

    def __init__(self, faults: dict[str, Need], show: Show = show_by_library) -> None:
        self._faults = faults
        self._show = show
        self._thread: threading.Thread | None = None

    def show(self, title: str, text: str) -> None:
        """Begin to show a notification, and return at once."""
        if self._thread is not None and self._thread.is_alive():
            self._report_hang()
            return
        self._thread = threading.Thread(target=self._run, args=(title, text), name="desktop", daemon=True)
        self._thread.start()

    def problem(self) -> str | None:
        """Why notifications are not shown; None: the last one was, or there was none yet."""
        fault = self._faults.get(_FAULT)
        return fault.what if fault is not None else None

    def forget(self) -> None:
        """A person switched it off: that it failed needs nobody any more."""
        self._faults.pop(_FAULT, None)

    def outcome(self, timeout_s: float) -> str | None:
        """Wait until the last notification is shown; returns why it is not, or None. At the time limit it counts as not shown."""
        if self._thread is not None:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                self._report_hang()
        return self.problem()

    def _report_hang(self) -> None:
        self._failed("the desktop does not answer", "Look whether a notification service runs.")

    def _run(self, title: str, text: str) -> None:
        try:
            self._show(title, text)
        except ImportError:
            self._failed("the package desktop-notifier is not installed", f"Run `{how_to_add('desktop-notifier')}`.")
        except Exception as error:  # noqa: BLE001 - the edge of a thread: a desktop raises anything
            self._failed(f"{type(error).__name__}: {error}", "Look whether a notification service runs.")
        else:
            self._faults.pop(_FAULT, None)

    def _failed(self, why: str, remedy: str) -> None:
        if _FAULT not in self._faults:
            log.warning("desktop_notification_failed", reason=why)
        what = redact(f"Notifications cannot be shown on the desktop: {why}.")
        self._faults[_FAULT] = Need(NOTIFICATIONS, what, f"{remedy} Or: corral config set notifications.desktop false")


LOOK_EVERY = timedelta(seconds=60)
"""Between two looks while nothing is stored: disk and memory have no event."""
PAUSE_S = 2.0
"""Least time between two looks."""
MOST_WAITING = 100
"""Notifications that wait for the webhook; beyond them the oldest is dropped."""
DESKTOP_WITHIN_S = 5.0
"""How long a test notification waits for the desktop."""

log = logger("alerts")


class AlertWatch:
    """Step: judge the state once, then tell what is due.

    Args:
        desktop: Shows a notification.
    """

    def __init__(self, services: Services, desktop: Desktop) -> None:
        self._services = services
        self._desktop = desktop
        self._ended = EndedAttempts()
        self._held_back: set[tuple[str, str]] = set()
        self._seen: datetime | None = None
        self._sent: deque[datetime] = deque(maxlen=1000)

    def step(self, now: datetime) -> datetime:
        """Judge and notify once; returns when the next step is due."""
        decision = self._services.db.read(self._judge, now=now)
        if decision.raised or decision.again or decision.resolved:
            self._services.db.write(operations.apply, decision=decision, now=now)
            self._services.changes.announce()
        self._log_held_back(decision)
        return min(now + LOOK_EVERY, self._tell(now) or now + LOOK_EVERY)

    def _judge(self, conn: Connection, now: datetime) -> Decision:
        settings = self._services.settings().alerts
        facts = gather(self._services, conn, self._ended, now)
        findings = rules.evaluate(settings, facts, now) if settings.enabled else []
        return operations.judge(conn, findings, settings, now)

    def _log_held_back(self, decision: Decision) -> None:
        held = {(finding.rule, finding.subject) for finding in decision.held_back}
        if held - self._held_back:
            log.warning("alerts_held_back", rules=sorted({rule for rule, _subject in held}), count=len(held))
        self._held_back = held

    # -- notifying

    def _tell(self, now: datetime) -> datetime | None:
        """Notify of the news if it is due; returns when it will be due, or None without news."""
        chosen = self._services.settings().notifications
        url = self._services.settings.webhook()
        if not chosen.desktop:
            self._desktop.forget()
        if not chosen.desktop and url is None:
            self._seen = None
            return None
        with self._services.db.reading() as conn:
            batch = news.news(self._services, conn, now)
        if not batch:
            self._seen = None
            if batch.gone:
                self._services.db.write(news.mark, batch=batch, now=now)
            return None
        self._seen = self._seen or now
        due = news.due_at(self._seen, self._sent, chosen, now, local=now.astimezone())
        if due > now:
            return due
        self._seen = None
        self._sent.append(now)
        self._send(batch, now, to_webhook=url is not None)
        return None

    def test(self, now: datetime) -> Mapping[str, str | None]:
        """Send a test notification to every channel that is on; blocks until the desktop answers: not for the event loop.

        Returns:
            ``delivery_id`` of the webhook, or None if it is off or not approved; ``desktop``: what stands against showing
            it, or None.
        """
        what = "This is a test of Corral's notifications; nothing needs you."
        need = Need("test", what, "corral alert test").to_wire()
        to_webhook = self._services.settings.webhook() is not None
        delivery_id = self._send(News({"test": need}, (), ()), now, to_webhook=to_webhook, is_test=True)
        return {"delivery_id": delivery_id, "desktop": self._desktop.outcome(DESKTOP_WITHIN_S)}

    def _send(self, batch: News, now: datetime, *, to_webhook: bool, is_test: bool = False) -> str | None:
        delivery_id, project = new_id(), self._services.project.root.name
        body = news.message(batch, delivery_id=delivery_id, project=project, now=now, is_test=is_test)

        def store(conn: Connection) -> int:
            if not is_test:
                news.mark(conn, batch, now)
            return alerts.enqueue(conn, delivery_id, body, now, MOST_WAITING) if to_webhook else 0

        if dropped := self._services.db.write(store):
            log.warning("notifications_dropped", count=dropped, reason=f"more than {MOST_WAITING} wait for the webhook")
        if to_webhook:
            self._services.nudge("webhook")
        if self._services.settings().notifications.desktop and (shown := news.summary(batch, project)) is not None:
            self._desktop.show(*shown)
        return delivery_id if to_webhook else None


def job(services: Services) -> Step:
    """The job of this module."""
    watch = AlertWatch(services, Desktop(services.faults))
    services.bring(watch)
    return Step("alerts", watch.step, pause_s=PAUSE_S, reads_events=True, reads_settings=True)
