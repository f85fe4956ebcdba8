"""Messages between sessions: send, reply, get, mark as read, acknowledge (:mod:`corral.coordination.mail.mailbox` reads many).

A message's text is data: it is stored as it came, within limits, and nobody's answer to a hook or a screen shows it without
marking it as such (:mod:`corral.coordination.mail.mailing`). A receipt is ``queued``, ``injected`` (it entered
the model's context), ``read``, ``acknowledged``, or ``bounced``: the recipient was gone.
Bounced mail stays in the inbox for a session that comes back.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import Literal

from sqlalchemy import Connection

from corral.coordination.mail.addresses import SYSTEM, Addressee, Identity, Roles, heir, no_roles, recipients
from corral.coordination.mail.store import messages as message_rows
from corral.core.errors import Conflict, IdempotencyKeyConflict, InvalidInput, NotFound, cause_of_name
from corral.core.events import EventKind
from corral.core.identifiers import ordered_id
from corral.core.instants import iso
from corral.core.payload import Payload
from corral.core.states import Importance, RecipientRole, SessionStatus
from corral.store import events
from corral.store.rows.mail import MessageRow, NewRecipient, RecipientState

BODY_LIMIT = 64 * 1024
"""Bytes of a body, as UTF-8."""
SUBJECT_LIMIT = 500
PATH_LIMIT = 1024
"""Characters of an attachment's path."""
PER_MINUTE = 300
"""Messages that one sender may send within a minute."""
_THREAD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Control characters, and what separates lines and paragraphs."""
_LISTED = "fetch_inbox lists what is there; so does `corral message inbox`."
_IMPORTANCES = Importance.values()
ReadColumn = Literal["read_at", "acknowledged_at"]


class QuotaExceeded(Conflict):
    """A sender sends too much."""

    status = 429
    name = "resource_exhausted"
    default_cause = f"A sender may send {PER_MINUTE} messages a minute."
    default_remedy = "Wait a minute; put what belongs together into one message."


class InvalidThread(InvalidInput):
    """The text cannot be a thread's id."""

    name = "invalid_thread_id"


@dataclass(frozen=True)
class Letter:
    """A message to be sent.

    Attributes:
        thread_id: None begins a thread of its own.
        attachments: Paths relative to the repository's root.
        idempotency_key: The same letter with the same key is sent once.
        kind: ``message``, or what happened.
        data: Facts for programs, in what Corral itself sends.
    """

    subject: str
    body: str
    to: tuple[str, ...] = ()
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()
    importance: str = Importance.NORMAL.value
    ack_required: bool = False
    thread_id: str | None = None
    reply_to: str | None = None
    attachments: tuple[str, ...] = ()
    idempotency_key: str | None = None
    kind: str = "message"
    data: Payload = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The fields that two messages with one idempotency key must have in common: all."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Sent:
    """A message that is stored; ``replayed``: it was before, under the same key."""

    message: MessageRow
    recipients: list[RecipientState]
    replayed: bool = False

    @property
    def bounced(self) -> list[str]:
        """The names of the recipients that are gone."""
        return [recipient["name"] for recipient in self.recipients if recipient["bounced_at"] is not None]


def send(conn: Connection, sender: Identity | None, letter: Letter, now: datetime, *, roles: Roles = no_roles) -> Sent:
    """Store a message for everybody it names, or for nobody.

    Args:
        sender: None: Corral itself.

    Raises:
        InvalidInput: It is too long, or something in it is malformed; there is no recipient.
        RecipientNotFound: A recipient does not exist.
        IdempotencyKeyConflict: The key was used for another letter.
        QuotaExceeded: The sender sends too much.
    """
    _check(letter)
    author = sender.session_id if sender is not None else None
    if letter.idempotency_key is not None:
        earlier = message_rows.by_key(conn, author, letter.idempotency_key)
        if earlier is not None:
            if earlier["digest"] != letter.digest:
                raise IdempotencyKeyConflict(f"The key {letter.idempotency_key!r} was used for another message.")
            return Sent(earlier, message_rows.recipients(conn, earlier["seq"]), replayed=True)
    if author is not None:
        _within_quota(conn, author, now)
    by_role = ((RecipientRole.TO, letter.to), (RecipientRole.CC, letter.cc), (RecipientRole.BCC, letter.bcc))
    addressed = [(address, role) for role, addresses in by_role for address in addresses]
    addressees = recipients(conn, author, addressed, roles, now)
    at, message_id = iso(now), ordered_id(now)
    row, receipts = message_rows.create(
        conn,
        {
            "message_id": message_id,
            "thread_id": letter.thread_id or message_id,
            "reply_to": letter.reply_to,
            "sender_session_id": author,
            "sender_name": sender.name if sender is not None else SYSTEM,
            "kind": letter.kind,
            "subject": _one_line(letter.subject),
            "body": _storable(letter.body),
            "data": letter.data,
            "importance": letter.importance,
            "ack_required": letter.ack_required,
            "attachments": list(letter.attachments),
            "idempotency_key": letter.idempotency_key,
            "digest": letter.digest if letter.idempotency_key is not None else None,
            "created_at": at,
        },
        [_recipient(addressee, at) for addressee in addressees],
    )
    sent = Sent(row, receipts)
    bounced = [
        recipient["name"]
        for recipient in sent.recipients
        if recipient["bounced_at"] and recipient["role"] != RecipientRole.BCC
    ]
    event = EventKind.MESSAGE_SENT(
        {"message_id": message_id, "seq": row["seq"], "thread_id": row["thread_id"], "bounced": bounced}
    )
    events.record(conn, at, event, session_id=author)
    return sent


def _recipient(addressee: Addressee, at: str) -> NewRecipient:
    gone = addressee["status"] == SessionStatus.DISCONNECTED
    session_id, name, role = addressee["session_id"], addressee["name"], addressee["role"]
    return {"session_id": session_id, "name": name, "role": role, "bounced_at": at if gone else None}


def reply(
    conn: Connection, sender: Identity, reference: str, letter: Letter, now: datetime, *, roles: Roles = no_roles
) -> Sent:
    """Answer a message, in its thread and with its importance; without recipients, to its sender.

    Args:
        letter: Its subject is what comes before the original's.

    Raises:
        NotFound: No such message.
    """
    original = get(conn, reference)
    if original["sender_session_id"] is None and not letter.to:
        raise InvalidInput(
            "Corral itself does not read mail.", remedy="Name who shall get the answer.", details={"to": []}
        )
    prefix, subject = letter.subject.strip(), original["subject"]
    if prefix and not subject.lower().startswith(prefix.lower()):
        subject = f"{prefix} {subject}"
    answer = replace(
        letter,
        subject=subject[:SUBJECT_LIMIT],
        to=letter.to or (heir(conn, str(original["sender_session_id"])),),
        importance=original["importance"],
        ack_required=bool(original["ack_required"]),
        thread_id=original["thread_id"],
        reply_to=original["message_id"],
    )
    return send(conn, sender, answer, now, roles=roles)


def get(conn: Connection, reference: str | int) -> MessageRow:
    """One message, by its number or its id.

    Raises:
        NotFound: No such message.
    """
    row = message_rows.find(conn, str(reference))
    if row is None:
        name = str(reference)
        raise NotFound(f"There is no message {name[:80]!r}.", cause=cause_of_name(name), remedy=_LISTED)
    return row


def mark_read(conn: Connection, session_id: str, reference: str | int, now: datetime) -> RecipientState:
    """The recipient has read a message; returns the receipt. The first time counts.

    Raises:
        NotFound: It is not in this session's inbox.
    """
    return _mark(conn, session_id, reference, ("read_at",), now)


def acknowledge(conn: Connection, session_id: str, reference: str | int, now: datetime) -> RecipientState:
    """The recipient acknowledges a message, and has read it; returns the receipt. The first time counts.

    Raises:
        NotFound: It is not in this session's inbox.
    """
    return _mark(conn, session_id, reference, ("read_at", "acknowledged_at"), now)


def _mark(
    conn: Connection, session_id: str, reference: str | int, columns: Sequence[ReadColumn], now: datetime
) -> RecipientState:
    message = get(conn, reference)
    before = message_rows.receipt(conn, session_id, message["seq"])
    if before is None:
        raise NotFound(
            f"Message {message['seq']} is not in your inbox.", cause="Only a recipient can mark it.", remedy=_LISTED
        )
    message_rows.mark(conn, session_id, [message["seq"]], columns, iso(now))
    if before[columns[-1]] is None and before["role"] != RecipientRole.BCC:
        kind = EventKind.MESSAGE_ACKNOWLEDGED if "acknowledged_at" in columns else EventKind.MESSAGE_READ
        events.record(conn, now, kind({"message_id": message["message_id"]}), session_id=session_id)
    receipt = message_rows.receipt(conn, session_id, message["seq"])
    assert receipt is not None
    return receipt


# -- what a letter may hold


def _check(letter: Letter) -> None:
    if letter.importance not in _IMPORTANCES:
        raise InvalidInput(
            f"{letter.importance[:40]!r} is not an importance.", remedy=f"Use one of: {', '.join(_IMPORTANCES)}."
        )
    size = len(letter.body.encode("utf-8", "surrogatepass"))
    if size > BODY_LIMIT:
        raise InvalidInput(
            f"The body has {size} bytes; {BODY_LIMIT} are possible.",
            remedy="Write it to a file of the repository, and send its path as an attachment.",
        )
    if not _one_line(letter.subject) or len(letter.subject) > SUBJECT_LIMIT:
        raise InvalidInput("The subject is empty or too long.", remedy=f"Use 1 to {SUBJECT_LIMIT} characters.")
    if letter.thread_id is not None and not _THREAD.fullmatch(letter.thread_id):
        raise InvalidThread(
            f"{letter.thread_id[:80]!r} cannot be a thread.",
            remedy="Use up to 128 letters, digits, dots, dashes or underscores, beginning with a letter or digit.",
        )
    if letter.idempotency_key is not None and not 1 <= len(letter.idempotency_key) <= 128:
        raise InvalidInput("An idempotency key has 1 to 128 characters.")
    if len(letter.attachments) > 100:
        raise InvalidInput("At most 100 attachments are possible.")
    for path in letter.attachments:
        _check_attachment(path)


def _check_attachment(path: str) -> None:
    parts = PurePosixPath(path).parts
    if len(path) > PATH_LIMIT:
        raise InvalidInput(f"The path of an attachment has at most {PATH_LIMIT} characters.")
    if not parts or path.startswith(("/", "~")) or ".." in parts or "\\" in path or not path.isprintable():
        raise InvalidInput(
            f"{path[:120]!r} cannot be attached.",
            cause="An attachment is a path inside the repository, relative to its root.",
            remedy="Put the file into the repository and name it like `src/a.py`.",
        )


def _within_quota(conn: Connection, session_id: str, now: datetime) -> None:
    before = message_rows.sent_at(conn, session_id, PER_MINUTE - 1)
    if before is not None and before > iso(now - timedelta(minutes=1)):
        raise QuotaExceeded(f"More than {PER_MINUTE} messages within a minute; this one was not sent.")


def _one_line(text: str) -> str:
    return " ".join(_CONTROL.sub(" ", _storable(text)).split())


def _storable(text: str) -> str:
    """Text that a database can hold: half a surrogate pair and NUL are escaped."""
    return text.replace("\0", "\u2400").encode("utf-8", "backslashreplace").decode()
