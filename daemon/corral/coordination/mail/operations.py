"""Messages over HTTP. ``session_id`` names the session that asks; none named: the person at the keyboard."""

from __future__ import annotations

import time
from typing import Annotated

from pydantic import Field
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response

from corral.coordination.mail import addresses, mailbox, mailing, messages
from corral.coordination.mail.api import (
    MOST_AT_ONCE,
    Acknowledged,
    Answering,
    Inbox,
    InboxMessage,
    Message,
    MessageDetail,
    Read,
    Sending,
    Sent,
)
from corral.coordination.mail.messages import Letter
from corral.coordination.mail.store import messages as message_rows
from corral.coordination.services import Services
from corral.coordination.sessions import claims
from corral.coordination.sessions.actor import person
from corral.coordination.sessions.api import Caller
from corral.coordination.sessions.callers import act
from corral.core import instants
from corral.core.errors import IdempotencyKeyConflict, NotFound
from corral.core.pages import Page, answer, listed, page
from corral.core.payload import Payload, picked
from corral.core.routing import EVERYONE, PROJECT, Routes
from corral.store.rows.mail import MessageRow

router = Routes("messages", "/messages", scope=PROJECT, callers=EVERYONE)
OF_A_SENDER = (addresses.RecipientNotFound, messages.QuotaExceeded, IdempotencyKeyConflict)
Before = Annotated[int | None, Field(ge=0, le=2**53, description="Only messages with a lower number.")]


def _sent(sent: messages.Sent) -> Payload:
    return {
        "success": True,
        **mailing.wire(sent.message),
        "recipients": mailing.receipts(sent.recipients, hidden=True),
        "bounced": sent.bounced,
        "replayed": sent.replayed,
    }


@router.post("", status=201, answer=Sent, errors=(*OF_A_SENDER, messages.InvalidThread))
async def send(services: Services, body: Sending) -> Payload:
    """Send a message to everybody it names, or to nobody."""
    letter = Letter(
        subject=body.subject,
        importance=body.importance.value,
        ack_required=body.ack_required,
        thread_id=body.thread_id,
        **_common(body),
    )
    roles = services.teams().members
    return _sent(await act(services, body, lambda conn, me, now: messages.send(conn, me, letter, now, roles=roles)))


def _common(body: Answering) -> Payload:
    return {
        "body": body.body,
        "to": tuple(body.to),
        "cc": tuple(body.cc),
        "bcc": tuple(body.bcc),
        "attachments": tuple(body.attachments),
        "idempotency_key": body.idempotency_key,
    }


@router.get("", answer=list[InboxMessage], errors=(mailbox.InvalidInstant,))
async def inbox(services: Services, request: Request, query: Inbox) -> Response:
    """An inbox, the newest first; reading it changes nothing. Another agent's is only for a person."""
    whose = query.session_id or person()
    if (agent := query.agent) and not query.everyone:
        whose = (await services.store.read(addresses.known, agent))["session_id"]
        await claims.require_speaker(services, request.scope, whose, is_chosen=False)

    def fetch(conn: Connection) -> Page:
        mail = mailbox.inbox(
            conn,
            None if query.everyone else whose,
            blind=not query.agent,
            urgent_only=query.urgent_only,
            unread_only=query.unread_only,
            overdue_at=instants.after(services.now(), -mailing.ACK_WITHIN_S) if query.ack_overdue_only else None,
            since_ts=query.since_ts,
            after=query.after,
            before=None if query.before is None else (query.before, query.before_to),
            limit=query.limit,
            written=None if query.everyone else mailing.ADDRESSED,
        )
        if query.everyone:
            return page(map(mailing.wire, mail), query.limit)
        return page(map(dict, mail), query.limit, text=lambda row: row["text"].encode())

    deadline = time.monotonic() + query.wait_s
    while True:
        mail = await services.store.read_inline(fetch)
        remaining_s = deadline - time.monotonic()
        if mail.rows or remaining_s <= 0 or services.stopping:
            return answer(request, mail, lambda row: {"before": row["id"], "before_to": row["to"]})
        await services.changes.next(remaining_s)


@router.get("/search", answer=list[Message], errors=(NotFound,))
async def search(
    services: Services,
    q: Annotated[str, Field(max_length=1000, description="Words to search for; all must occur.")],
    agent: Annotated[str | None, Field(max_length=128, description="Only messages from or to this agent.")] = None,
    limit: Annotated[int, Field(ge=1, le=200, description="Maximum number of messages.")] = 20,
) -> Response:
    """Messages that hold all the words, the best match first; of long ones as many as fit."""

    def find(conn: Connection) -> Page:
        whose = addresses.known(conn, agent)["session_id"] if agent else None
        rows = mailbox.find(conn, q, session_id=whose, limit=limit)
        return page(map(mailing.wire, rows), limit)

    return Response(listed((await services.store.search("messages", find)).texts), media_type="application/json")


@router.get("/threads/{thread_id}", answer=list[MessageDetail])
async def thread(
    services: Services,
    request: Request,
    thread_id: str,
    before: Before = None,
    limit: Annotated[int, Field(ge=1, le=MOST_AT_ONCE)] = MOST_AT_ONCE,
) -> Response:
    """The last messages of a thread, the oldest first, each with its receipts."""

    def look(conn: Connection) -> Page:
        rows = mailbox.thread(conn, thread_id, before=before, limit=limit)
        return page((_detail(conn, row) for row in rows), limit)

    return answer(request, await services.store.read(look), lambda row: {"before": row["id"]}, backwards=True)


@router.get("/{message_id}", answer=MessageDetail)
async def show(services: Services, message_id: str) -> Payload:
    """One message, by its number or its id, with its receipts."""
    return await services.store.read(lambda conn: _detail(conn, messages.get(conn, message_id)))


def _detail(conn: Connection, row: MessageRow) -> Payload:
    return {**mailing.wire(row), "recipients": mailing.receipts(message_rows.recipients(conn, row["seq"]))}


@router.post("/{message_id}/reply", status=201, answer=Sent, errors=OF_A_SENDER)
async def reply(services: Services, message_id: str, body: Answering) -> Payload:
    """Answer a message, in its thread and with its importance."""
    letter, roles = Letter(subject="Re:", **_common(body)), services.teams().members
    return _sent(
        await act(services, body, lambda conn, me, now: messages.reply(conn, me, message_id, letter, now, roles=roles))
    )


@router.post("/{message_id}/read", answer=Read)
async def read(services: Services, message_id: str, caller: Caller) -> Payload:
    """Mark a message of the caller's inbox as read; the first time counts."""
    receipt = await act(
        services, caller, lambda conn, me, now: messages.mark_read(conn, me.session_id, message_id, now)
    )
    return {"success": True, "id": receipt["seq"], **picked(receipt, ("state", "read_at"))}


@router.post("/{message_id}/acknowledge", answer=Acknowledged)
async def acknowledge(services: Services, message_id: str, caller: Caller) -> Payload:
    """Acknowledge a message of the caller's inbox, which also marks it as read; the first time counts."""
    receipt = await act(
        services, caller, lambda conn, me, now: messages.acknowledge(conn, me.session_id, message_id, now)
    )
    return {"success": True, "id": receipt["seq"], **picked(receipt, ("state", "read_at", "acknowledged_at"))}
