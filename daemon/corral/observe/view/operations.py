"""The status line of a session over HTTP."""

from __future__ import annotations

from pydantic import BaseModel, Field

from corral.coordination.services import Services
from corral.core.identifiers import LONGEST_SESSION_ID
from corral.core.routing import Routes
from corral.observe.view import status_line

router = Routes("status_line", "/statusline")


class ClientStatus(BaseModel):
    """The status that Claude Code gives to its status line, as far as it matters here."""

    session_id: str | None = Field(None, max_length=LONGEST_SESSION_ID)


class StatusLine(BaseModel):
    """One line of visible characters."""

    line: str


@router.post("", hot=True, audited=False)
async def line(services: Services, given: ClientStatus) -> StatusLine:
    """A session in one line: its name, task, locks and mail, the queue, and what needs a person. Changes nothing."""
    found = await services.store.read(lambda conn: status_line.status_line(services, conn, given.session_id))
    return StatusLine(line=found)
