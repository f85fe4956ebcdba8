"""Contacts over HTTP, as Agent Mail has them: inside a repository mail is open to everybody, and nobody has to ask."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response

from corral.app.actor import person
from corral.app.pages import MOST, Page, following, page
from corral.app.runtime.services import Services
from corral.coordination.mail import addresses, contacts
from corral.server.http.pages import answer
from corral.server.http.routes.callers import Caller, act
from corral.server.http.routing import Routes

router = Routes("contacts", "/contacts")
LONGEST_S = 366 * 24 * 3600
Agent = Annotated[str, Field(min_length=1, max_length=128, examples=["GreenLake"])]


class Asking(Caller):
    """To whom one wants to write."""

    to: Agent
    ttl_s: float = Field(contacts.REQUEST_S, gt=0, le=LONGEST_S)


class Answering(Caller):
    """The agent that asked, and whether it may write; it may in any case."""

    to: Agent
    accept: bool = True
    ttl_s: float = Field(contacts.CONTACT_S, gt=0, le=LONGEST_S)


class Choice(Caller):
    """The policy for writing to an agent."""

    policy: contacts.Policy


class Between(BaseModel):
    """A contact request: from which agent, to which, and until when it holds."""

    success: Literal[True] = True
    from_: str = Field(alias="from")
    to: str
    expires_at: str


class Granted(Between):
    """A contact that was asked for."""

    status: Literal["approved"]


class Answered(Between):
    """A contact that was answered."""

    approved: Literal[True]


class Contact(BaseModel):
    """An agent with whom mail was exchanged; ``active``: whether it is here."""

    to: str
    status: Literal["approved"]
    active: bool
    updated_at: str


class Chosen(BaseModel):
    """Which agents may write to an agent."""

    success: Literal[True] = True
    agent: str
    policy: Literal["open"]


@router.get("", response_model=list[Contact])
async def listing(
    services: Services,
    request: Request,
    session_id: Annotated[
        str | None, Field(max_length=128, description="Whose contacts; none named: the person's.")
    ] = None,
    agent: Annotated[str | None, Field(max_length=128, description="Whose, by name.")] = None,
    limit: Annotated[int, Field(ge=1, le=MOST)] = MOST,
    after: Annotated[str | None, Field(max_length=128, description="The name of the last one known.")] = None,
) -> Response:
    """With whom a session has exchanged mail, the latest first."""

    def look(conn: Connection) -> Page:
        whose = addresses.known(conn, agent)["session_id"] if agent else session_id or person()
        return page(following(contacts.listing(conn, whose, blind=not agent), "to", after), limit)

    return answer(request, await services.store.read(look), lambda row: {"after": row["to"]})


@router.post("/request")
async def ask(services: Services, asked: Asking) -> Granted:
    """Ask to write to an agent; that is always granted."""
    said = await act(services, asked, lambda conn, me, now: contacts.request(conn, me, asked.to, now, asked.ttl_s))
    return Granted.model_validate(said)


@router.post("/respond")
async def respond(services: Services, said: Answering) -> Answered:
    """Answer an agent that asked to write; it may, whatever is answered."""
    done = await act(services, said, lambda conn, me, now: contacts.respond(conn, me, said.to, now, said.ttl_s))
    return Answered.model_validate(done)


@router.post("/policy")
async def choose(services: Services, said: Choice) -> Chosen:
    """Choose who may write to a session; that stays everybody."""
    chosen: dict[str, Any] = await act(services, said, lambda _conn, me, _now: contacts.choose(me, said.policy))
    return Chosen.model_validate(chosen)
