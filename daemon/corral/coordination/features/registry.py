"""The registry of features: which line of work claims what, and which of them can go side by side.

A feature is one line of work that lasts longer than a task: registered before it begins, deregistered when it has landed or was
given up. Its claims hold nobody back; they are what :mod:`corral.coordination.features.feasibility` judges by.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from corral.coordination.features import store as feature_rows
from corral.coordination.features.api import MAX_CLAIMS, MAX_ID, USUAL_PRIORITY
from corral.coordination.features.feasibility import ClaimIndex, Feasibility, Meeting
from corral.coordination.locks.keys import LockKey
from corral.coordination.sessions.store import sessions
from corral.core.errors import InvalidInput, NotFound, cause_of_name
from corral.core.events import EventKind
from corral.core.instants import iso
from corral.core.payload import Payload
from corral.core.states import FeatureStatus
from corral.store import events
from corral.store.rows import Columns
from corral.store.rows.records import FeatureClaimRow, FeatureRow, NewFeatureClaim

MAX_TEXT_BYTES = 20_000
MOST_PAIRS = 50
"""Overlaps with one feature that an answer names."""


@dataclass(frozen=True)
class Registration:
    """A feature as it is registered.

    Attributes:
        merge_priority: Stored and shown for planning merges; not used here.
        metadata: Kept and shown (JSON-serialisable).
    """

    feature_id: str
    claims: Sequence[LockKey]
    title: str | None = None
    branch_name: str | None = None
    merge_priority: int = USUAL_PRIORITY
    metadata: Payload = field(default_factory=dict)


def register(conn: Connection, feature: Registration, session_id: str, now: datetime) -> tuple[Payload, str]:
    """Register a feature; an active one gets these claims in place of its own, and of its description what is said again.

    Args:
        session_id: The session that registers it.

    Returns:
        The feature as it is shown, and ``registered`` or ``updated``.

    Raises:
        InvalidInput: No usable name, no claim, too many of them, or too much said about it.
    """
    _check(feature.feature_id, feature.claims)
    for name in ("title", "branch_name", "metadata"):
        _check_text(name, getattr(feature, name))
    registrant = sessions.get(conn, session_id)
    row = feature_rows.get(conn, feature.feature_id)
    goes_on = row is not None and row["status"] == FeatureStatus.ACTIVE
    described = {
        **_kept(row if goes_on else None, feature),
        "status": FeatureStatus.ACTIVE,
        "registered_by": registrant["agent_name"] if registrant else None,
        "created_at": row["created_at"] if row and goes_on else iso(now),
        "updated_at": iso(now),
        "ended_at": None,
    }
    if row is None:
        feature_rows.create(conn, {"feature_id": feature.feature_id, **described})
    else:
        feature_rows.change(conn, feature.feature_id, described)
    keys = {key.file_path: key for key in feature.claims}.values()
    claims: list[NewFeatureClaim] = [
        {"claim": key.file_path, "match_key": key.match_key, "is_pattern": key.is_pattern} for key in keys
    ]
    feature_rows.replace_claims(conn, feature.feature_id, claims)
    kind = EventKind.FEATURE_UPDATED if goes_on else EventKind.FEATURE_REGISTERED
    events.record(conn, now, kind({"feature_id": feature.feature_id, "claims": len(claims)}), session_id=session_id)
    return detail(conn, feature.feature_id), "updated" if goes_on else "registered"


def _kept(row: FeatureRow | None, feature: Registration) -> Columns:
    """What is said about a feature; what is not said again stays as it was."""
    before = row["data"]["metadata"] if row is not None else {}
    return {
        "title": feature.title if feature.title is not None or row is None else row["title"],
        "branch": feature.branch_name if feature.branch_name is not None or row is None else row["branch"],
        "data": {"merge_priority": feature.merge_priority, "metadata": feature.metadata or before},
    }


def deregister(conn: Connection, feature_id: str, status: str, session_id: str, now: datetime) -> Payload:
    """End a feature: its claims count no more. One that has ended already stays as it ended.

    Args:
        status: ``completed`` or ``cancelled``.

    Raises:
        NotFound: It was never registered.
        InvalidInput: No such status.
    """
    if status not in (FeatureStatus.COMPLETED, FeatureStatus.CANCELLED):
        raise InvalidInput(f"A feature cannot end as {status[:40]!r}.", remedy="Use completed or cancelled.")
    ended = feature_rows.end(conn, feature_id, status, iso(now))
    if ended is not None:
        event = EventKind.FEATURE_DEREGISTERED({"feature_id": feature_id, "status": status})
        events.record(conn, now, event, session_id=session_id)
    return detail(conn, feature_id)


def detail(conn: Connection, feature_id: str) -> Payload:
    """One feature as it is shown.

    Raises:
        NotFound: It was never registered.
    """
    row = feature_rows.get(conn, feature_id)
    if row is None:
        raise NotFound(
            f"There is no feature {feature_id[:80]!r}.",
            cause=cause_of_name(feature_id),
            remedy="`corral feature list` shows the active ones.",
        )
    return wire(row, [claim["claim"] for claim in feature_rows.claims_of(conn, feature_id)])


def active(conn: Connection) -> list[Payload]:
    """Every active feature as it is shown, oldest first."""
    claims = feature_rows.active_claims(conn)
    return [wire(row, [claim["claim"] for claim in claims[row["feature_id"]]]) for row in feature_rows.active(conn)]


def analyze(conn: Connection, feature_id: str | None, candidate: Sequence[LockKey] | None) -> Payload:
    """Judge how a feature, or one that is only thought of, goes beside the active ones.

    Args:
        feature_id: Whose claims they are; a feature is not in its own way.
        candidate: The claims; None: those that it is registered with.

    Returns:
        A :class:`corral.coordination.features.api.Judgement` with all conflicts.

    Raises:
        InvalidInput: Neither a feature nor claims; or no usable claims.
        NotFound: No such feature, and no claims given.
    """
    claimed = feature_rows.active_claims(conn)
    keys = list(candidate) if candidate is not None else _own(conn, feature_id)
    _check(feature_id or "candidate", keys)
    others = {name: [_key(row) for row in rows] for name, rows in claimed.items() if name != feature_id}
    judgement = ClaimIndex(others).judge(keys)
    gravest_first = sorted(judgement.meetings.items(), key=lambda item: item[1].feasibility is Feasibility.PARTIAL)
    return {
        "candidate_feature_id": feature_id,
        "feasibility": judgement.feasibility.value,
        "total_candidate_claims": len(set(keys)),
        "total_conflicting_claims": judgement.contended,
        "conflicts": [_conflict(name, meeting) for name, meeting in gravest_first],
    }


def wire(row: FeatureRow, claims: list[str]) -> Payload:
    """A feature as every surface shows it."""
    return {
        "feature_id": row["feature_id"],
        "title": row["title"],
        "status": row["status"],
        "registered_by": row["registered_by"],
        "resource_claims": claims,
        "branch_name": row["branch"],
        "merge_priority": row["data"]["merge_priority"],
        "metadata": row["data"]["metadata"],
        "registered_at": row["created_at"],
        "updated_at": row["updated_at"],
        "completed_at": row["ended_at"],
    }


def _conflict(name: str, meeting: Meeting) -> Payload:
    return {
        "feature_id": name,
        "feasibility": meeting.feasibility.value,
        "claims": [[mine.file_path, theirs.file_path] for mine, theirs in meeting.pairs[:MOST_PAIRS]],
        "overlapping_keys": sorted({mine.file_path for mine, _ in meeting.pairs})[:MOST_PAIRS],
        **({"left_out": len(meeting.pairs) - MOST_PAIRS} if len(meeting.pairs) > MOST_PAIRS else {}),
    }


def _own(conn: Connection, feature_id: str | None) -> list[LockKey]:
    if feature_id is None:
        raise InvalidInput("Say what is to be judged.", remedy="Name a registered feature, or give claims.")
    detail(conn, feature_id)
    return [_key(row) for row in feature_rows.claims_of(conn, feature_id)]


def _key(row: FeatureClaimRow) -> LockKey:
    return LockKey(row["claim"], row["match_key"], bool(row["is_pattern"]))


def _check(feature_id: str, claims: Sequence[LockKey]) -> None:
    if not feature_id.strip() or len(feature_id) > MAX_ID or not feature_id.isprintable():
        raise InvalidInput(
            f"{feature_id[:80]!r} cannot be the name of a feature.",
            cause=f"A name has 1 to {MAX_ID} printable characters.",
        )
    if not 1 <= len(claims) <= MAX_CLAIMS:
        raise InvalidInput(
            f"A feature claims 1 to {MAX_CLAIMS} keys, not {len(claims)}.",
            remedy="Name folders or globs in place of many files.",
        )


def _check_text(name: str, value: Any) -> None:
    """Refuse text that the database or JSON cannot hold."""
    try:
        size = len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode())
    except ValueError as error:
        raise InvalidInput(f"The {name} cannot be stored.", cause=f"{error}.") from error
    if size > MAX_TEXT_BYTES:
        raise InvalidInput(f"The {name} is larger than {MAX_TEXT_BYTES} bytes.", remedy="Name a file in it instead.")
