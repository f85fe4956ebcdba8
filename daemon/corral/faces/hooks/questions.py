"""A session that waits for its person: the columns of its row, from the event."""

from __future__ import annotations

from datetime import datetime

from corral.core.instants import iso
from corral.core.states import SessionStatus
from corral.faces.hooks.payloads import HookEvent
from corral.store.rows import Columns
from corral.store.rows.sessions import SessionRow

LONGEST = 300
"""Maximum length of the reason, characters."""
_QUESTIONS = {"AskUserQuestion": "an answer to its question", "ExitPlanMode": "approval of its plan"}
"""Tools that ask a person, and for what."""


def waits_for_person(before: SessionRow | None, event: HookEvent, now: datetime) -> Columns:
    """The columns of a waiting session: for what, since when, for which file; an idle session stays idle.

    A notice of a permission dialog comes after the request that names the tool, and says less.

    Args:
        before: The session as it was before the event; None: it is new.
    """
    waited = before if before is not None and before["waiting_for"] is not None else None
    same = waited if event.notification == "permission_prompt" else None
    question = (
        event.message or _QUESTIONS.get(event.tool) or (f"permission for {event.tool}" if event.tool else "its person")
    )
    is_idle = before is not None and before["status"] == SessionStatus.IDLE
    return {
        "waiting_for": same["waiting_for"] if same else question[:LONGEST],
        "waiting_since_at": (waited["waiting_since_at"] if waited else None) or iso(now),
        "waiting_path": same["waiting_path"] if same else event.path or None,
        "status": SessionStatus.IDLE if is_idle else SessionStatus.ACTIVE,
    }
