"""SQL for the registry of features. Whether their claims overlap is decided in ``coordination``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from corral.core.states import FeatureStatus
from corral.store.engine.fetch import fetch_all, fetch_each, fetch_first, fetch_one
from corral.store.rows.records import FeatureClaimRow, FeatureRow, NewFeatureClaim
from corral.store.schema_coordination import feature_claims, features

_ACTIVE = features.c.status == FeatureStatus.ACTIVE


def get(conn: Connection, feature_id: str) -> FeatureRow | None:
    """One feature, whether active or not."""
    return fetch_first(conn, select(features).where(features.c.feature_id == feature_id), FeatureRow)


def active(conn: Connection) -> list[FeatureRow]:
    """The features whose claims count, oldest first."""
    query = select(features).where(_ACTIVE).order_by(features.c.created_at, features.c.feature_id)
    return fetch_all(conn, query, FeatureRow)


def create(conn: Connection, values: Mapping[str, Any]) -> FeatureRow:
    """Store a new feature."""
    return fetch_one(conn, insert(features).values(**values).returning(features), FeatureRow)


def change(conn: Connection, feature_id: str, values: Mapping[str, Any]) -> FeatureRow:
    """Set columns of a feature that exists."""
    query = update(features).where(features.c.feature_id == feature_id).values(**values).returning(features)
    return fetch_one(conn, query, FeatureRow)


def end(conn: Connection, feature_id: str, status: str, at: str) -> FeatureRow | None:
    """Let a feature's claims count no more; None: it was not active."""
    query = update(features).where(features.c.feature_id == feature_id, _ACTIVE)
    ended = query.values(status=status, updated_at=at, ended_at=at).returning(features)
    return fetch_first(conn, ended, FeatureRow)


def replace_claims(conn: Connection, feature_id: str, claims: Sequence[NewFeatureClaim]) -> None:
    """Give a feature these claims, and no others."""
    conn.execute(delete(feature_claims).where(feature_claims.c.feature_id == feature_id))
    conn.execute(insert(feature_claims), [{"feature_id": feature_id, **claim} for claim in claims])


def claims_of(conn: Connection, feature_id: str) -> list[FeatureClaimRow]:
    """The claims of one feature."""
    query = select(feature_claims).where(feature_claims.c.feature_id == feature_id).order_by(feature_claims.c.claim)
    return fetch_all(conn, query, FeatureClaimRow)


def active_claims(conn: Connection) -> dict[str, list[FeatureClaimRow]]:
    """The claims of all active features, by feature."""
    query = (
        select(feature_claims)
        .join(features, features.c.feature_id == feature_claims.c.feature_id)
        .where(_ACTIVE)
        .order_by(features.c.created_at, feature_claims.c.feature_id, feature_claims.c.claim)
    )
    claims: dict[str, list[FeatureClaimRow]] = {}
    for row in fetch_each(conn, query, FeatureClaimRow):
        claims.setdefault(row["feature_id"], []).append(row)
    return claims
