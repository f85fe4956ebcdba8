"""Needs of a person for agents: a version that was rolled back, a rollout that stopped by itself, an improvement that ended."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from corral.core.instants import iso
from corral.core.needs import Need
from corral.work.agents.store import choices, improvements, versions

if TYPE_CHECKING:
    from corral.coordination.services import Services


SHOWN_FOR = timedelta(days=14)
"""How long an improvement waits for a decision here; `corral agent improve NAME --status` shows it later too."""


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


def ended_improvements(services: Services, conn: Connection) -> Iterator[Need]:
    """Improvements that failed, or whose recommended version is neither deployed nor rolled out."""
    for row in improvements.undecided(conn, iso(services.now() - SHOWN_FOR)):
        agent, report = row["agent"], row["report"]
        if row["state"] == "failed":
            what, remedy = f"failed: {row['reason']}", f"corral agent improve {agent} --resume"
        elif report and report["recommendation"] == "deploy" and not report["deployed"]:
            what, remedy = f"recommends its version: {report['why']}", f"corral agent improve {agent} --deploy"
        else:
            continue
        yield Need("ended_improvement", f"The improvement of {agent} {what}", remedy, row["ended_at"], {"agent": agent})
