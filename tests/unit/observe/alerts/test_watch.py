"""The way to the desktop, with a notifier of the test's own: no desktop can be had here, so the library itself is not tried."""

from __future__ import annotations

import sys
import threading

import pytest

from corral.core.extras import how_to_add
from corral.core.needs import Need
from corral.observe.alerts.watch import Desktop

PATIENCE_S = 20


class OwnNotifier:
    """Shows a notification by keeping it; fails or hangs as it is told."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str]] = []
        self.error: Exception | None = None
        self.let_go = threading.Event()
        self.let_go.set()

    def __call__(self, title: str, text: str) -> None:
        self.let_go.wait(PATIENCE_S)
        if self.error is not None:
            raise self.error
        self.shown.append((title, text))


@pytest.mark.req("FR-MONITOR-005")
def test_it_shows_says_why_it_cannot_and_waits_for_nobody() -> None:
    faults: dict[str, Need] = {}
    own = OwnNotifier()
    desktop = Desktop(faults, own)
    desktop.show("shop: something needs you", "main is red")
    desktop.outcome(PATIENCE_S)
    assert own.shown == [("shop: something needs you", "main is red")] and desktop.problem() is None
    own.error = RuntimeError("no bus, token=sk-ant-0123456789abcdef")
    desktop.show("a", "b")
    problem = desktop.outcome(PATIENCE_S)
    assert problem is not None and "no bus" in problem and "sk-ant-0123456789abcdef" not in problem
    assert [need.kind for need in faults.values()] == ["notifications"]
    own.error = None
    own.let_go.clear()
    desktop.show("hangs", "b")
    desktop.show("meanwhile", "b")
    assert "does not answer" in next(iter(faults.values())).what or "no bus" in next(iter(faults.values())).what
    assert "does not answer" in str(desktop.outcome(0.01)), "what hangs is not called shown"
    desktop.forget()
    assert faults == {}, "a desktop that was switched off needs nobody"
    own.let_go.set()
    desktop.outcome(PATIENCE_S)
    assert [title for title, _ in own.shown][1:] == ["hangs"] and faults == {}


def test_without_the_library_a_person_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "desktop_notifier", None)  # as if it were not installed
    faults: dict[str, Need] = {}
    desktop = Desktop(faults)
    desktop.show("a", "b")
    desktop.outcome(PATIENCE_S)
    (need,) = faults.values()
    assert (
        "desktop-notifier is not installed" in need.what and f"Run `{how_to_add('desktop-notifier')}`." in need.remedy
    )
