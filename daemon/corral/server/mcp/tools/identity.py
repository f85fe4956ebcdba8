"""Projects, agents and contacts as Agent Mail names them.

The project is the one that the daemon serves. A name is bound to the session of the connection; over plain HTTP, which has no
connections, it is a session of its own. Inside a repository mail needs no handshake.
"""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

from sqlalchemy import Connection

from corral.coordination import addresses, changesets
from corral.errors import InvalidInput
from corral.models.instants import after, iso
from corral.models.states import SessionStatus
from corral.server.mcp.acting import Text, act, check_project, listed, look, slug
from corral.server.mcp.calls import Answer, Function, current, raised
from corral.server.mcp.registration import PROJECT_ID, profile, registered
from corral.server.services import Services
from corral.store import messages as mail_rows
from corral.store import sessions as session_rows

POLICIES = ("open", "auto", "contacts_only", "block_all")


@raised
async def health_check() -> Answer:
    """Whether the server is there, and where."""
    services = current.get().services
    said = json.loads(services.project.daemon_json.read_text(encoding="utf-8"))
    return {
        "status": "ok",
        "environment": "local",
        "http_host": "127.0.0.1",
        "http_port": said["port"],
        "database_url": f"sqlite:///{services.project.database}",
    }


@raised
async def ensure_project(human_key: str) -> Answer:
    """The project that this server serves, named by the path of any of its worktrees."""
    services = current.get().services
    await services.work(lambda: check_project(services, human_key))
    return project_of(services)


def project_of(services: Services) -> Answer:
    """The project as Agent Mail describes one."""
    marker = services.project.home / ".gitignore"  # as old as the coordination of this repository
    began = datetime.fromtimestamp(marker.stat().st_mtime, timezone.utc) if marker.exists() else services.started_at
    root = str(services.project.root)
    return {"id": PROJECT_ID, "slug": slug(services), "human_key": root, "created_at": iso(began)}


@raised
async def register_agent(
    program: str,
    model: str,
    name: Text = "",
    task_description: Text = "",
    project_key: Text = "",
) -> Answer:
    """Make yourself known, under a name of your choice beside your own, or under the one that you have or are given."""
    return await registered(project_key, program, model, name, task_description)


@raised
async def create_agent_identity(
    program: str,
    model: str,
    name_hint: Text = "",
    task_description: Text = "",
    project_key: Text = "",
) -> Answer:
    """Take a new name: the one hinted at if it is free, else one that is found for you."""
    return await registered(project_key, program, model, name_hint, task_description, new=True)


@raised
async def whois(
    agent_name: str,
    project_key: Text = "",
    include_recent_commits: bool = True,
    commit_limit: int = 5,
) -> Answer:
    """Who goes by a name: program, task, last sign of life, what it submitted for landing."""

    def find(conn: Connection) -> Answer:
        found = profile(conn, agent_name)
        if include_recent_commits:
            theirs = changesets.of(conn, found["id"])["merges"]
            found["recent_commits"] = [
                {"hexsha": row["head_sha"], "summary": row["title"], "authored_ts": row["created_at"]}
                for row in theirs[::-1][: max(0, commit_limit)]
            ]
        return found

    return await look(project_key, find)


# -- contacts: inside a repository everybody may write to everybody


@raised
async def request_contact(
    from_agent: Text = "",
    to_agent: Text = "",
    project_key: Text = "",
    to_project: Text = "",
    reason: Text = "",
    ttl_seconds: int = 604800,
) -> Answer:
    """Ask to write to somebody. Inside a repository that is always granted: just send."""
    services = current.get().services
    if to_project:
        await services.work(lambda: check_project(services, to_project))

    def ask(conn: Connection, me: addresses.Identity, now: datetime) -> Answer:
        other = addresses.known(conn, to_agent)
        expires = after(now, ttl_seconds)
        return {"from": me.name, "to": other["called"], "status": "approved", "expires_ts": expires}

    return await act(project_key, from_agent, ask)


@raised
async def respond_contact(
    to_agent: Text = "",
    from_agent: Text = "",
    accept: bool = True,
    project_key: Text = "",
    from_project: Text = "",
    ttl_seconds: int = 2592000,
) -> Answer:
    """Answer a request for contact. Inside a repository mail is open to everybody: approved stays true."""

    def answer(conn: Connection, me: addresses.Identity, now: datetime) -> Answer:
        other = addresses.known(conn, from_agent)
        expires = after(now, ttl_seconds)
        return {"from": other["called"], "to": me.name, "approved": True, "expires_ts": expires, "updated": 0}

    return await act(project_key, to_agent, answer)


@raised
async def list_contacts(
    agent_name: Text = "",
    project_key: Text = "",
) -> Any:
    """With whom you have exchanged mail, the latest first."""

    def contacts(conn: Connection, me: addresses.Identity, now: datetime) -> list[Answer]:
        found = []
        for partner in mail_rows.last_between(conn, me.session_id):
            row = session_rows.get(conn, partner["session_id"])
            assert row is not None
            alive = row["status"] != SessionStatus.DISCONNECTED
            found.append({"to": row["agent_name"], "status": "approved", "reason": "", "active": alive,
                          "updated_ts": partner["at"], "expires_ts": None})  # fmt: skip
        return found

    return listed(await act(project_key, agent_name, contacts))


@raised
async def set_contact_policy(
    policy: str,
    agent_name: Text = "",
    project_key: Text = "",
) -> Answer:
    """Choose who may write to you. Inside a repository that is everybody, whatever is chosen."""
    if policy not in POLICIES:
        raise InvalidInput(f"{policy[:40]!r} is not a policy.", remedy=f"Use one of: {', '.join(POLICIES)}.")
    return await act(project_key, agent_name, lambda conn, me, now: {"agent": me.name, "policy": "open"})


TOOLS: tuple[Function, ...] = (
    health_check, ensure_project, register_agent, create_agent_identity, whois,
    request_contact, respond_contact, list_contacts, set_contact_policy,
)  # fmt: skip
