"""Agent Mail's macros: several of its steps in one call."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection

from corral.coordination.locks.reservation_tools import give_back, reserve
from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.mail import mailbox
from corral.coordination.mail.addresses import Identity
from corral.coordination.mail.store import mailbox as mailbox_rows
from corral.coordination.mail.tools import entry, shown
from corral.coordination.projects import check_project, project_of
from corral.core.instants import iso
from corral.core.pages import SHOWN_BYTES, Page, page
from corral.core.payload import Payload
from corral.faces.mcp.acting import Text, Texts, act, look
from corral.faces.mcp.calls import current, mail_tool
from corral.faces.mcp.registration import registered


@mail_tool
async def macro_start_session(
    human_key: str,
    program: str,
    model: str,
    task_description: Text = "",
    agent_name: Text = "",
    file_reservation_paths: Texts = (),
    file_reservation_reason: Text = "macro-session",
    file_reservation_ttl_seconds: float = 3600,
    inbox_limit: int = 10,
) -> Payload:
    """Begin: the project, your name, the files that you reserve, your mail."""
    agent = await registered(human_key, program, model, agent_name, task_description)
    reservations: Payload = {"granted": [], "conflicts": []}
    if file_reservation_paths:
        reservations = await reserve(
            "", agent["name"], file_reservation_paths, file_reservation_ttl_seconds, True, file_reservation_reason
        )
    return {
        "project": project_of(current.get().services),
        "agent": agent,
        "registration_token": agent["registration_token"],
        "file_reservations": reservations,
        **await _inbox(agent["name"], inbox_limit),
    }


@mail_tool
async def macro_prepare_thread(
    project_key: str,
    thread_id: str,
    program: str,
    model: str,
    agent_name: Text = "",
    task_description: Text = "",
    register_if_missing: bool = True,
    include_examples: bool = True,
    inbox_limit: int = 10,
    include_inbox_bodies: bool = False,
) -> Payload:
    """Join a thread: your name, who has written what in it, your mail."""
    services = current.get().services
    await services.work(lambda: check_project(services, project_key))
    name = agent_name
    agent: Payload = {}
    if register_if_missing or not name:
        agent = await registered("", program, model, name, task_description)
        name = agent["name"]
    thread = await look("", lambda conn: _thread(conn, thread_id, mailbox.EXAMPLES if include_examples else 0))
    return {
        "project": project_of(services),
        "agent": agent,
        "registration_token": agent.get("registration_token"),
        "thread": thread,
        **await _inbox(name, inbox_limit, bodies=include_inbox_bodies),
    }


def _thread(conn: Connection, thread_id: str, examples: int) -> Payload:
    thread_id = mailbox.thread_of(conn, thread_id) or thread_id
    last = (entry(row, bodies=True) for row in mailbox_rows.thread(conn, thread_id, limit=examples))
    shown = page(last, size=SHOWN_BYTES).rows[::-1]
    return {"thread_id": thread_id, **mailbox.summary(conn, thread_id), "examples": shown}


@mail_tool
async def macro_file_reservation_cycle(
    paths: Texts,
    ttl_seconds: float = 3600,
    exclusive: bool = True,
    reason: Text = "macro-file_reservation",
    auto_release: bool = False,
    project_key: Text = "",
    agent_name: Text = "",
) -> Payload:
    """Reserve paths; with auto_release give up again at once those that you did not hold before."""
    held_before = await act(project_key, agent_name, _held_by)
    reservations = await reserve(project_key, agent_name, paths, ttl_seconds, exclusive, reason)
    granted = [str(row["id"]) for row in reservations["granted"] if row["id"] not in held_before]
    released = await give_back(project_key, agent_name, None, granted) if auto_release and granted else None
    return {"file_reservations": reservations, "released": released}


def _held_by(conn: Connection, me: Identity, now: datetime) -> frozenset[str]:
    return frozenset(row["lock_id"] for row in lock_rows.listing(conn, iso(now), [me.session_id]))


async def _inbox(name: str, limit: int, *, bodies: bool = False) -> Payload:
    def fetch(conn: Connection, me: Identity, now: datetime) -> Page:
        return shown(conn, me.session_id, mailbox.inbox(conn, me.session_id, limit=limit), now, bodies=bodies)

    mail = await act("", name, fetch)
    more = {"inbox_left_out": f"fetch_inbox with before={mail.last['id']} tells what is older."} if mail.cut else {}
    return {"inbox": mail.rows, **more}
