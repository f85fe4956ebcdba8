"""For whom a request over HTTP acts: it names a session, and the caller has to be allowed to act for it.

The Unix socket shows the process at the other end: a person may act for everybody, and what a session's client runs only for that
session and for those below it. Over TCP nothing shows it, so that a session is proven by its token; without one it is the program
that has the daemon's token, a session of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from corral.coordination.caller_process import CallerProcess, Peer, identified, is_tcp, process_of
from corral.coordination.mail import addresses
from corral.coordination.services import Services
from corral.coordination.sessions import clients, tokens
from corral.coordination.sessions.actor import PERSON, person
from corral.coordination.sessions.api import Acting
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.asgi import Scope, header
from corral.core.errors import InvalidInput, NotPermitted, Unidentified
from corral.core.routing import PEER, Caller
from corral.store.rows.sessions import SessionRow

NOBODY = "unidentified"
"""The agent, in the audit, of a call that does not show who makes it."""
_CLAIMANT = "corral.claimant"
TOKEN_HEADER = b"x-corral-session-token"
SESSION_HEADER = b"x-corral-session"
_REGISTER = (
    "Register with POST /api/v1/sessions, without a session_id, and send the `registration_token` of the answer as the header "
    "X-Corral-Session-Token."
)


class Claimant(NamedTuple):
    """Who makes a request, as far as that is shown.

    Attributes:
        sessions: The sessions that it has shown to be, the one first for which it acts where it names none.
        by_token: Whether a session's token shows it.
        is_person: Whether it is a person, who may act for everybody.
    """

    sessions: tuple[str, ...]
    over_tcp: bool
    by_token: bool
    is_person: bool

    @property
    def session_id(self) -> str | None:
        """The session for which it acts where it names none."""
        return self.sessions[0] if self.sessions else None

    def check(self, conn: Connection, target: str, *, is_chosen: bool = True) -> None:
        """Refuse to let it speak for a session.

        Args:
            is_chosen: The session is named by its id. A session that chose its own id and has no process belongs to nobody:
                over TCP, every caller that names its id acts for it. An id that does not exist yet belongs to the first caller
                that names it.

        Raises:
            NotPermitted: It may not.
        """
        if self.is_person:
            return
        row = session_rows.get(conn, target)
        is_its_own = target in self.sessions or (row is not None and row["parent_session_id"] in self.sessions)
        if is_its_own and not (self.by_token and (row is None or self._is_void(conn))):
            return
        if is_chosen and not tokens.is_proven_by_token(target) and self._is_free(target, row):
            return
        raise NotPermitted(
            "You cannot act for this session.",
            cause="Over TCP a session is proven by its token."
            if self.over_tcp
            else "A session speaks for itself only, and for it only what its client runs.",
            remedy=_REGISTER if self.over_tcp else "Name your own session, or none.",
            details={"session_id": target, "agent_name": row["agent_name"] if row is not None else target},
        )

    def _is_void(self, conn: Connection) -> bool:
        """Whether its token proves nothing: its session never registered, or somebody ended it."""
        proof = session_rows.get(conn, self.sessions[0])
        return proof is None or tokens.was_closed(proof)

    def _is_free(self, target: str, row: SessionRow | None) -> bool:
        if target == person():
            return False
        if not self.over_tcp:
            return row is None
        return row is None or not (row["client_pid"] or row["parent_session_id"] or row["agent_type"] == PERSON)


async def claimant(services: Services, scope: Scope) -> Claimant:
    """Who makes a request: shown by its token, else by the process at the other end.

    A command of no agent's that names a session in its header acts as that one alone.
    """
    if (known := scope.get(_CLAIMANT)) is not None:
        assert isinstance(known, Claimant)
        return known
    over_tcp, proven = is_tcp(scope), tokens.session_of(header(scope, TOKEN_HEADER))
    if proven is not None or over_tcp:
        shown = proven or tokens.session_of_program(header(scope, b"authorization").rpartition(" ")[2])
        who = Claimant((shown,), over_tcp, proven is not None, is_person=False)
    else:
        caller = await caller_of(services, scope)
        named = (header(scope, SESSION_HEADER),) if caller.kind is Caller.PERSON else caller.sessions
        own = tuple(name for name in named if name and name != person() and not tokens.is_proven_by_token(name))
        who = Claimant(own, over_tcp, False, is_person=caller.kind is Caller.PERSON and not own)
    scope[_CLAIMANT] = who
    return who


async def caller_of(services: Services, scope: Scope) -> CallerProcess:
    """The caller of a request, with the sessions that its processes prove.

    It is the same for every request of its connection, until a session begins or ends, or another process is its client.
    """
    peer: Peer | None = scope.get(PEER)
    seen, version = await _process(services, scope), services.db.clients_version
    if peer is None or peer.identified is None or peer.identified[0] != version:
        caller = await services.store.read_inline(identified, seen)
        if peer is None:
            return caller
        peer.identified = version, caller
    return peer.identified[1]


async def _process(services: Services, scope: Scope) -> CallerProcess:
    peer: Peer | None = scope.get(PEER)
    if peer is not None and peer.seen is not None:  # looked at by an earlier request of this connection
        return peer.seen
    return await services.work(lambda: process_of(services.project, services.project_id, scope))


async def check_event(
    services: Services, scope: Scope, session_ids: Sequence[str], client_pid: int | None = None
) -> None:
    """Refuse an event that another session's process sends in the name of a session.

    Args:
        session_ids: The sessions that it names.
        client_pid: The process that it says their client is.

    Raises:
        NotPermitted: One of them is another process's; that is put on record.
    """
    peer: Peer | None = scope.get(PEER)
    if peer is None:
        return
    lineage = peer.near

    def look(conn: Connection) -> tuple[SessionRow | None, list[str]]:
        return clients.others_among(conn, session_ids, client_pid, lineage)

    if (await services.store.read_inline(look))[0] is None:
        return
    lineage = peer.lineage
    other, own = await services.store.read_inline(look)
    if other is not None and (own or not lineage):
        async with refusals(services, next(iter(own), None)):
            raise NotPermitted(
                "You cannot act for this session.",
                cause="Its client is another process, which does not run yours.",
                remedy="Send the events of your own session alone.",
                details={"session_id": other["session_id"], "agent_name": other["agent_name"]},
            )


async def require_speaker(
    services: Services, scope: Scope, session_id: str | None, *, is_chosen: bool = True
) -> Claimant:
    """Refuse a caller who may not speak for the session that a path, or a registration, names; returns who it is.

    Args:
        session_id: None: it names none, but makes a new one.
        is_chosen: As for :meth:`Claimant.check`.

    Raises:
        NotPermitted: The caller may not act for it; that is put on record.
    """
    who = await claimant(services, scope)
    if session_id is not None and not who.is_person:
        async with refusals(services, who.session_id):
            await services.store.read(who.check, session_id, is_chosen=is_chosen)
    return who


async def settle(services: Services, body: Acting, scope: Scope) -> None:
    """Check for whom a request acts, and put the id of that session where its operation reads it.

    A request that only asks, for a session that the caller may not act for, is answered as for the caller's own, or a stranger.

    Raises:
        AgentNotFound: Nobody goes by ``agent_id``.
        InvalidInput: The request names two sessions.
        NotPermitted: The caller may not act for it; that is put on record.
    """
    try:
        await _settle(services, body, scope)
    except NotPermitted:
        setattr(body, body.ACTS_AS, (await claimant(services, scope)).session_id or NOBODY)  # the audit tells who asked
        if not body.ONLY_ASKS:
            raise


async def _settle(services: Services, body: Acting, scope: Scope) -> None:
    named, who = getattr(body, body.ACTS_AS), await claimant(services, scope)
    if body.is_for_a_person and not (who.is_person and named in (None, person())):
        raise NotPermitted(
            "Only a person may take a lock from an active session.",
            cause="Without `certain` it is taken only from a holder who is gone.",
            remedy="Ask the holder, or a person, who does it in a terminal of their own.",
        )
    if body.agent_id is None:
        if named is None and not who.is_person:
            named = who.session_id
            if named is None:
                raise Unidentified(
                    "This request does not show for which session it acts.",
                    cause="An agent's process makes it, which acts for its own session and never for the person.",
                    remedy="Run it from that session's client, or set CORRAL_SESSION_ID to the id of a session without one; "
                    "`corral session register` makes one.",
                )
            setattr(body, body.ACTS_AS, named)
        if named is None or who.is_person or (named in who.sessions and not who.by_token):
            return

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
        who.check(conn, target, is_chosen=body.agent_id is None)
        return target

    async with refusals(services, who.session_id):
        setattr(body, body.ACTS_AS, await services.store.read(check))


# -- A session acts for itself only: an attempt to act for another is refused and recorded


class refusals:
    """Around a write: record that it was refused (NotPermitted), as its own transaction is rolled back.

    Args:
        session_id: The session that asked.
    """

    def __init__(self, services: Services, session_id: str | None) -> None:
        self._services, self._session_id = services, session_id

    async def __aenter__(self) -> None:
        """Nothing is refused yet."""

    async def __aexit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        """Record the refusal, if it is one."""
        if isinstance(error, NotPermitted):
            services, refusal, now = self._services, error, self._services.now()
            await services.store.write(addresses.refused, self._session_id, refusal, now)
