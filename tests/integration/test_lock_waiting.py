"""Locks over the socket and the command line: waiting, renewing, taking from the dead, and bad input."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from corral.core.errors import CorralError, InvalidInput, LockHeld, NotFound
from tests.integration.bridging import Bridge
from tests.support.coordinated import Coordinated, eventually


def _acquire(house: Coordinated, who: str, *paths: str, wait_s: float = 0, **more: Any) -> Any:
    body = {"session_id": who, "paths": paths, **({"wait_s": wait_s} if wait_s else {}), **more}
    return house.ask("POST", "/locks/acquire", body, timeout_s=60)


def _release(house: Coordinated, who: str, *paths: str) -> None:
    house.ask("POST", "/locks/release", {"session_id": who, "paths": paths})


def _waiting(house: Coordinated) -> int:
    with closing(sqlite3.connect(f"file:{house.root / '.corral/corral.db'}?mode=ro", uri=True)) as database:
        return int(database.execute("SELECT count(*) FROM lock_waits").fetchone()[0])


def _holders(house: Coordinated) -> dict[str, str]:
    return {row["file_path"]: row["session_id"] for row in house.ask("GET", "/locks")}


def test_a_wait_ends_with_its_limit_its_expiry_its_session_and_its_connection(house: Coordinated) -> None:
    _acquire(house, "one", "x", ttl_s=2)
    began = time.monotonic()
    with pytest.raises(LockHeld, match="not free within"):
        _acquire(house, "two", "x", wait_s=0.5)
    assert 0.5 <= time.monotonic() - began < 30
    assert _acquire(house, "two", "x", wait_s=30)["success"]
    assert time.monotonic() - began < 20
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(_acquire, house, "three", "x", wait_s=40)
        eventually(lambda: _waiting(house) == 1)
        house.ask("POST", "/sessions/three/end", {})
        _release(house, "two")
        with pytest.raises(CorralError, match="ended while it waited"):
            asked.result()
    assert _acquire(house, "two", "x")["success"]
    waiting = subprocess.Popen(
        [sys.executable, "-m", "corral", "lock", "acquire", "x", "--wait", "600"],
        cwd=house.root,
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: _waiting(house) == 1)
    finally:
        waiting.kill()
        waiting.wait()
    eventually(lambda: _waiting(house) == 0)
    _release(house, "two")
    assert _acquire(house, "four", "x")["success"]


def test_a_call_that_its_client_cancels_waits_no_more(house: Coordinated) -> None:
    _acquire(house, "one", "x")
    bridge = Bridge(house.root)
    try:
        asked = bridge.send(
            "tools/call", {"name": "acquire_lock", "arguments": {"file_path": "x", "wait_seconds": 100}}
        )
        eventually(lambda: _waiting(house) == 1)
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": asked}}
        bridge.write(json.dumps(cancelled).encode())
        eventually(lambda: _waiting(house) == 0)
        _release(house, "one")
        assert _holders(house) == {}
        assert bridge.ask("ping") is not None
    finally:
        bridge.close()


def test_the_command_line_waits_renews_and_tells(house: Coordinated) -> None:
    _acquire(house, "one", "x", "y")
    threading.Timer(1.0, lambda: _release(house, "one", "x")).start()
    assert house.json("lock", "acquire", "x", "z", "--wait", "40")["success"]
    refused = house.run("lock", "acquire", "y", "w", "--each", check=False)
    assert refused.returncode == 4
    assert "w: locked by" in refused.stdout and "y: held by" in refused.stdout
    (renewed,) = house.json("lock", "renew", "z", "--extend", "7200")["locks"]
    assert renewed["expires_at"] > renewed["old_expires_at"]
    assert len(house.json("lock", "renew", "--all")["locks"]) == 3
    assert house.run("lock", "renew", "y", check=False).returncode == 3
    assert house.run("lock", "renew", check=False).returncode == 2
    refused = house.run("lock", "force-release", "y", check=False)
    assert refused.returncode == 4 and "heartbeat" in refused.stderr and "by message" in refused.stderr
    for bad in ("../x", "/etc/passwd", "a\x1bb", "invalid:prefix:key", ""):
        failed = house.run("lock", "acquire", "--", bad, check=False)
        assert failed.returncode in (1, 2) and "\x1b" not in failed.stderr, bad
    assert house.run("lock", "acquire", *(f"p{n}" for n in range(10_000)), check=False).returncode == 2
    assert set(_holders(house)) == {"x", "y", "z", "w"}


def test_a_lock_is_taken_only_from_a_holder_who_shows_no_sign_of_life(
    coordinate: Callable[..., Coordinated],
) -> None:
    house = coordinate(config="sessions: {stale_after_s: 864000}")
    (house.root / "notes").mkdir()
    note = house.root / "notes" / "a.md"
    note.write_text("by hand")
    _acquire(house, "gone", "notes/**", "api:GET /v1")
    _acquire(house, "here", "z")
    house.stop()
    with closing(sqlite3.connect(house.root / ".corral/corral.db")) as database, database:
        database.execute("UPDATE agent_sessions SET last_heartbeat = '2026-01-01T00:00:00.000Z'")
    ask = {"session_id": "here", "paths": ["notes/**", "api:GET /v1"], "note": "Needed today."}
    with pytest.raises(CorralError) as refused:
        house.ask("POST", "/locks/force-release", ask)
    assert refused.value.to_wire()["error"]["details"]["signs"] == ["file activity 0 min ago"]
    os.utime(note, (0, 0))
    released = house.ask("POST", "/locks/force-release", ask)["released"]
    assert {row["file_path"] for row in released} == {"notes/**", "api:GET /v1"}
    assert any("inactive" in reason for reason in released[0]["stale_reasons"])
    assert "no git activity in the last 15 min" in released[0]["stale_reasons"]
    notice = house.hook("UserPromptSubmit", "gone", prompt="go on")["hookSpecificOutput"]["additionalContext"]
    assert "released your lock on notes/**" in notice and "Needed today." in notice
    assert house.ask("POST", "/locks/force-release", ask)["released"] == []
    assert _holders(house) == {"z": "here"}


def test_what_cannot_be_asked_is_refused_with_a_reason(house: Coordinated) -> None:
    for paths in ([], ["../x"], ["/etc"], ["a\nb"], ["*a" * 17], [".git/config"], ["p"] * 1001, ["a" * 5000]):
        with pytest.raises(InvalidInput):
            _acquire(house, "one", *paths)
    for more in ({"ttl_s": 0}, {"ttl_s": 1e9}, {"wait_s": -1}, {"wait_s": 1e6}, {"wait_s": 5, "each": True}):
        with pytest.raises(InvalidInput):
            _acquire(house, "one", "x", **more)
    for paths, more in ((["p{n}"] * 101, {"wait_s": 5}), ([f"*{n}" for n in range(11)], {})):
        with pytest.raises(InvalidInput, match=r"too many|Too many"):
            _acquire(house, "one", *paths, **more)
    for extend_s in (0, -5, 1e12):
        with pytest.raises(InvalidInput):
            house.ask("POST", "/locks/renew", {"session_id": "one", "extend_s": extend_s})
    with pytest.raises(NotFound):
        house.ask("POST", "/locks/renew", {"session_id": "one", "paths": ["x"]})
    with pytest.raises(InvalidInput):
        house.ask("POST", "/locks/force-release", {"session_id": "one"})
    assert _holders(house) == {}
