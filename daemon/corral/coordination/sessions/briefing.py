"""The briefing of a session at its start: at most about 400 tokens, only what it needs to work beside others."""

from __future__ import annotations

from collections.abc import Sequence

from corral.coordination.sessions.store.sessions import shown_status
from corral.core.visible import embedded
from corral.store.rows.sessions import HeldLock, SessionRow

LIMIT = 1500
"""Characters; about 400 tokens. Only what waited for the session may be longer: it is told once."""
LEAST_OF_HANDOFF = 200
"""Characters: fewer of it say nothing."""
_RULES = (
    "Each file you edit is locked for you by itself. Never use git stash, reset --hard, checkout . or add -A here; "
    "commit with `git commit -- <your files>`. To land a finished branch: `corral merge submit`."
)


def briefing(
    me: SessionRow,
    others: Sequence[SessionRow],
    held: Sequence[HeldLock],
    *,
    target: str,
    behind: int | None,
    notices: Sequence[str],
    handoff: str | None = None,
) -> str:
    """Write the briefing. Where it would be too long, the list of who holds what is cut, then the handoff; never what
    waited for the session, nor the rules at its end.

    Args:
        me: The session's own row.
        others: Live sessions beside it.
        held: Locks that others hold.
        target: The branch where work lands.
        behind: Commits that the session's branch lacks of the target; None if that is not known.
        notices: Notices that waited for this session, the most important first.
        handoff: The handoff of an earlier session (:func:`corral.coordination.handoffs.handoffs.for_newcomer`).
    """
    first = [f"You are {me['agent_name']} in a repository that several sessions share through Corral."]
    room = LIMIT - len("\n".join([*first, *notices, "", _RULES])) - 1
    # Waiting notices are told once and never again; a handoff can still be read.
    first += [_cut(handoff, room)] if handoff and room >= LEAST_OF_HANDOFF else []
    first += notices
    lines = []
    if behind:
        lines.append(
            f"This branch lacks {behind} commit{'s' if behind > 1 else ''} of {target}; merge them before you finish."
        )
    if others:
        lines.append("Also at work:")
        for row in others[:6]:
            doing = f": {_cut(embedded(row['current_task']), 80)}" if row["current_task"] else ""
            lines.append(f"- {row['agent_name']} ({_standing(row)}){doing}")
        if len(others) > 6:
            lines.append(f"- and {len(others) - 6} more (`corral session list`)")
    if held:
        lines.append("Files others hold now (an edit of theirs in this checkout will be refused):")
        lines.extend(f"- {embedded(row['file_path'])} ({row['agent_name']})" for row in held[:8])
        if len(held) > 8:
            lines.append(f"- and {len(held) - 8} more (`corral lock list`)")
    room = LIMIT - len("\n".join([*first, "", _RULES]))
    middle = "\n".join(lines)
    middle = _cut(middle, max(0, room))
    return "\n".join(part for part in (*first, middle, _RULES) if part)


def _standing(row: SessionRow) -> str:
    return shown_status(row) + (", unguarded" if row["unguarded_since_at"] is not None else "")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: max(0, most - 1)] + "…" * (most > 0)
