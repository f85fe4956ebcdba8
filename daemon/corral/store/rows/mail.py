"""Rows of messages, and of what became of them at their recipients."""

from typing import Annotated, Any, TypedDict

from corral.store.rows import Id, Instant, Name, Sha


class MessageHeading(TypedDict):
    """Author and subject of a message."""

    sender_name: Name
    subject: str
    ack_required: bool


class MessageText(MessageHeading):
    """The parts of a message that a model is shown."""

    thread_id: Name
    body: str
    importance: Annotated[str, 8]
    attachments: list[str]
    created_at: Instant


class UnnumberedText(MessageText):
    """The visible parts of a message, but for its number."""

    message_id: Id
    reply_to: Id | None
    sender_session_id: Name | None
    kind: Annotated[str, 32]
    data: dict[str, Any]


class NewMessage(UnnumberedText):
    """A message that is to be stored; ``digest`` says what was sent under an idempotency key."""

    idempotency_key: Name | None
    digest: Sha | None


class MessageRow(NewMessage):
    """A message; ``sender_session_id`` null: Corral itself; ``kind`` is ``message``, or what happened (``task.completed``)."""

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

    session_id: Name
    name: Name
    role: Annotated[str, 3]
    bounced_at: Instant | None


class Seen(TypedDict):
    """The instants at which a recipient noticed a message.

    ``injected_at``: when it entered the model's context; ``way``: how (:class:`~corral.core.states.MailWay`); ``held_at``: when
    it held a Stop.
    """

    injected_at: Instant | None
    way: Annotated[str, 8] | None
    held_at: Instant | None
    read_at: Instant | None
    acknowledged_at: Instant | None


class RecipientRow(NewRecipient, Seen):
    """The state of a message at one recipient; ``seq`` is the message's own, so that an inbox is read from its end."""

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


class NoticeRow(TypedDict):
    """A notice, as it is stored."""

    notice_id: int
    session_id: Name
    text: str
    created_at: Instant
    injected_at: Instant | None
