"""Projects, agents and contacts as Agent Mail names them.

The project is the one that the daemon serves. A name is bound to the session of the connection; over plain HTTP, which has no
connections, it is a session of its own. Inside a repository mail needs no handshake.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from corral.coordination.mail import contacts, messages
from corral.coordination.mail.addresses import AgentNotFound, Identity
from corral.coordination.mail.messages import Letter, Sent
from corral.coordination.mail.tools import delivered
from corral.coordination.projects import check_project, environment, project_of
from corral.coordination.sessions import changesets
from corral.core.errors import InvalidInput
from corral.core.pages import SHOWN_BYTES, Page, page
from corral.core.payload import Payload
from corral.faces.mcp.acting import Text, act, listed, look
from corral.faces.mcp.calls import current, mail_tool
from corral.faces.mcp.registration import profile, registered

MOST_COMMITS = 100


@mail_tool
async def health_check() -> Payload:
    """Whether the server is there, and where."""
    services = current.get().services
    about = environment(services)
    where = {f"http_{name}": about["http"][name] for name in ("host", "port")}
    return {"status": "ok", "environment": about["environment"], **where, "database_url": about["database_url"]}


@mail_tool
async def ensure_project(human_key: str) -> Payload:
    """The project that this server serves, named by the path of any of its worktrees."""
    services = current.get().services
    await services.work(lambda: check_project(services, human_key))
    return project_of(services)


@mail_tool
async def register_agent(
    program: str,
    model: str,
    name: Text = "",
    task_description: Text = "",
    project_key: Text = "",
) -> Payload:
    """Make yourself known, under a name of your choice beside your own, or under the one that you have or are given."""
    return await registered(project_key, program, model, name, task_description)


@mail_tool
async def create_agent_identity(
    program: str,
    model: str,
    name_hint: Text = "",
    task_description: Text = "",
    project_key: Text = "",
) -> Payload:
    """Take a new name: the one hinted at if it is free, else one that is found for you."""
    return await registered(project_key, program, model, name_hint, task_description, new=True)


@mail_tool
async def whois(
    agent_name: str,
    project_key: Text = "",
    include_recent_commits: bool = True,
    commit_limit: int = 5,
) -> Payload:
    """The agent with a name: program, task, last heartbeat, what it submitted for landing."""

    def find(conn: Connection) -> Payload:
        agent = profile(conn, agent_name)
        if include_recent_commits:
            merges = changesets.of(conn, agent["id"])["merges"]
            agent["recent_commits"] = [
                {"hexsha": row["head_sha"], "summary": row["title"], "authored_ts": row["created_at"]}
                for row in merges[::-1][: max(0, min(commit_limit, MOST_COMMITS))]
            ]
        return agent

    return await look(project_key, find)


# -- contacts: inside a repository everybody may write to everybody


@mail_tool
async def request_contact(
    from_agent: Text = "",
    to_agent: Text = "",
    project_key: Text = "",
    to_project: Text = "",
    reason: Text = "",
    ttl_seconds: int = contacts.REQUEST_S,
) -> Payload:
    """Ask to write to somebody. Inside a repository that is always granted: just send."""
    services = current.get().services
    if to_project:
        await services.work(lambda: check_project(services, to_project))

    def ask(conn: Connection, me: Identity, now: datetime) -> Payload:
        return contacts.request(conn, me, _named("to_agent", to_agent))

    return _granted(await act(project_key, from_agent, ask))


def _named(parameter: str, agent: str) -> str:
    """The agent that a call names; Agent Mail's clients give the parameters in any order, so none can be required.

    Raises:
        InvalidInput: It names none.
    """
    if not agent.strip():
        raise InvalidInput(
            f"{parameter}: is needed.",
            cause="It names the agent that is meant.",
            remedy=AgentNotFound.default_remedy,
            details={"errors": [{"field": parameter, "message": "is needed"}]},
        )
    return agent


def _granted(contact: Payload) -> Payload:
    root = str(current.get().services.project.root)
    return {**_ts(contact), "from_project": root, "to_project": root}


@mail_tool
async def macro_contact_handshake(
    project_key: str = "",
    requester: Text = "",
    target: Text = "",
    auto_accept: bool = False,
    welcome_subject: Text = "",
    welcome_body: Text = "",
    to_project: Text = "",
    reason: Text = "",
    ttl_seconds: int = contacts.REQUEST_S,
    agent_name: Text = "",
    to_agent: Text = "",
    thread_id: Text = "",
) -> Payload:
    """Ask for a contact, which is always granted, and send a welcome."""
    services = current.get().services
    if to_project:
        await services.work(lambda: check_project(services, to_project))
    if bool(welcome_subject.strip()) != bool(welcome_body.strip()):
        raise InvalidInput("welcome_subject and welcome_body must be given together.")
    if welcome_subject and not auto_accept:
        raise InvalidInput("A welcome needs auto_accept=true.", cause="Without it nobody knows yet that it is wanted.")

    def shake(conn: Connection, me: Identity, now: datetime) -> tuple[Payload, Sent | None]:
        contact = contacts.request(conn, me, _named("target", target or to_agent))
        letter = Letter(welcome_subject, welcome_body, to=(contact["to"],), thread_id=thread_id or None)
        return contact, messages.send(conn, me, letter, now) if welcome_subject else None

    contact, sent = await act(project_key, requester or agent_name, shake)
    granted = _granted(contact)
    return {
        "request": granted,
        "response": granted if auto_accept else None,
        "welcome_message": delivered(sent) if sent is not None else None,
    }


@mail_tool
async def respond_contact(
    to_agent: Text = "",
    from_agent: Text = "",
    accept: bool = True,
    project_key: Text = "",
    from_project: Text = "",
    ttl_seconds: int = contacts.CONTACT_S,
) -> Payload:
    """Answer a request for contact. Inside a repository mail is open to everybody: approved stays true, nothing changes."""

    def answer(conn: Connection, me: Identity, now: datetime) -> Payload:
        return _ts(contacts.respond(conn, me, _named("from_agent", from_agent)))

    return await act(project_key, to_agent, answer)


@mail_tool
async def list_contacts(
    agent_name: Text = "",
    project_key: Text = "",
) -> Any:
    """With whom you have exchanged mail, the latest first."""
    root = str(current.get().services.project.root)

    def known(conn: Connection, me: Identity, now: datetime) -> Page:
        open_to_all = {"is_expired": False, "allows_messaging": True, "reason": "", "expires_ts": None}
        rows = ({**_ts(row), "to_project": root, **open_to_all} for row in contacts.listing(conn, me.session_id))
        return page(rows, size=SHOWN_BYTES)

    known_contacts = await act(project_key, agent_name, known)
    return listed(known_contacts.rows, "GET /api/v1/contacts tells the rest" if known_contacts.cut else None)


def _ts(row: Payload) -> Payload:
    """With instants as Agent Mail calls them."""
    return {key.removesuffix("_at") + "_ts" if key.endswith("_at") else key: value for key, value in row.items()}


@mail_tool
async def set_contact_policy(
    policy: str,
    agent_name: Text = "",
    project_key: Text = "",
) -> Payload:
    """Choose who may write to you. Inside a repository that is everybody, whatever is chosen."""
    return await act(project_key, agent_name, lambda conn, me, now: contacts.choose(me, policy))
