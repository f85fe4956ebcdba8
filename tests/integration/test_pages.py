"""The longest lists there are: each answer is bounded, says that something was left out, and how to get it; nothing is lost."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import create_engine, insert

from corral.config.paths import find_project, socket_path
from corral.config.sections.work import Tasks as TaskRules
from corral.coordination.mail import messages
from corral.coordination.mail.addresses import Identity
from corral.coordination.mail.messages import BODY_LIMIT, Letter
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.registry import Arrival
from corral.core.identifiers import new_id
from corral.core.instants import after, iso
from corral.core.pages import BYTES, SHOWN_BYTES
from corral.store.schema import agent_sessions, file_locks
from corral.work.tasks import tasks
from corral.work.tasks.wire import read_submissions
from tests.integration.mcp.client import Agent, play
from tests.support.coordinated import Coordinated

LOCKS, MAILS, TASKS, SESSIONS, LIVE = 2500, 12, 1300, 1100, 120
ENVELOPE = 4096
"""What may come around a list."""


@pytest.fixture
def full(coordinate: Callable[..., Coordinated]) -> Coordinated:
    """A project with many locks, and mail of the largest size."""
    house = coordinate()
    house.run("daemon", "start")
    house.stop()
    now = datetime.now(timezone.utc)
    engine = create_engine(f"sqlite:///{find_project(house.root).database}")
    with engine.begin() as conn:
        for name in ("ann", "ben", "cid"):
            session_registry.register(conn, Arrival(session_id=name, agent_name=name.title()), now)
        common = {
            "is_pattern": False, "checkout": "", "session_id": "ann", "exclusive": True, "automatic": False,
            "reason": None, "task_id": None, "ttl_s": 86400.0, "acquired_at": iso(now), "expires_at": after(now, 86400),
        }  # fmt: skip
        paths = [f"d{number}/f.py" for number in range(LOCKS)]
        conn.execute(
            insert(file_locks),
            [{**common, "lock_id": new_id(), "file_path": path, "match_key": path} for path in paths],
        )
        for number in range(MAILS):
            letter = Letter(f"word {number}", "x" * BODY_LIMIT, to=("Ben",), cc=("Cid",), thread_id="T")
            messages.send(conn, Identity("ann", "Ann"), letter, now - timedelta(minutes=MAILS - number))
        submissions = [
            {"title": f"t{number} " + "x" * 180, "description": "d", "priority": number % 3} for number in range(TASKS)
        ]
        tasks.submit_batch(conn, read_submissions(submissions), now, TaskRules())
        alike = {"agent_type": "shell", "capabilities": [], "current_task": "y" * 300}
        began = [iso(now - timedelta(days=2, minutes=number // 3)) for number in range(SESSIONS)]
        gone = [
            {**alike, "session_id": f"s{n}", "agent_name": f"S{n}", "started_at": at, "last_heartbeat": at,
             "status": "disconnected", "ended_at": at, "unguarded_since_at": None}
            for n, at in enumerate(began)
        ]  # fmt: skip
        live = [
            {**alike, "session_id": f"l{n}", "agent_name": f"L{n}", "started_at": iso(now), "last_heartbeat": iso(now),
             "status": "idle", "ended_at": None, "unguarded_since_at": iso(now) if n == 7 else None}
            for n in range(LIVE)
        ]  # fmt: skip
        conn.execute(insert(agent_sessions), [*gone, *live])
    engine.dispose()
    house.run("daemon", "start")
    return house


def pages(house: Coordinated, path: str) -> Iterator[list[dict[str, Any]]]:
    """The parts of a list, each as large as the answer before says by its Link header."""
    following: str | None = f"/api/v1{path}"
    while following is not None:
        with contextlib.closing(http.client.HTTPConnection("localhost")) as conn:
            conn.sock = socket.socket(socket.AF_UNIX)
            conn.sock.settimeout(60)
            conn.sock.connect(str(socket_path(find_project(house.root))))
            conn.request("GET", following)
            answer = conn.getresponse()
            body = answer.read()
        assert answer.status == 200 and len(body) <= BYTES + ENVELOPE, (following, answer.status, len(body))
        link = answer.headers["Link"]
        following = re.fullmatch(r'<(.*)>; rel="next"', link)[1] if link else None  # type: ignore[index]
        yield json.loads(body)


def test_a_long_list_comes_in_bounded_parts_and_whole(full: Coordinated) -> None:
    paths = [row["file_path"] for page in pages(full, "/locks") for row in page]
    assert len(paths) == LOCKS and set(paths) == {f"d{number}/f.py" for number in range(LOCKS)}
    assert len(next(pages(full, "/locks"))) < 1000, "cut by its size"
    assert [len(page) for page in pages(full, "/locks?limit=500")] == [500] * 5 + [0]
    assert len(full.json("lock", "list")) == LOCKS

    numbers = list(range(MAILS, 0, -1))
    for path in ("/messages?session_id=ben&limit=1000", "/messages?agent=Cid&limit=5"):
        parts = list(pages(full, path))
        assert len(parts) > 2 and [row["id"] for page in parts for row in page] == numbers
        assert all(len(row["body"]) == BODY_LIMIT for page in parts for row in page)
    everybody = [(row["id"], row["to"]) for page in pages(full, "/messages?everyone=1&limit=5") for row in page]
    assert everybody == [(number, name) for number in numbers for name in ("Ben", "Cid")]
    thread = list(pages(full, "/messages/threads/T"))
    assert [row["id"] for page in thread[::-1] for row in page] == numbers[::-1]
    assert [row["id"] for row in full.json("message", "thread", "T")] == numbers[::-1]
    assert [row["id"] for row in full.json("message", "inbox", "--agent", "Ben", "--limit", "11")] == numbers[:11]
    (page,) = pages(full, "/messages/search?q=word&limit=200")
    assert 0 < len(page) < MAILS, "of what is found as much as fits"
    (standing,) = full.ask("POST", "/locks/check", {"paths": ["**"], "session_id": "cid"})
    assert standing["locked"] and standing["left_out"] and len(standing["conflicts"]) == 50
    _tasks_and_sessions(full)
    _what_meets(full)
    for wrong in (
        "/locks?after=x",
        "/locks?limit=1001",
        "/messages?before=-1",
        "/sessions?after=x",
        "/tasks?after=9",
        "/tasks?after=x,y",
    ):
        with pytest.raises(AssertionError, match="422"):
            list(pages(full, wrong))


def _tasks_and_sessions(full: Coordinated) -> None:
    parts = list(pages(full, "/tasks"))
    rows = [row for part in parts for row in part]
    assert len(parts) > 1 and len({row["task_id"] for row in rows}) == len(rows) == TASKS
    assert [row["priority"] for row in rows] == sorted((row["priority"] for row in rows), reverse=True)
    assert [row["title"] for row in rows if row["priority"] == 2][:2] == [rows[0]["title"], rows[1]["title"]]
    assert rows[0]["title"].startswith("t2 ") and rows[1]["title"].startswith("t5 "), "the oldest first"
    some = [row for part in pages(full, "/tasks?min_priority=1&status=pending&limit=400") for row in part]
    assert some == [row for row in rows if row["priority"] >= 1]
    assert full.json("task", "list") == rows and full.json("task", "list", "--limit", "1250") == rows[:1250]

    parts = list(pages(full, "/sessions"))
    seen = [row["session_id"] for part in parts for row in part]
    assert len(parts) > 2 and len(seen) == len(set(seen)) == SESSIONS + LIVE + 3
    assert {"ann", "ben", "cid"} <= set(seen[: LIVE + 3])
    assert [len(part) for part in pages(full, "/sessions?status=disconnected&limit=300")] == [300, 300, 300, 200]
    listed = full.json("session", "list")
    assert {row["session_id"] for row in listed} == set(seen)
    assert [row["last_heartbeat"] for row in listed] == sorted((row["last_heartbeat"] for row in listed), reverse=True)
    status = full.ask("GET", "/status")
    assert len(status["sessions"]) == 50 and status["sessions_left_out"] == LIVE + 3 - 50
    assert status["sessions"][0]["unguarded"] and not status["sessions"][1]["unguarded"]
    shown = full.run("status").stdout
    assert f"sessions  {LIVE + 3}" in shown and "and 73 more" in shown


def _what_meets(full: Coordinated) -> None:
    folder = f"{'m' * 180}/"
    for number in range(20):
        claims = [f"{folder}{number}-{name}.py" for name in range(60)]
        full.ask("POST", "/features", {"feature_id": f"F-{number}", "resource_claims": [*claims, f"only/{number}"]})
    everything = [f"{folder}{'?' * length}-*.py" for length in (1, 2)]
    judged = full.ask("POST", "/features/analyze", {"claims": [*everything, *(f"own/{n}" for n in range(9))]})
    assert len(json.dumps(judged)) <= BYTES + ENVELOPE
    assert len(judged["conflicts"]) + judged["left_out"] == 20 and judged["total_conflicting_claims"] == 2
    assert {(len(conflict["claims"]), conflict["left_out"]) for conflict in judged["conflicts"]} == {(50, 10)}
    output = full.run("feature", "analyze", "--claim", f"{folder}1-*.py", check=False).stdout
    assert "and 10 more" in output and "SEQUENTIAL" in output


def test_a_model_is_told_less_at_once_and_how_to_go_on(full: Coordinated) -> None:
    async def scene(agent: Agent) -> None:
        seen: set[str] = set()
        asked: dict[str, str] = {}
        while True:
            parts = [part.text for part in (await agent.session.call_tool("check_locks", asked)).content]  # type: ignore[union-attr]
            rows = json.loads(parts[0])
            assert len(json.dumps(rows, separators=(",", ":"))) <= SHOWN_BYTES + ENVELOPE
            seen |= {row["file_path"] for row in rows}
            if len(parts) == 1:
                break
            asked = {"after": parts[1].partition("after='")[2].partition("'")[0]}
        assert len(seen) == LOCKS
        met = (await agent.session.call_tool("check_locks", {"file_paths": ["**"]})).content
        assert "fewer paths" in met[1].text  # type: ignore[union-attr]
        resource = await agent.session.read_resource("locks://current")
        assert len(json.loads(resource.contents[0].text)) < LOCKS  # type: ignore[union-attr]
        assert "check_locks with after=" in resource.contents[1].text  # type: ignore[union-attr]

        agents = await agent.call("discover_agents", status="disconnected")
        assert len(json.dumps(agents)) < 2 * SHOWN_BYTES and agents["left_out"] and len(agents["agents"]) > 10

        await agent.call("register_agent", program="p", model="m", name="Dan")
        for _ in range(3):
            await agent.call("send_message", to=["Dan"], subject="s", body_md="y" * 40_000)
        whole = await agent.session.call_tool("fetch_inbox", {"include_bodies": True})
        (first,) = json.loads(whole.content[0].text)  # type: ignore[union-attr]
        assert f"before={first['id']}" in whole.content[1].text  # type: ignore[union-attr]
        older = await agent.session.call_tool("fetch_inbox", {"include_bodies": True, "before": first["id"]})
        assert json.loads(older.content[0].text)[0]["id"] == first["id"] - 1  # type: ignore[union-attr]
        states = {row["id"]: row["state"] for row in await agent.call("fetch_inbox")}
        assert list(states.values()) == ["injected", "injected", "queued"], "what was left out has not been read"

        thread = await agent.read("resource://thread/T?include_bodies=true")
        assert [row["id"] for row in thread["messages"]] == [MAILS] and f"before={MAILS}" in thread["left_out"]
        thread = await agent.read(f"resource://thread/T?include_bodies=true&before={MAILS}")
        assert [row["id"] for row in thread["messages"]] == [MAILS - 1]
        begun = await agent.call(
            "macro_prepare_thread", project_key=str(full.root), thread_id="T", program="p", model="m",
            agent_name="Dan", include_inbox_bodies=True,
        )  # fmt: skip
        assert begun["thread"]["total_messages"] == MAILS and len(begun["thread"]["examples"]) == 1
        assert "before=" in begun["inbox_left_out"]

    play(full, scene, profile="full")
