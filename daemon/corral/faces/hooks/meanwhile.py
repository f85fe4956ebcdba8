"""Edits that passed while no daemon answered: what the last look marked becomes a lock of the session that edited.

That happens with each look after the sessions, and before each decision on an edit, in the same write: a look that finds no
daemon may mark a file just before this one answers another session.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from corral.client import last_look
from corral.coordination.edits import unannounced
from corral.coordination.edits.unannounced import Claim
from corral.coordination.edits.verdicts import Policy
from corral.coordination.services import Services
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.processes import is_running
from corral.coordination.sessions.registry import Arrival
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.errors import InvalidInput, LimitReached
from corral.core.logs import logger
from corral.core.states import SessionStatus
from corral.faces.hooks.tool_targets import target_at

LAST_LOOK = "last look"
"""The kind of evidence, as events name it."""
Marks = Mapping[str, dict[str, Any]]

log = logger("meanwhile")


def marks(services: Services) -> dict[str, dict[str, Any]]:
    """The marks that are there; read from the disk, so before the write."""
    return last_look.marks(os.fspath(services.project.home))


def settle(conn: Connection, passed: Marks, services: Services, now: datetime) -> None:
    """Give the locks to the sessions that live; nothing to do if no file is marked."""
    claims = []
    for mark in passed.values():
        actor, session, client = str(mark["actor"]), str(mark["session"]), mark["client"]
        target = target_at(services, Path(str(mark["path"])))
        if target is None or not isinstance(client, int) or not is_running(client, None):
            continue
        parent = session if actor != session else None
        newcomer = Arrival(actor, parent_session_id=parent, worktree=target.checkout, client_pid=client)
        try:
            row = session_rows.get(conn, actor)
            if row is None or row["status"] == SessionStatus.DISCONNECTED:  # one that was resumed meanwhile
                session_registry.register(conn, newcomer, now)
        except (InvalidInput, LimitReached) as error:
            log.warning("mark_of_nobody", reason=error.message)
            continue
        claims.append(Claim(actor, target, LAST_LOOK))
    if claims:
        chosen = services.settings().locks
        unannounced.settle(conn, claims, Policy(chosen.enforcement, chosen.ttl_s), now)


def forget(services: Services, passed: Marks) -> None:
    """Remove the marks that are locks now."""
    if passed:
        last_look.drop(os.fspath(services.project.home), passed)


def take_over(services: Services, now: datetime) -> None:
    """Do all of it now."""
    if passed := marks(services):
        services.db.write(settle, passed=passed, services=services, now=now)
        forget(services, passed)
        services.changes.announce()
