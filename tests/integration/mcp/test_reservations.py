"""Locks and file reservations through the official client: two faces of one engine."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from datetime import datetime, timezone
from typing import Any

import pytest

from corral.core.errors import LockHeld, NotPermitted
from corral.core.instants import parse
from tests.conftest import git
from tests.integration.mcp.client import Agent, play
from tests.support.coordinated import Coordinated, eventually

OVERLAPS = [
    ("src/lib.py", "src/**"),
    ("src/auth/login.py", "src/auth"),
    ("src/*.py", "src/api*"),
    ("app/api/users.py", "app/api/*.py"),
    ("./web/app.py", "web/app.py"),
    ("tests/unit/**", "tests/**/test_a.py"),
    ("docs/[ab].md", "docs/?.md"),
]
"""Held, then asked for. Agent Mail granted each of them to two agents at once; see
https://github.com/Dicklesworthstone/mcp_agent_mail/issues/129."""


def _agent(answer: dict[str, Any]) -> tuple[list[str], list[str]]:
    return [row["path_pattern"] for row in answer["granted"]], [row["path"] for row in answer["conflicts"]]


@pytest.mark.req("RESERVE-1")
@pytest.mark.req("RESERVE-2")
@pytest.mark.req("RESERVE-3")
def test_reservations_in_the_shapes_of_agent_mail(house: Coordinated) -> None:
    async def scene(one: Agent, two: Agent) -> None:
        project = str(house.root)
        for agent, name in ((one, "BlueLake"), (two, "RedStone")):
            await agent.call("register_agent", project_key=project, program="opencode-coder", model="m", name=name)
        mine = {"project_key": project, "agent_name": "BlueLake"}
        yours = {"project_key": project, "agent_name": "RedStone"}

        async def reserve(agent: Agent, who: dict[str, str], *paths: str, **more: Any) -> Any:
            return await agent.call("file_reservation_paths", **who, paths=list(paths), **more)

        # What conflicts is not granted, the rest is: path by path.
        made = await reserve(one, mine, "src/a.py", "docs/**", ttl_seconds=1200, exclusive=True, reason="T-17")
        assert _agent(made) == (["src/a.py", "docs/**"], [])
        assert set(made["granted"][0]) == {"id", "path_pattern", "exclusive", "reason", "expires_ts"}
        assert made["granted"][0]["reason"] == "T-17" and made["granted"][0]["exclusive"] is True
        other = await reserve(two, yours, "src/*.py", "free.py")
        assert _agent(other) == (["free.py"], ["src/*.py"])
        (holder,) = other["conflicts"][0]["holders"]
        assert (holder["agent"], holder["path_pattern"], holder["exclusive"]) == ("BlueLake", "src/a.py", True)
        assert holder["expires_ts"] == made["granted"][0]["expires_ts"]

        # Asked again it is the same reservation, and never shorter.
        (again,) = (await reserve(one, mine, "./src/a.py", ttl_seconds=60))["granted"]
        assert (again["id"], again["expires_ts"]) == (made["granted"][0]["id"], made["granted"][0]["expires_ts"])
        renewed = await one.call("renew_file_reservations", **mine, extend_seconds=600, paths=["src/a.py"])
        assert renewed["renewed"] == 1
        (row,) = renewed["file_reservations"]
        assert (row["old_expires_ts"], row["path_pattern"]) == (again["expires_ts"], "src/a.py")
        assert row["new_expires_ts"] > row["old_expires_ts"]
        assert (await two.call("renew_file_reservations", **yours, file_reservation_ids=[again["id"]]))["renewed"] == 0

        # Looking takes nothing.
        checked = await two.call("check_file_reservation_conflicts", **yours, paths=["src", "free.py", "other"])
        assert (checked["conflict_free"], checked["clear_paths"]) == (False, ["free.py", "other"])
        assert checked["conflicts"][0]["path"] == "src" and checked["own_active"][0]["path_pattern"] == "free.py"
        assert checked["total_conflicting_reservations"] == 1 and checked["read_only"] is True

        # The holder is alive: he is named, and keeps it.
        held = await two.call("force_release_file_reservation", **yours, file_reservation_id=again["id"])
        refused = held["mcp_error"]["error"]
        assert refused["type"] == "RESERVATION_ACTIVE" and refused["data"]["signs"] and "Ask " in refused["message"]
        gone = await two.call("force_release_file_reservation", **yours, file_reservation_id=4711)
        assert gone == {"released": 0, "already_released": True, "released_at": None}

        # Only one's own, by path, by id, or all.
        released = await two.call("release_file_reservations", **yours, file_reservation_ids=[again["id"]])
        assert released["released"] == 0
        released = await one.call("release_file_reservations", **mine, paths=["src/a.py"])
        assert released["released"] == 1 and released["released_at"]
        for named, kind in (("paths", "EMPTY_PATHS"), ("file_reservation_ids", "EMPTY_IDS")):
            for tool in ("release_file_reservations", "renew_file_reservations"):
                refusal = await one.call(tool, **{**mine, named: []})
                assert refusal["mcp_error"]["error"]["type"] == kind
        assert (await one.call("release_file_reservations", **mine))["released"] == 1
        assert _agent(await reserve(two, yours, "src/*.py", "docs/x.md"))[1] == []
        assert (await two.call("release_file_reservations", **yours))["released"] == 3

        # What is shared is shared.
        assert _agent(await reserve(one, mine, "lib/**", exclusive=False))[1] == []
        assert _agent(await reserve(two, yours, "lib/x.py", exclusive=False))[1] == []
        assert _agent(await reserve(two, yours, "lib/x.py", exclusive=True))[1] == ["lib/x.py"]
        for agent, who in ((one, mine), (two, yours)):
            await agent.call("release_file_reservations", **who)

        # Overlaps that a list of literal names never finds, both ways round; and one that is none.
        for pair in OVERLAPS:
            for first, then in (pair, pair[::-1]):
                assert _agent(await reserve(one, mine, first))[1] == []
                assert _agent(await reserve(two, yours, then)) == ([], [then]), (first, then)
                await one.call("release_file_reservations", **mine)
        await reserve(one, mine, "README.md")
        assert _agent(await reserve(two, yours, "docs/README.md"))[1] == []

        # What has expired is anybody's, and nothing of it stays behind.
        await reserve(one, mine, "short/**", "db:schema:short", ttl_seconds=1)
        assert stored("short/**", "db:schema:short") == 2
        eventually(lambda: stored("short/**", "db:schema:short") == 0, 20)
        assert _agent(await reserve(two, yours, "short/x.py", "db:schema:short"))[1] == []

    def stored(*keys: str) -> int:
        with closing(sqlite3.connect(f"file:{house.root / '.corral/corral.db'}?mode=ro", uri=True)) as database:
            held = [row[0] for row in database.execute("SELECT file_path FROM file_locks")]
        return sum(key in held for key in keys)

    play(house, scene, agents=2, profile="mail")
    eventually(lambda: house.json("lock", "list") == [])

    # A task that fails has given back what it had reserved.
    took = house.root.parent / "took"
    failing = {"title": "Fails", "command": f"corral lock acquire docs/x.md && touch {took}; exit 1", "max_retries": 0}
    task_id = house.ask("POST", "/tasks", failing)["task_id"]
    assert not house.json("wait", task_id, "--timeout", "60", check=False)["done"]
    assert house.ask("GET", f"/tasks/{task_id}")["status"] in ("failed", "dead") and took.exists()
    assert house.json("lock", "list") == []


@pytest.mark.req("LOCKKEY-1")
@pytest.mark.req("LOCKKEY-2")
@pytest.mark.req("LOCKKEY-3")
@pytest.mark.req("LOCKKEY-4")
@pytest.mark.req("LOCKKEY-5")
@pytest.mark.req("LOCKKEY-6")
def test_logical_keys_and_files_are_locked_side_by_side(house: Coordinated) -> None:
    async def scene(one: Agent, two: Agent) -> None:
        for key in ("api:POST /v1/users", "api:GET /v1/users", "db:schema:users", "src/api/users.py"):
            assert (await one.call("acquire_lock", file_path=key))["file_path"] == key
        pause = {"file_path": "feature:FEAT-123:pause", "reason": "contract revision bump"}
        assert (await one.call("acquire_lock", **pause))["action"] == "acquired"
        for spelled in ("api:get  v1/users/", "DB:schema:Users", "./src/api/users.py", "feature:FEAT-123:pause"):
            refused = await two.call("acquire_lock", file_path=spelled)
            assert (refused["success"], refused["reason"]) == (False, "locked_by_other"), spelled
        (seen,) = await two.call("check_locks", file_paths=["feature:FEAT-123:pause"])
        assert seen["reason"] == "contract revision bump" and seen["expires_at"]
        assert (await two.call("acquire_lock", file_path="api:GET /v1/users/7"))["success"]
        assert (await one.call("release_lock", file_path="api:GET /v1/users"))["success"]
        assert (await two.call("acquire_lock", file_path="src/api/users.py"))["success"] is False
        stored = {row["file_path"] for row in await one.read("locks://current")}
        assert {"api:POST /v1/users", "db:schema:users", "src/api/users.py", "api:GET /v1/users/7"} <= stored
        refused = await one.call("acquire_lock", file_path="invalid:prefix:key")
        assert refused["error"] == "operation_not_permitted" and "./invalid:prefix:key" in refused["remedy"]
        assert (await one.call("acquire_lock", file_path="./invalid:prefix:key"))["success"]

    play(house, scene, agents=2)
    eventually(lambda: house.json("lock", "list") == [])

    # The same by HTTP and on the command line.
    mine: dict[str, Any] = {"CLAUDE_CODE_SESSION_ID": "mine"}
    yours: dict[str, Any] = {"CLAUDE_CODE_SESSION_ID": "yours"}
    pause, route, table, file = keys = [
        "feature:FEAT-123:pause", "api:GET /v1/users", "db:schema:users", "src/api/users.py"
    ]  # fmt: skip
    house.json("lock", "acquire", pause, "--reason", "contract revision bump", **mine)
    house.ask("POST", "/locks/acquire", {"paths": keys[1:], "session_id": "mine", "ttl_s": 600})
    for key, spelled in zip(keys, (pause, "api:get  v1/users/", "DB:schema:Users", "./src/api/users.py"), strict=True):
        with pytest.raises(LockHeld):
            house.ask("POST", "/locks/acquire", {"paths": [spelled], "session_id": "yours"})
        assert house.run("lock", "acquire", spelled, check=False, **yours).returncode == 4
        (seen,) = house.ask("POST", "/locks/check", {"paths": [spelled], "session_id": "yours"})
        (conflict,) = seen["conflicts"]
        assert (seen["locked"], conflict["file_path"], conflict["session_id"]) == (True, key, "mine")
        assert (conflict["expires_in_s"] <= 600) is (key != pause)
    checked = house.run("lock", "check", pause, check=False, **yours)
    assert checked.returncode == 4 and "(contract revision bump)" in checked.stdout

    # Both kinds lie side by side, and go one by one.
    def held() -> dict[str, str]:
        return {row["file_path"]: row["session_id"] for row in house.json("lock", "list")}

    assert held() == dict.fromkeys(keys, "mine")
    assert house.json("lock", "release", file, **mine)["released"] == [file]
    assert held() == dict.fromkeys([pause, route, table], "mine")
    assert house.ask("POST", "/locks/release", {"paths": [route], "session_id": "mine"})["released"] == [route]
    house.ask("POST", "/locks/acquire", {"paths": [file], "session_id": "yours"})
    house.json("lock", "acquire", "api:GET /v1/users", **yours)
    assert held() == {pause: "mine", table: "mine", file: "yours", route: "yours"}
    odd = house.run("lock", "acquire", "invalid:prefix:key", check=False, **mine)
    assert odd.returncode != 0 and "no known namespace" in odd.stderr
    with pytest.raises(NotPermitted):
        house.ask("POST", "/locks/acquire", {"paths": ["invalid:prefix:key"], "session_id": "mine"})


def test_waiting_for_a_lock_and_what_is_refused(house: Coordinated) -> None:
    async def scene(one: Agent, two: Agent) -> None:
        assert (await one.call("acquire_lock", file_path=["x", "y"]))["file_paths"] == ["x", "y"]
        late = await two.call("acquire_lock", file_path="x", wait_seconds=0.3)
        assert (late["reason"], late["success"]) == ("locked_by_other", False) and "0.3 s" in late["message"]
        assert (await two.call("acquire_lock", file_path="z"))["success"]
        waiting = asyncio.create_task(two.call("acquire_lock", file_path=["x", "y", "w"], wait_seconds=60))
        while not (await one.call("check_file_reservation_conflicts", paths=["w"]))["conflicts"]:
            await asyncio.sleep(0.02)
        circle = await one.call("acquire_lock", file_path="z", wait_seconds=60)
        assert circle["reason"] == "would_wait_for_itself" and len(circle["circle"]) == 2
        assert (await one.call("acquire_lock", file_path="w"))["success"] is False
        await one.call("release_lock", file_path="x")
        assert not waiting.done()
        await one.call("release_lock", file_path="y")
        assert (await waiting)["file_paths"] == ["x", "y", "w"]

        for more in ({"wait_seconds": -1}, {"wait_seconds": 1e9}, {"ttl_minutes": 0}, {"ttl_minutes": 1e9}):
            assert (await one.call("acquire_lock", file_path="q", **more))["error"] == "invalid_input"
        for bad in ("../x", "/etc/passwd", "a\nb", "*a" * 17, ".git/config", "", "api:GET", ["/x", "../x"], []):
            refused = (await one.call("acquire_lock", file_path=bad))["error"]
            assert refused == ("operation_not_permitted" if bad == "api:GET" else "invalid_input"), bad
            paths = bad if isinstance(bad, list) else [bad]
            error = (await one.call("file_reservation_paths", paths=paths))["mcp_error"]["error"]
            expected = "OPERATION_NOT_PERMITTED" if bad == "api:GET" else "INVALID_ARGUMENT" if paths else "EMPTY_PATHS"
            assert error["type"] == expected and error["recoverable"] is True
        many = [f"p{number}" for number in range(10_000)]
        assert "10000 paths" in (await one.call("acquire_lock", file_path=many))["message"]
        assert "10000 paths" in (await one.call("file_reservation_paths", paths=many))["mcp_error"]["error"]["message"]
        stranger = await one.call("file_reservation_paths", paths=["q"], agent_name="Nobody")
        assert stranger["mcp_error"]["error"]["type"] == "NOT_FOUND"
        other = (await two.call("check_locks"))[0]["locked_by"]
        for tool in ("file_reservation_paths", "release_file_reservations", "check_file_reservation_conflicts"):
            forged = await one.call(tool, paths=["q"], agent_name=other)
            assert forged["mcp_error"]["error"]["type"] == "OPERATION_NOT_PERMITTED"
        elsewhere = await one.call("file_reservation_paths", paths=["q"], project_key="/")
        assert elsewhere["mcp_error"]["error"]["type"] == "PROJECT_NOT_FOUND"

    play(house, scene, agents=2, profile="full")


def test_a_reason_for_a_lock_is_not_a_book(house: Coordinated) -> None:
    async def scene(agent: Agent) -> None:
        assert (await agent.call("acquire_lock", file_path="src/a.py", reason="x" * 2000))["success"]
        refused = await agent.call("acquire_lock", file_path="src/b.py", reason="x" * 2001)
        assert not refused["success"] and "at most 2000 characters" in str(refused)

    play(house, scene)


ANSWERED = {"success", "action", "file_path", "expires_at", "reason", "locked_by", "lock_reason"}
"""By the coordinator's ``acquire_lock``, whatever comes of it."""


@pytest.mark.req("MCP-1")
def test_locks_are_told_as_the_coordinator_tells_them(house: Coordinated) -> None:
    async def scene(one: Agent, two: Agent) -> None:
        began = datetime.now(timezone.utc)
        made = await one.call("acquire_lock", file_path="src/a.py", reason="T-1")
        assert set(made) >= ANSWERED and made["reason"] is made["locked_by"] is None
        life = (parse(made["expires_at"]) - began).total_seconds()
        assert 7190 < life < 7260, "two hours, unless said otherwise"
        (row,) = await two.call("check_locks")
        assert {"file_path": "src/a.py", "agent_type": "mcp", "reason": "T-1", "expires_at": made["expires_at"]} == {
            name: row[name] for name in ("file_path", "agent_type", "reason", "expires_at")
        }
        assert row["locked_by"] in {session["agent_name"] for session in house.json("session", "list")}
        assert abs((parse(row["locked_at"]) - began).total_seconds()) < 30
        assert await two.call("check_locks", file_paths=["docs/"]) == []
        held = await two.call("acquire_lock", file_path="src/a.py")
        assert set(held) >= ANSWERED
        assert (held["reason"], held["locked_by"], held["lock_reason"]) == ("locked_by_other", row["locked_by"], "T-1")
        for wrong, reason in (
            ({"file_path": "../x"}, "invalid_file_path"), ({"file_path": "a:b"}, "invalid_file_path"),
            ({"file_path": "x", "ttl_minutes": 0}, "ttl_out_of_range"),
            ({"file_path": "x", "ttl_minutes": 1e9}, "ttl_out_of_range"),
            ({"file_path": "x", "wait_seconds": -1}, "invalid_input"),
        ):  # fmt: skip
            answer = await one.call("acquire_lock", **wrong)
            assert set(answer) >= ANSWERED and (answer["success"], answer["reason"]) == (False, reason), wrong
            assert answer["file_path"] == wrong["file_path"] and answer["message"]
        freed = await two.call("release_lock", file_path="src/a.py")
        assert (freed["success"], freed["action"], freed["reason"]) == (False, None, "lock_not_found_or_not_owner")
        freed = await one.call("release_lock", file_path=str(house.root / "src/a.py"))
        assert freed == {"success": True, "action": "released", "file_path": "src/a.py", "reason": None}

    play(house, scene, agents=2)


@pytest.mark.req("RESERVE-1", "RESERVE-2")
def test_a_path_that_nobody_can_have_is_refused_alone(house: Coordinated) -> None:
    elsewhere = house.root.parent / "elsewhere"
    git(house.root, "worktree", "add", "-q", str(elsewhere))

    async def scene(one: Agent, two: Agent) -> None:
        asked = ["src/a.py", "../x", "tool://browser", str(house.root / "src/b.py"), str(elsewhere / "src/*.md"),
                 "/etc/passwd"]  # fmt: skip
        made = await one.call("file_reservation_paths", paths=asked)
        assert _agent(made) == (["src/a.py", "src/b.py", "src/*.md"], ["../x", "tool://browser", "/etc/passwd"])
        assert [(row["holders"], row["error"]["type"]) for row in made["conflicts"]] == [
            ([], "INVALID_ARGUMENT"), ([], "OPERATION_NOT_PERMITTED"), ([], "INVALID_ARGUMENT"),
        ]  # fmt: skip
        assert "../x" in made["conflicts"][0]["error"]["message"]
        checked = await two.call("check_file_reservation_conflicts", paths=["../x", "docs", str(house.root / "src")])
        assert [row["path"] for row in checked["conflicts"]] == [str(house.root / "src"), "../x"]
        assert (checked["conflict_free"], checked["clear_paths"]) == (False, ["docs"])
        freed = await one.call("release_file_reservations", paths=["../x", str(elsewhere / "src/a.py")])
        assert freed["released"] == 1
        # What lies under another repository's folder is not this project's, whatever its name.
        refused = await one.call("file_reservation_paths", paths=[f"{house.root}/../../etc/passwd"])
        assert refused["mcp_error"]["error"]["type"] == "INVALID_ARGUMENT"

    play(house, scene, agents=2, profile="mail")


@pytest.mark.req("RESERVE-1")
def test_a_reservation_with_a_key_is_made_once(house: Coordinated) -> None:
    async def scene(one: Agent, two: Agent) -> None:
        key = {"idempotency_key": "once", "reason": "T-1"}
        made = await one.call("file_reservation_paths", paths=["src/a.py"], **key)
        await one.call("release_file_reservations")
        again = await one.call("file_reservation_paths", paths=["src/a.py"], **key)
        assert again == {**made, "idempotent_replay": True} and house.json("lock", "list") == []
        other = await one.call("file_reservation_paths", paths=["src/b.py"], **key)
        assert other["mcp_error"]["error"]["type"] == "IDEMPOTENCY_KEY_CONFLICT"
        assert _agent(await two.call("file_reservation_paths", paths=["src/b.py"], **key)) == (["src/b.py"], [])

    play(house, scene, agents=2, profile="mail")
