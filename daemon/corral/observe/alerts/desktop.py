"""Notifications on the desktop, by the library ``desktop-notifier`` (the extra ``desktop``).

A thread of its own shows one notification at a time, so that a desktop that does not answer blocks nobody; what comes while one
hangs is not shown.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from corral.core.logs import logger
from corral.core.needs import Need
from corral.core.redaction import redact
from corral.observe.view.needs_of_alerts import NOTIFICATIONS

Show = Callable[[str, str], None]
"""Shows a title and a text; raises what a desktop raises."""
_FAULT = "desktop"

log = logger("alerts")


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
        """Wait until the last notification is shown; returns why it is not, or None. One that still hangs then is not shown."""
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
            self._failed("the package desktop-notifier is not installed", "pip install 'corral[desktop]'.")
        except Exception as error:  # noqa: BLE001 - the edge of a thread: a desktop raises anything
            self._failed(f"{type(error).__name__}: {error}", "Look whether a notification service runs.")
        else:
            self._faults.pop(_FAULT, None)

    def _failed(self, why: str, remedy: str) -> None:
        if _FAULT not in self._faults:
            log.warning("desktop_notification_failed", reason=why)
        what = redact(f"Notifications cannot be shown on the desktop: {why}.")
        self._faults[_FAULT] = Need(NOTIFICATIONS, what, f"{remedy} Or: corral config set notifications.desktop false")
