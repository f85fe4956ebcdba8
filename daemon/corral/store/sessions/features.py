"""SQL for the registry of features. Whether their claims overlap is decided in ``coordination``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from corral.models.states import FeatureStatus
from corral.store.schema_coordination import feature_claims, features

Row = dict[str, Any]


def get(conn: Connection, feature_id: str) -> Row | None:
    """One feature, whether active or not."""
    row = conn.execute(select(features).where(features.c.feature_id == feature_id)).mappings().first()
    return dict(row) if row else None


def active(conn: Connection) -> list[Row]:
    """The features whose claims count, oldest first."""
    query = (
        select(features)
        .where(features.c.status == FeatureStatus.ACTIVE)
        .order_by(features.c.created_at, features.c.feature_id)
    )
    return [dict(row) for row in conn.execute(query).mappings()]


def create(conn: Connection, values: Row) -> Row:
    """Store a new feature."""
    return dict(conn.execute(insert(features).values(**values).returning(features)).mappings().one())


def change(conn: Connection, feature_id: str, values: Row) -> Row:
    """Set columns of a feature that exists."""
    query = update(features).where(features.c.feature_id == feature_id).values(**values).returning(features)
    return dict(conn.execute(query).mappings().one())


def end(conn: Connection, feature_id: str, status: str, at: str) -> Row | None:
    """Let a feature's claims count no more; None: it was not active."""
    query = (
        update(features)
        .where(features.c.feature_id == feature_id, features.c.status == FeatureStatus.ACTIVE)
        .values(status=status, updated_at=at, ended_at=at)
        .returning(features)
    )
    row = conn.execute(query).mappings().first()
    return dict(row) if row else None


def replace_claims(conn: Connection, feature_id: str, claims: Sequence[Row]) -> None:
    """Give a feature these claims, ``[{claim, match_key, is_pattern}]``, and no others."""
    conn.execute(delete(feature_claims).where(feature_claims.c.feature_id == feature_id))
    conn.execute(insert(feature_claims), [{"feature_id": feature_id, **claim} for claim in claims])


def claims_of(conn: Connection, feature_id: str) -> list[Row]:
    """What one feature claims."""
    query = select(feature_claims).where(feature_claims.c.feature_id == feature_id).order_by(feature_claims.c.claim)
    return [dict(row) for row in conn.execute(query).mappings()]


def active_claims(conn: Connection) -> dict[str, list[Row]]:
    """What every active feature claims, by feature."""
    query = (
        select(feature_claims)
        .join(features, features.c.feature_id == feature_claims.c.feature_id)
        .where(features.c.status == FeatureStatus.ACTIVE)
        .order_by(features.c.created_at, feature_claims.c.feature_id, feature_claims.c.claim)
    )
    found: dict[str, list[Row]] = {}
    for row in conn.execute(query).mappings():
        found.setdefault(row["feature_id"], []).append(dict(row))
    return found
