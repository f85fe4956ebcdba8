"""Agent Mail's resources: inboxes, outboxes, threads, reservations, agents, and what the server is."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import Any

from sqlalchemy import Connection

from corral.coordination.locks import table as lock_table
from corral.coordination.mail import mailbox, messages
from corral.coordination.mail.addresses import SEAT, Identity
from corral.coordination.mail.api import LAST
from corral.coordination.mail.store import mailbox as mailbox_rows
from corral.coordination.mail.tools import entry, recipients_of
from corral.coordination.projects import environment, project_of
from corral.coordination.sessions.registry import PERSON
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.instants import iso
from corral.core.pages import MOST, SHOWN_BYTES, Page, page
from corral.core.payload import Payload
from corral.core.states import SessionStatus
from corral.faces.mcp.acting import act, contents, known_as, look
from corral.faces.mcp.calls import current, mail_tool, show_token
from corral.faces.mcp.registration import profile
from corral.store.rows.sessions import SessionRow

MOST_GONE = 100
"""Agents whose session is over, the last to begin."""


@mail_tool
async def inbox(
    agent: str,
    project: str = "",
    since_ts: str = "",
    urgent_only: bool = False,
    include_bodies: bool = False,
    limit: int = 20,
    before: int = 0,
    agent_token: str = "",
) -> str:
    """An inbox of your own, the newest first."""
    await show_token(agent_token)

    def fetch(conn: Connection, me: Identity, now: datetime) -> Payload:
        rows = mailbox.inbox(
            conn,
            me.session_id,
            urgent_only=urgent_only,
            since_ts=since_ts or None,
            before=(before, LAST) if before else None,
            limit=limit,
        )
        mail = page((entry(row, bodies=include_bodies) for row in rows), size=SHOWN_BYTES)
        return {"agent": me.name, "count": len(mail.rows), "messages": mail.rows, **_left_out(mail)}

    return _json_text(await act(project, agent, fetch))


@mail_tool
async def mailbox_with_commits(
    agent: str, project: str = "", limit: int = 20, before: int = 0, agent_token: str = ""
) -> str:
    """The same as an inbox, without bodies: messages are no commits here."""
    await show_token(agent_token)

    def fetch(conn: Connection, me: Identity, now: datetime) -> Payload:
        rows = mailbox.inbox(conn, me.session_id, before=(before, LAST) if before else None, limit=limit)
        mail = page(({**entry(row), "commit": None} for row in rows), size=SHOWN_BYTES)
        return {"agent": me.name, "count": len(mail.rows), "messages": mail.rows, **_left_out(mail)}

    return _json_text(await act(project, agent, fetch))


@mail_tool
async def outbox(
    agent: str,
    project: str = "",
    limit: int = 20,
    include_bodies: bool = False,
    since_ts: str = "",
    before: int = 0,
    agent_token: str = "",
) -> str:
    """What you sent, the newest first, with its recipients."""
    await show_token(agent_token)

    def fetch(conn: Connection, me: Identity, now: datetime) -> Payload:
        rows = mailbox.outbox(conn, me.session_id, since_ts=since_ts or None, before=before or None, limit=limit)
        sent = ({**entry(row, bodies=include_bodies), **recipients_of(conn, row["seq"])} for row in rows)
        mail = page(sent, size=SHOWN_BYTES)
        return {"agent": me.name, "count": len(mail.rows), "messages": mail.rows, **_left_out(mail)}

    return _json_text(await act(project, agent, fetch))


@mail_tool
async def message(message_id: str, project: str = "") -> str:
    """One message, with its body."""
    return json.dumps(await look(project, lambda conn: entry(messages.get(conn, message_id), bodies=True)))


@mail_tool
async def agents(project_key: str) -> str:
    """The agents of the project, the last alive first; those whose session is over apart from the others."""
    services = current.get().services
    project = project_of(services)
    about = {name: project[name] for name in ("slug", "human_key")}
    return json.dumps({"project": about, **await look(project_key, _agents)})


@mail_tool
async def project(slug: str) -> str:
    """The project, and its agents."""
    listed = await look(slug, _agents)
    more = {key: listed[key] for key in listed if key == "left_out"}
    return json.dumps({**project_of(current.get().services), "agents": listed["agents"], **more})


def _agents(conn: Connection) -> Payload:
    def shown(rows: Iterable[SessionRow]) -> Iterator[Payload]:
        for row in rows:
            if row["agent_type"] not in (PERSON, SEAT):
                name = known_as(conn, [(row["session_id"], row["agent_name"])])[row["session_id"]]
                over = {"retired_at": row["ended_at"]} if row["ended_at"] else {}
                unread = mailbox_rows.count_unread(conn, row["session_id"])
                yield {**profile(conn, name), "id": row["session_id"], "unread_count": unread, **over}

    here = page(shown(session_rows.live(conn)), size=SHOWN_BYTES)
    gone = page(
        shown(islice(session_rows.latest(conn, [SessionStatus.DISCONNECTED]), MOST_GONE)), size=SHOWN_BYTES // 2
    )
    left_out = {"left_out": "Others: discover_agents, and GET /api/v1/sessions, tell them."} if here.more else {}
    return {"agents": here.rows, "retired_agents": gone.rows, **left_out}


@mail_tool
async def config_environment() -> str:
    """Where the server is and where it keeps its data; no secret."""
    services = current.get().services
    return json.dumps(await services.work(lambda: environment(services)))


@mail_tool
async def tooling_directory() -> str:
    """The tools, in groups, each with what it does and the profiles that have it."""
    from corral.faces.mcp.profiles import clusters  # which reads the modules of all tools, and those this one

    now = current.get().services.now()
    return json.dumps({"generated_at": iso(now), "clusters": clusters(), "playbooks": []})


@mail_tool
async def config_environment_as(format: str = "") -> str:
    """The same, asked for in a format, which is JSON all the same."""
    return str(await config_environment())


@mail_tool
async def tooling_directory_as(format: str = "") -> str:
    """The same, asked for in a format, which is JSON all the same."""
    return str(await tooling_directory())


@mail_tool
async def thread(thread_id: str, project: str = "", include_bodies: bool = False, before: int = 0) -> str:
    """The last messages of a thread, the oldest first."""

    def fetch(conn: Connection) -> Page:
        rows = mailbox.thread(conn, thread_id, before=before or None)
        return page((entry(row, bodies=include_bodies) for row in rows), size=SHOWN_BYTES)

    messages = await look(project, fetch)
    return _json_text({"thread_id": thread_id, "messages": messages.rows[::-1], **_left_out(messages)})


def _left_out(listed: Page) -> Payload:
    return {"left_out": f"before={listed.last['id']} tells what is older."} if listed.cut else {}


@mail_tool
async def file_reservations(slug: str, active_only: bool = True, after: str = "") -> Any:
    """The live reservations and locks of the project."""
    now = current.get().services.now()

    def fetch(conn: Connection) -> tuple[Page, dict[str, str]]:
        locks = page(lock_table.listing(conn, now, after=after, limit=MOST), size=SHOWN_BYTES)
        return locks, known_as(conn, ((row["session_id"], row["locked_by"]) for row in locks.rows))

    locks, called = await look(slug, fetch)
    rows = [_reservation(row, called[row["session_id"]]) for row in locks.rows]
    return contents(rows, f"after={lock_table.cursor(locks.last)}" if locks.more else None)


def _reservation(row: Payload, called: str) -> Payload:
    """A lock as Agent Mail shows one."""
    return {
        "id": row["lock_id"],
        "agent": called,
        "path_pattern": row["file_path"],
        "exclusive": row["exclusive"],
        "reason": row["reason"] or "",
        "created_ts": row["acquired_at"],
        "expires_ts": row["expires_at"],
        "released_ts": None,
    }


def _json_text(answer: Payload) -> str:
    return json.dumps({"project": str(current.get().services.project.root), **answer})


RESOURCES: dict[str, Callable[..., Awaitable[Any]]] = {
    "resource://inbox/{agent}{?project,since_ts,urgent_only,include_bodies,limit,before,agent_token}": inbox,
    "resource://mailbox/{agent}{?project,limit,before,agent_token}": mailbox_with_commits,
    "resource://outbox/{agent}{?project,limit,include_bodies,since_ts,before,agent_token}": outbox,
    "resource://message/{message_id}{?project}": message,
    "resource://agents/{project_key*}": agents,
    "resource://project/{slug*}": project,
    "resource://config/environment": config_environment,
    "resource://tooling/directory": tooling_directory,
    "resource://config/environment{?format}": config_environment_as,
    "resource://tooling/directory{?format}": tooling_directory_as,
    "resource://thread/{thread_id}{?project,include_bodies,before}": thread,
    "resource://file_reservations/{slug*}{?active_only,after}": file_reservations,
}
