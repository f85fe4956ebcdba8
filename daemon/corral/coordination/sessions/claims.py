"""For whom a request over HTTP acts: it names a session, and the caller has to be allowed to act for it.

The Unix socket shows the process at the other end: a person may act for everybody, and what runs in a session only for that one
and for those below it. Over TCP nothing shows it, so that a session is proven by its token.
"""

from __future__ import annotations

from sqlalchemy import Connection

from corral.coordination.caller_process import caller_of, is_tcp
from corral.coordination.mail import addresses
from corral.coordination.services import Services
from corral.coordination.sessions import tokens
from corral.coordination.sessions.actor import person
from corral.coordination.sessions.api import Acting
from corral.coordination.sessions.impersonation import refusals
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.asgi import Scope
from corral.core.errors import InvalidInput, NotPermitted
from corral.core.routing import Caller

TOKEN_HEADER = "x-corral-session-token"
SESSION_HEADER = "x-corral-session"
_REGISTER = (
    "Register with POST /api/v1/sessions, without a session_id, and send the `registration_token` of the answer as the header "
    "X-Corral-Session-Token."
)


async def settle(services: Services, body: Acting, scope: Scope) -> None:
    """Check for whom a request acts, and put the id of that session where its operation reads it.

    A session that chose its own id, and has no process, is nobody's in particular: whoever names its id acts for it.

    Raises:
        AgentNotFound: Nobody goes by ``agent_id``.
        InvalidInput: The request names two sessions.
        NotPermitted: The caller may not act for it; that is put on record.
    """
    named = getattr(body, body.ACTS_AS)
    over_tcp = is_tcp(scope)
    if body.agent_id is None and not tokens.is_proven_by_token(named) and not (named and over_tcp):
        return
    headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
    own = tokens.session_of(headers.get(TOKEN_HEADER, ""))
    if own is None and not over_tcp and not tokens.is_proven_by_token(headers.get(SESSION_HEADER)):
        own = headers.get(SESSION_HEADER)
    is_person = own is None and not over_tcp and await services.work(lambda: _is_person(services, scope))

    def check(conn: Connection) -> str:
        if body.agent_id is None:
            target = str(named)
        else:
            target = addresses.known(conn, body.agent_id)["session_id"]
            if named not in (None, target):
                raise InvalidInput(
                    f"agent_id names the session {target}, and {body.ACTS_AS} the session {str(named)[:128]}.",
                    remedy="Name one of them.",
                )
        row = session_rows.get(conn, target)
        proof = session_rows.get(conn, own) if own else None
        is_its_own = (
            proof is not None
            and not tokens.was_closed(proof)
            and row is not None
            and (own in (target, row["parent_session_id"]))
        )
        is_free = (
            body.agent_id is None
            and not tokens.is_proven_by_token(target)
            and (target == person() or row is None or row["client_pid"] is None)
        )
        if not (is_its_own or is_person or is_free):
            raise _refusal(target, row["agent_name"] if row is not None else target, over_tcp)
        return target

    async with refusals(services, own):
        try:
            setattr(body, body.ACTS_AS, await services.store.read(check))
        except NotPermitted:
            setattr(body, body.ACTS_AS, own or person())  # the audit tells who asked
            raise


def _refusal(session_id: str, name: str, over_tcp: bool) -> NotPermitted:
    return NotPermitted(
        "You cannot act for this session.",
        cause="Over TCP a session is proven by its token." if over_tcp else "A session speaks for itself only.",
        remedy=_REGISTER if over_tcp else "Name your own session, or none.",
        details={"session_id": session_id, "agent_name": name},
    )


def _is_person(services: Services, scope: Scope) -> bool:
    return caller_of(services.project, scope)[0] is Caller.PERSON
