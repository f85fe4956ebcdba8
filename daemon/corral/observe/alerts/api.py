"""Alerts: what is asked for, and what is answered."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from corral.core.answers import Instant, one_of

WAIT_S = 15.0
"""For the webhook's answer to a test, where nothing else is asked for."""


class NotificationTest(BaseModel):
    """How long to wait for the webhook, seconds."""

    wait_s: float = Field(WAIT_S, ge=0, le=60, examples=[15])


class Alert(TypedDict):
    """A rule that fired.

    ``subject``: what it fired for, such as an agent; ``times``: how often it was raised, at first at ``first_raised_at``.
    """

    alert_id: str
    rule: str
    subject: str
    reason: str
    remedy: str
    times: int
    first_raised_at: Instant
    raised_at: Instant
    acknowledged_at: Instant | None
    resolved_at: Instant | None
    state: Literal["raised", "acknowledged", "resolved"]


class DesktopTest(TypedDict):
    """What came of a test on the desktop."""

    state: Literal["off", "sent", "failed"]
    problem: str | None


class WebhookTest(TypedDict):
    """What came of a test over the webhook; ``waiting``: it is tried again; ``not_approved``: its address is not trusted."""

    state: Annotated[str, one_of("off", "not_approved", "waiting", "delivered", "dropped")]
    tries: int
    error: str | None
    delivery_id: str | None


class NotificationTested(TypedDict):
    """What came of a test on each way; ``bell``: whether it is on, in terminals."""

    bell: bool
    desktop: DesktopTest
    webhook: WebhookTest
