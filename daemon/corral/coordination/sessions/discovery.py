"""Discovery: who is here, and who can do what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from sqlalchemy import Connection

from corral.coordination.sessions.store import names
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.errors import InvalidInput
from corral.core.payload import Payload
from corral.core.states import ShownStatus
from corral.store.rows.sessions import SessionRow

Capabilities = Callable[[str], Sequence[str]]
MAX_CAPABILITIES = 64


class DiscoveredSession(SessionRow):
    """A session with the ``names`` that it goes by beside its own; ``capabilities``: those too that its team says it has."""

    names: list[str]


def discover(
    conn: Connection, capability: str | None, status: str | None, of_team: Capabilities
) -> list[DiscoveredSession]:
    """The sessions that can do something, most recently alive first; those that are over only where they are asked for.

    Args:
        of_team: An agent's capabilities by the team's definition, by its name.

    Raises:
        InvalidInput: There is no such status.
    """
    if status is not None and status not in ShownStatus.values():
        raise InvalidInput(
            f"There is no status {status[:80]!r}.", remedy=f"It is one of {', '.join(ShownStatus.values())}."
        )
    rows = session_rows.listing(conn, [status]) if status else session_rows.live(conn)
    return [row for row in able(conn, rows, of_team) if not capability or _can(row, capability)]


def everyone(
    conn: Connection,
    capability: str | None,
    statuses: Sequence[str],
    of_team: Capabilities,
    *,
    after: str | None = None,
) -> Iterator[DiscoveredSession]:
    """Sessions, those that are over too unless a status is asked for, the last to begin first.

    Args:
        after: Only those behind this :func:`cursor`.

    Raises:
        InvalidInput: There is no such place.
    """
    began, comma, session_id = (after or "").partition(",")
    if after is not None and not comma:
        raise InvalidInput(
            f"{after[:80]!r} is an invalid cursor.", remedy="Follow the `Link` header of the answer before."
        )
    rows = able(conn, session_rows.latest(conn, statuses, (began, session_id) if comma else None), of_team)
    return (row for row in rows if not capability or _can(row, capability))


def cursor(row: Payload) -> str:
    """Where a session stands in the list of all."""
    return f"{row['started_at']},{row['session_id']}"


def able(conn: Connection, rows: Iterable[SessionRow], of_team: Capabilities) -> Iterator[DiscoveredSession]:
    """Sessions with the ``names`` that they go by beside their own, and with what they can do: as they say themselves, and as
    the team's definition says of any of their names."""
    further_names = names.by_session(conn)
    for row in rows:
        names_of = (*further_names.get(row["session_id"], ()), *([row["agent"]] if row["agent"] else ()))
        others = [name for name in names_of if name != row["agent_name"]]
        of_names = (capability for name in (row["agent_name"], *others) for capability in of_team(name))
        yield {**row, "names": others, "capabilities": list(dict.fromkeys([*row["capabilities"], *of_names]))}


def _can(row: DiscoveredSession, capability: str) -> bool:
    return capability.strip().casefold() in (word.casefold() for word in row["capabilities"])


def check_capabilities(capabilities: Iterable[str]) -> tuple[str, ...]:
    """Capabilities without blanks around them, each once.

    Raises:
        InvalidInput: Too many, or one that is empty or longer than 64 characters.
    """
    plain = tuple(dict.fromkeys(capability.strip() for capability in capabilities))
    if len(plain) > MAX_CAPABILITIES or any(not 0 < len(capability) <= 64 for capability in plain):
        raise InvalidInput(
            "The capabilities cannot be stored.",
            cause=f"They are words of 1 to 64 characters, {MAX_CAPABILITIES} at most.",
            remedy="Name a few, such as `python` or `review`.",
        )
    return plain
