"""Messages: what is asked for, and what is answered."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from corral.coordination.sessions.api import Acting, Caller
from corral.core.answers import Instant
from corral.core.states import Importance, MailWay, RecipientRole

MOST_AT_ONCE = 1000
"""Messages in one answer."""
LAST = "~"
"""No name of an agent comes behind it."""
MAX_RECIPIENTS = 1000
"""Names in one of the lists of a message."""


class Answering(Caller):
    """An answer to a message."""

    body: str = Field(description="The text.", examples=["Yes, it is yours in a minute."])
    to: list[str] = Field(
        default_factory=list, max_length=MAX_RECIPIENTS, description="Send to this recipient instead of the sender."
    )
    cc: list[str] = Field(default_factory=list, max_length=MAX_RECIPIENTS, description="Add a recipient in copy.")
    bcc: list[str] = Field(default_factory=list, max_length=MAX_RECIPIENTS, description="Add a blind-copy recipient.")
    attachments: list[str] = Field(default_factory=list, max_length=100, description="A path in the repository.")
    idempotency_key: str | None = Field(
        None, max_length=128, description="Idempotency key: the message is sent once per key."
    )


class Sending(Answering):
    """A message."""

    body: str = Field(description="The text.", examples=["I need it for ten minutes."])
    to: list[str] = Field(
        default_factory=list,
        max_length=MAX_RECIPIENTS,
        description="Recipients: agents by name, roles of the team, or `all`.",
        examples=[["GreenLake"]],
    )
    subject: str = Field(description="Subject.", examples=["May I have src/a.py?"])
    importance: Importance = Field(
        default=Importance.NORMAL, description="Importance; an urgent one holds the reader's next Stop once."
    )
    ack_required: bool = Field(default=False, description="Request an acknowledgement.")
    thread_id: str | None = Field(None, max_length=128, description="Thread of the message.")


class Inbox(Acting):
    """Which mail is asked for."""

    session_id: str | None = Field(None, max_length=128, description="Whose inbox; none named: the person's.")
    agent: str | None = Field(
        None,
        max_length=128,
        description="Agent whose mail to show, without blind copies; only itself and a person may ask (default: the caller).",
    )
    everyone: bool = Field(False, description="Show the mail of the whole project.")
    urgent_only: bool = Field(False, description="Only high and urgent messages.")
    unread_only: bool = Field(False, description="Only unread messages.")
    ack_overdue_only: bool = Field(False, description="Only messages whose acknowledgement is over 30 minutes late.")
    since_ts: str | None = Field(None, max_length=64, description="Only messages after this instant.")
    after: int | None = Field(None, ge=0, description="Only messages with a higher number.")
    before: int | None = Field(None, ge=0, le=2**53, description="Only messages with a lower number.")
    before_to: str = Field(LAST, max_length=128, description="Of `before` itself, only recipients behind this name.")
    limit: int = Field(20, ge=1, le=MOST_AT_ONCE, description="Maximum number of messages.")
    wait_s: float = Field(0, ge=0, le=25, description="Wait so long for the first one.")


ReceiptState = Literal["queued", "injected", "read", "acknowledged", "bounced"]
"""Where a message stands at a recipient; ``injected``: it has entered the model's context, ``bounced``: nobody was there."""
Way = MailWay | None
"""How a message entered the model's context; None: it has not, or its recipient found it without being told.

``hook``: with a hook's answer, ``wake``: it woke a session at rest, ``turn``: into a running turn, ``prompt``: as the prompt of a
turn of its own (these two by the mod), ``runner``: on the input of a worker, ``tool``: with the answer of a tool.
"""
_From = TypedDict("_From", {"from": str})


class Message(_From):
    """A message, by its number ``id``.

    ``kind``: ``message``, or what happened, of what Corral sends; ``data`` then has facts about it. ``reply_to``: the
    ``message_id`` of what it answers; ``attachments``: paths in the repository.
    """

    id: int
    message_id: str
    thread_id: str
    reply_to: str | None
    kind: str
    subject: str
    body: str
    importance: Importance
    ack_required: bool
    attachments: list[str]
    data: dict[str, Any]
    created_at: Instant


class InboxMessage(Message):
    """A message in an inbox: as whom it addresses the recipient, where it stands there, and which way it came."""

    to: str
    role: RecipientRole
    state: ReceiptState
    way: Way


class MailReceipt(TypedDict):
    """Where a message stands at one recipient, since when, and which way it came there."""

    name: str
    session_id: str
    role: RecipientRole
    state: ReceiptState
    way: Way
    injected_at: Instant | None
    read_at: Instant | None
    acknowledged_at: Instant | None
    bounced_at: Instant | None


class MessageDetail(Message):
    """A message with its receipts; without those of blind copies, but for the sender."""

    recipients: list[MailReceipt]


class Sent(MessageDetail):
    """A message that was sent.

    ``bounced``: the recipients that are gone, and get it when they come back; ``replayed``: it had been sent before, under the
    same idempotency key.
    """

    success: bool
    bounced: list[str]
    replayed: bool


class Read(TypedDict):
    """A message that is marked as read; ``read_at``: the first time."""

    success: bool
    id: int
    state: ReceiptState
    read_at: Instant


class Acknowledged(Read):
    """A message that is acknowledged."""

    acknowledged_at: Instant


class Contact(TypedDict):
    """An agent with whom mail was exchanged; ``active``: whether it is here, ``updated_at``: when the last."""

    to: str
    status: Literal["approved"]
    active: bool
    updated_at: Instant
