"""Messages as Agent Mail names them. Without a name it is the caller's own session that sends, or whose inbox is meant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from corral.coordination.mail import mailbox, mailing, messages
from corral.coordination.mail.addresses import EVERYBODY, Identity, known
from corral.coordination.mail.api import LAST
from corral.coordination.mail.messages import Letter, Sent
from corral.coordination.mail.store import messages as message_rows
from corral.coordination.projects import PROJECT_ID, slug
from corral.core.errors import InvalidInput
from corral.core.instants import after, iso
from corral.core.pages import SHOWN_BYTES, Page, page
from corral.core.payload import Payload
from corral.core.states import MailWay, RecipientRole
from corral.faces.mcp.acting import Text, Texts, act, is_agent_of, listed, look
from corral.faces.mcp.calls import current, mail_tool


@mail_tool
async def send_message(
    to: Texts,
    subject: str,
    body_md: str,
    cc: Texts = (),
    bcc: Texts = (),
    attachment_paths: Texts = (),
    importance: str = "normal",
    ack_required: bool = False,
    thread_id: Text = "",
    idempotency_key: Text = "",
    project_key: Text = "",
    sender_name: Text = "",
    broadcast: bool = False,
) -> Payload:
    """Send mail to agents by name, to roles, or to "all". importance: low, normal, high, urgent (holds the reader's stop)."""
    if broadcast and to:
        raise InvalidInput("A broadcast has no recipients of its own.", remedy='Leave `to` empty, or send to "all".')
    letter = Letter(
        subject=subject,
        body=body_md,
        to=(EVERYBODY,) if broadcast else to,
        cc=cc,
        bcc=bcc,
        importance=importance,
        ack_required=ack_required,
        thread_id=thread_id or None,
        attachments=attachment_paths,
        idempotency_key=idempotency_key or None,
    )
    roles = current.get().services.teams().members
    sent = await act(project_key, sender_name, lambda conn, me, now: messages.send(conn, me, letter, now, roles=roles))
    return delivered(sent)


@mail_tool
async def reply_message(
    message_id: int | str,
    body_md: str,
    to: Texts = (),
    cc: Texts = (),
    bcc: Texts = (),
    subject_prefix: Text = "Re:",
    idempotency_key: Text = "",
    project_key: Text = "",
    sender_name: Text = "",
) -> Payload:
    """Answer a message in its thread; to its sender unless others are named."""
    letter = Letter(subject_prefix, body_md, to=to, cc=cc, bcc=bcc, idempotency_key=idempotency_key or None)
    roles = current.get().services.teams().members
    sent = await act(
        project_key,
        sender_name,
        lambda conn, me, now: messages.reply(conn, me, str(message_id), letter, now, roles=roles),
    )
    return {**payload(sent.message, sent.recipients), "reply_to": message_id, **delivered(sent)}


@mail_tool
async def fetch_inbox(
    limit: int = 20,
    urgent_only: bool = False,
    include_bodies: bool = False,
    since_ts: Text = "",
    before: int | None = None,
    unread_only: bool = False,
    mark_read: bool = False,
    ack_overdue_only: bool = False,
    project_key: Text = "",
    agent_name: Text = "",
) -> Any:
    """Your mail, the newest first; since_ts: only what came after that ISO time, before: only lower ids. It stays unread until
    you say otherwise."""

    def fetch(conn: Connection, me: Identity, now: datetime) -> Page:
        mail = mailbox.inbox(
            conn,
            me.session_id,
            urgent_only=urgent_only,
            unread_only=unread_only,
            overdue_at=after(now, -mailing.ACK_WITHIN_S) if ack_overdue_only else None,
            since_ts=since_ts or None,
            before=None if before is None else (before, LAST),
            limit=limit,
        )
        entries = shown(conn, me.session_id, mail, now, bodies=include_bodies)
        for row in entries.rows if mark_read else ():
            messages.mark_read(conn, me.session_id, row["id"], now)
        return entries

    inbox = await act(project_key, agent_name, fetch)
    return listed(inbox.rows, f"before={inbox.last['id']} tells what is older" if inbox.cut else None)


def shown(conn: Connection, session_id: str, mail: Iterable[Mapping[str, Any]], now: datetime, *, bodies: bool) -> Page:
    """As much of a session's mail as a model is told at once; what it is told whole has entered its context."""
    numbers: list[int] = []

    def entries() -> Iterator[Payload]:
        for row in mail:
            numbers.append(row["seq"])
            yield entry(row, bodies=bodies)

    fitting = page(entries(), size=SHOWN_BYTES)
    if bodies:
        message_rows.mark_injected(conn, session_id, numbers[: len(fitting.rows)], MailWay.TOOL, iso(now))
    return fitting


@mail_tool
async def mark_message_read(
    message_id: int | str,
    project_key: Text = "",
    agent_name: Text = "",
) -> Payload:
    """Mark a message of your inbox as read."""
    receipt = await act(
        project_key, agent_name, lambda conn, me, now: messages.mark_read(conn, me.session_id, message_id, now)
    )
    return {"message_id": message_id, "read": True, "read_at": receipt["read_at"]}


@mail_tool
async def acknowledge_message(
    message_id: int | str,
    project_key: Text = "",
    agent_name: Text = "",
) -> Payload:
    """Acknowledge a message of your inbox; that also marks it as read."""
    receipt = await act(
        project_key, agent_name, lambda conn, me, now: messages.acknowledge(conn, me.session_id, message_id, now)
    )
    return {
        "message_id": message_id,
        "acknowledged": True,
        "acknowledged_at": receipt["acknowledged_at"],
        "read_at": receipt["read_at"],
    }


@mail_tool
async def search_messages(
    query: str,
    limit: int = 20,
    project_key: Text = "",
    agent_name: Text = "",
) -> Any:
    """Messages of the project that hold all the words, the best match first; agent_name: only those it sent or got."""
    call = current.get()

    def find(conn: Connection) -> list[Payload]:
        agent = known(conn, agent_name) if agent_name else None
        session_id = agent["session_id"] if agent else None
        asker = session_id if agent and is_agent_of(call.connection, agent) else call.actor
        return [
            {key: value for key, value in entry(row).items() if key in _FOUND}
            for row in mailbox.find(conn, query, session_id=session_id, asker=asker, limit=limit)
        ]

    return listed(await look(project_key, find, searched="messages"))


_FOUND = ("id", "subject", "importance", "ack_required", "created_ts", "thread_id", "from")


def entry(row: Mapping[str, Any], *, bodies: bool = False) -> Payload:
    """A message as Agent Mail's inbox and threads show it."""
    shape = {
        "id": row["seq"],
        "project_id": PROJECT_ID,
        "sender_id": row["sender_session_id"],
        "thread_id": row["thread_id"],
        "topic": None,
        "subject": row["subject"],
        "importance": row["importance"],
        "ack_required": bool(row["ack_required"]),
        "created_ts": row["created_at"],
        "attachments": row["attachments"],
        "from": row["sender_name"],
    }
    if "role" in row:
        shape |= {"kind": row["role"], "state": row["state"], "way": row["way"]}
    return {**shape, **({"body_md": row["body"]} if bodies else {})}


def recipients_of(conn: Connection, number: int) -> Payload:
    """The recipients of a message, as its sender is told them: ``{to, cc, bcc}``."""
    return _by_role(message_rows.recipients(conn, number))


def _by_role(recipients: Iterable[Mapping[str, Any]]) -> Payload:
    by_role: Payload = {role.value: [] for role in RecipientRole}
    for recipient in recipients:
        by_role[recipient["role"]].append(recipient["name"])
    return by_role


def payload(message: Mapping[str, Any], recipients: Sequence[Mapping[str, Any]]) -> Payload:
    """A message as Agent Mail tells its sender of it."""
    services = current.get().services
    return {
        **entry(message, bodies=True),
        "project": str(services.project.root),
        "project_slug": slug(services),
        **_by_role(recipients),
        "created": message["created_at"],
    }


def delivered(sent: Sent) -> Payload:
    """The answer to a sender; beyond Agent Mail's: recipients that are gone (``bounced``), and a replay."""
    message = payload(sent.message, sent.recipients)
    return {
        "deliveries": [{"project": message["project"], "payload": message}],
        "count": 1,
        "verified_sender": True,  # nobody else was let in
        **({"bounced": sent.bounced} if sent.bounced else {}),
        **({"idempotent_replay": True} if sent.replayed else {}),
    }
