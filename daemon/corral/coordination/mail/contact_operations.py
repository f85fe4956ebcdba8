"""With whom a session has exchanged mail. Inside a repository mail is open to everybody, and nobody has to ask."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response

from corral.coordination.mail import addresses, contacts
from corral.coordination.mail.api import Contact
from corral.coordination.services import Services
from corral.coordination.sessions.actor import person
from corral.core.errors import NotFound
from corral.core.pages import MOST, Page, answer, following, page
from corral.core.routing import EVERYONE, PROJECT, Routes

router = Routes("contacts", "/contacts", scope=PROJECT, callers=EVERYONE)


@router.get("", answer=list[Contact], errors=(NotFound,))
async def listing(
    services: Services,
    request: Request,
    session_id: Annotated[
        str | None, Field(max_length=128, description="Whose contacts; none named: the person's.")
    ] = None,
    agent: Annotated[
        str | None, Field(max_length=128, description="Agent whose contacts to show (default: the caller).")
    ] = None,
    limit: Annotated[int, Field(ge=1, le=MOST)] = MOST,
    after: Annotated[str | None, Field(max_length=128, description="The name of the last one known.")] = None,
) -> Response:
    """With whom a session has exchanged mail, the latest first."""

    def look(conn: Connection) -> Page:
        whose = addresses.known(conn, agent)["session_id"] if agent else session_id or person()
        return page(following(contacts.listing(conn, whose, blind=not agent), "to", after), limit)

    return answer(request, await services.store.read(look), lambda row: {"after": row["to"]})
