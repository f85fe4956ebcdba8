"""Registering a feature again."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from sqlalchemy import Connection

from corral.coordination.features import registry
from corral.coordination.features.registry import Registration
from corral.coordination.locks.keys import parse_key

NOW = datetime(2026, 3, 1, tzinfo=timezone.utc)


@pytest.mark.req("FEATURE-1")
def test_what_is_not_said_again_stays_and_what_is_said_replaces_it(any_database: Connection) -> None:
    def register(**fields: object) -> dict[str, object]:
        feature = Registration("login", [parse_key("src/a.py")], **fields)  # type: ignore[arg-type]
        row, _action = registry.register(any_database, feature, "s", NOW)
        return {key: row[key] for key in ("title", "branch_name", "metadata")}

    first = {"title": "Log in", "branch_name": "login", "metadata": {"ticket": 7}}
    assert register(**first) == first
    assert register() == first
    assert register(title="Sign in", metadata={"ticket": 8}) == {**first, "title": "Sign in", "metadata": {"ticket": 8}}
    registry.deregister(any_database, "login", "completed", "s", NOW)
    assert register() == {"title": None, "branch_name": None, "metadata": {}}, "another line of work of the same name"
