"""Locks on logical keys through the official client: each namespace, with all that a lock on a file can do."""

from __future__ import annotations

import asyncio

import pytest

from corral.core.instants import parse
from tests.integration.mcp.client import Agent, play
from tests.support.coordinated import Coordinated

KEYS = {
    "api:GET /v1/users": ("api:POST /v1/users", "api:GET /v1", "api:GET /v1/users/7"),
    "db:schema:users": ("db:schema", "db:schema:users.mail"),
    "event:user.created": ("event:user", "event:user.created.v2"),
    "flag:dark/mode": ("flag:dark", "flag:dark/", "flag:dark/mode/x"),
    "env:staging": ("env:STAGING", "env:*"),
    "contract:billing": ("contract:bill", "contract:billing/**"),
    "feature:FEAT-123:pause": ("feature:FEAT-123", "feature:*"),
}
"""One key of each namespace, and others that a path with the same letters would lie above or below, or be matched by."""


@pytest.mark.req("LOCKKEY-1")
def test_a_key_of_every_namespace_is_locked_as_a_file_is_and_covers_nothing_else(house: Coordinated) -> None:
    async def scene(one: Agent, two: Agent) -> None:
        me, you = [(await agent.call("register_session"))["agent_name"] for agent in (one, two)]

        async def holders(key: str) -> list[str]:
            return [row["locked_by"] for row in await two.call("check_locks", file_paths=[key])]

        for key, others in KEYS.items():
            taken = await one.call("acquire_lock", file_path=key, reason="bd-1", ttl_minutes=30)
            assert (taken["success"], taken["action"], taken["file_path"]) == (True, "acquired", key)
            for exclusive in (True, False):
                refused = await two.call("acquire_lock", file_path=key, exclusive=exclusive)
                assert (refused["success"], refused["reason"], refused["locked_by"]) == (
                    False, "locked_by_other", me,
                )  # fmt: skip
                assert refused["expires_at"] == taken["expires_at"]
            assert await holders(key) == [me]
            again = await one.call("acquire_lock", file_path=key, ttl_minutes=60)
            assert again["action"] == "refreshed" and parse(again["expires_at"]) > parse(taken["expires_at"])
            assert (await two.call("release_lock", file_path=key))["reason"] == "lock_not_found_or_not_owner"
            for other in others:
                assert (await two.call("acquire_lock", file_path=other))["success"], f"{other} is not {key}"
                assert await holders(other) == [you]
        assert (await two.call("acquire_lock", file_path="**"))["success"], "every file there is, and no logical key"
        for key in KEYS:
            assert (await two.call("acquire_lock", file_path=key))["success"] is False
            waiting = asyncio.create_task(two.call("acquire_lock", file_path=key, wait_seconds=60))
            assert (await one.call("release_lock", file_path=key))["action"] == "released"
            assert (await waiting)["success"] and await holders(key) == [you]
            assert (await one.call("acquire_lock", file_path=key))["locked_by"] == you

    play(house, scene, agents=2)
