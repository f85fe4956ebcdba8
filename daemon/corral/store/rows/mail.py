"""Rows of messages, and of what became of them at their recipients."""

from __future__ import annotations

from typing import Any, TypedDict


class MessageHeading(TypedDict):
    """Author and subject of a message."""

    sender_name: str
    subject: str
    ack_required: bool


class MessageText(MessageHeading):
    """The parts of a message that a model is shown."""

    thread_id: str
    body: str
    importance: str
    attachments: list[str]
    created_at: str


class UnnumberedText(MessageText):
    """The visible parts of a message, but for its number."""

    message_id: str
    reply_to: str | None
    sender_session_id: str | None
    kind: str
    data: dict[str, Any]


class NewMessage(UnnumberedText):
    """A message that is to be stored."""

    idempotency_key: str | None
    digest: str | None


class MessageRow(NewMessage):
    """A message."""

    seq: int


class SentAt(TypedDict):
    """When a message was sent."""

    created_at: str


class InboxMessage(UnnumberedText):
    """A message in an inbox: to whom, and where it stands there."""

    seq: int
    addressed: str
    role: str
    state: str
    way: str | None


class WrittenMessage(TypedDict):
    """A message in an inbox as the text of a JSON object."""

    id: int
    to: str
    text: str


class WaitingMessage(MessageText):
    """A message that has not entered its recipient's context; ``body`` is its beginning."""

    seq: int
    injected_at: str | None


class UnseenMessage(TypedDict):
    """A message that its recipient never saw."""

    message_id: str
    seq: int
    subject: str
    thread_id: str
    sender_session_id: str | None
    addressed: str
    role: str


class NewRecipient(TypedDict):
    """A recipient of a message; ``name``: as it was addressed."""

    session_id: str
    name: str
    role: str
    bounced_at: str | None


class Seen(TypedDict):
    """The instants at which a recipient noticed a message, and which way it went."""

    injected_at: str | None
    way: str | None
    held_at: str | None
    read_at: str | None
    acknowledged_at: str | None


class RecipientRow(NewRecipient, Seen):
    """The state of a message at one recipient."""

    seq: int


class RecipientState(RecipientRow):
    """The state of a message at one recipient, with its state in one word."""

    state: str


class AwaitedSession(TypedDict):
    """A session for which mail waits, and since when."""

    session_id: str
    client_pid: int | None
    status: str
    since: str


class Correspondent(TypedDict):
    """A session with which another one has exchanged mail, and the time of the last message."""

    session_id: str
    at: str


class Notice(TypedDict):
    """A notice for a session's next hook answer; ``text`` is its beginning."""

    notice_id: int
    text: str
