"""The lines that a hook's answer shows to the person in front of a session, and not to its model; each of them once."""

from __future__ import annotations

from collections.abc import Sequence

from corral.core.payload import Payload
from corral.core.visible import embedded
from corral.faces.hooks.payloads import HookEvent
from corral.store.rows.sessions import SessionRow

MOST_NAMED = 5
"""Sessions, or messages, that one answer names; the rest are counted."""


def greeting(event: HookEvent, me: SessionRow, others: Sequence[SessionRow]) -> list[str]:
    """The session's own name, and those of the others: at the start of a session that a person has in front of them."""
    if not event.begins_at_rest or me["task_id"] is not None:
        return []
    names = [embedded(row["agent_name"]) for row in others[:MOST_NAMED]]
    more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
    beside = f" Also at work: {', '.join(names)}{more}." if names else ""
    return [f"this session is {embedded(me['agent_name'])}.{beside}"]


def show(answer: Payload, lines: Sequence[str]) -> Payload:
    """The answer, with these lines for the person."""
    if not lines:
        return answer
    more = [f"and {len(lines) - MOST_NAMED} more messages"] if len(lines) > MOST_NAMED else []
    return {**answer, "systemMessage": "\n".join(f"Corral: {line}" for line in (*lines[:MOST_NAMED], *more))}
