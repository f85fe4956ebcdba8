"""Needs of a person for agents: a version that was rolled back, or whose rollout stopped by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from corral.app.runtime.needs import Need
from corral.store.agents import choices, versions

if TYPE_CHECKING:
    from corral.app.runtime.services import Services


def ended_rollouts(_services: Services, conn: Connection) -> Iterator[Need]:
    """Rollouts that ended by themselves, until somebody has looked at them."""
    for row in choices.unseen(conn):
        if row["share"] is None or row["reason"] is None:
            continue
        version = versions.by_hash(conn, row["agent"], row["content_hash"])
        what = "was rolled back" if row["state"] == "rolled_back" else "stopped"
        number = version["version"] if version else row["content_hash"][:12]
        yield Need(
            "ended_rollout",
            f"The rollout of {row['agent']} {number} {what}: {row['reason']}",
            f"corral agent rollout stop {row['agent']}",
            row["ended_at"],
            {"agent": row["agent"]},
        )
