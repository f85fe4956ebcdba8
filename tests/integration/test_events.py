"""The stream of changes: every reader gets every event once, in order, across a daemon's death."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from corral.config.paths import find_project, find_socket
from corral.core.errors import InvalidInput, LockHeld
from tests.support.coordinated import Coordinated, eventually

Event = dict[str, Any]


class Reader:
    """One that reads the stream in a thread of its own, and comes again where it was when it breaks off."""

    def __init__(self, house: Coordinated, after: int | None = None) -> None:
        self._house = house
        self.seen: list[Event] = []
        self.connections = 0
        self._last = after
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._over.wait(0.05):
            try:
                for event in self._stream():
                    self.seen.append(event)
                    self._last = event["event_id"]
            except OSError:
                continue

    def _stream(self) -> Iterator[Event]:
        with closing(dial(self._house, self._last)) as link:
            link.settimeout(0.2)
            self.connections += 1
            data = b""
            while not self._over.is_set():
                try:
                    part = link.recv(65536)
                except TimeoutError:
                    continue
                if not part:
                    return
                data += part
                *blocks, data = data.split(b"\n\n")
                for block in blocks:
                    fields = dict(
                        line.split(b": ", 1) for line in block.splitlines() if line.startswith((b"id: ", b"data: "))
                    )
                    if fields:
                        event = json.loads(fields[b"data"])
                        assert int(fields[b"id"]) == event["event_id"]
                        yield event

    def stop(self) -> list[int]:
        self._over.set()
        self._thread.join(10)
        return [event["event_id"] for event in self.seen]


def dial(house: Coordinated, after: int | None) -> socket.socket:
    link = socket.socket(socket.AF_UNIX)
    try:
        link.connect(str(find_socket(find_project(house.root))))
    except OSError:
        link.close()
        raise
    header = "" if after is None else f"Last-Event-ID: {after}\r\n"
    link.sendall(f"GET /api/v1/events HTTP/1.0\r\nHost: localhost\r\n{header}\r\n".encode())
    return link


def lock(house: Coordinated, number: int) -> None:
    house.ask("POST", "/locks/acquire", {"paths": [f"src/{number}.py"], "session_id": "one"})


def test_every_reader_gets_every_change_once_though_the_daemon_is_killed_in_between(house: Coordinated) -> None:
    lock(house, 0)
    readers = [Reader(house, 0) for _ in range(3)]
    newcomer = Reader(house)
    eventually(lambda: newcomer.connections and all(reader.seen for reader in readers))
    for number in range(1, 6):
        house.ask("POST", "/tasks", {"title": f"task {number}", "description": "for a session"})
    eventually(
        lambda: all(reader.seen[-1]["kind"] == "task.submitted" for reader in [*readers, newcomer] if reader.seen)
    )
    house.kill_daemon()
    for number in range(6, 12):
        house.ask("POST", "/tasks", {"title": f"task {number}", "description": "for a session"})

    def has_all(reader: Reader) -> bool:
        return [event["kind"] for event in reader.seen].count("task.submitted") == 11

    for reader in [*readers, newcomer]:
        eventually(partial(has_all, reader))
    everything = [reader.stop() for reader in readers]
    assert everything[0] == sorted(set(everything[0])) and everything[1:] == everything[:1] * 2
    assert all(reader.connections >= 2 for reader in readers)
    later = newcomer.stop()
    assert later == everything[0][-len(later) :] and len(later) < len(everything[0])


@pytest.mark.req("SESSION-1", "SESSION-2")
def test_locks_sessions_and_memories_are_on_the_stream_and_hide_nothing_from_those_who_look_back(
    house: Coordinated,
) -> None:
    reader = Reader(house, 0)
    both = {"file_path": "src/a.py", "file_paths": ["api:GET /v1/users"], "session_id": "one"}
    for _ in range(2):
        assert len(house.ask("POST", "/locks/acquire", both)["locks"]) == 2
    house.hook("SessionStart", "two")
    for number in range(30):
        house.hook("UserPromptSubmit", "two", prompt=f"Do number {number}")
    house.edit("two", "src/b.py")
    house.hook("Stop", "two", stop_hook_active=False)
    house.ask("POST", "/sessions", {"session_id": "two", "capabilities": ["python"]})
    house.ask("POST", "/memory", {"summary": "The tests need a database.", "session_id": "one"})
    with pytest.raises(LockHeld):
        house.ask("POST", "/locks/acquire", {"file_path": "src/a.py", "session_id": "two"})
    assert house.ask("POST", "/locks/release", {"file_path": "src/a.py", "session_id": "one"})["released"] == [
        "src/a.py"
    ]
    eventually(lambda: reader.seen and reader.seen[-1]["kind"] == "lock.released")
    reader.stop()

    def told(kind: str) -> list[tuple[str, Any]]:
        return [(event["session_id"], event["data"]) for event in reader.seen if event["kind"] == kind]

    free = {"exclusive": True, "automatic": False, "checkout": None}
    edited = {"paths": ["src/b.py"], "exclusive": True, "automatic": True, "checkout": str(house.root)}
    assert told("lock.acquired") == [("one", {"paths": ["api:GET /v1/users", "src/a.py"], **free}), ("two", edited)]
    tasks = [{"current_task": f"Do number {number}"} for number in range(30)]
    ends = [{"status": "idle"}, {"status": "active", "capabilities": ["python"]}]
    assert told("session.changed") == [("two", news) for news in [*tasks, *ends]]
    ((who, memory),) = told("memory.stored")
    assert (who, memory["event_type"], memory["times"]) == ("one", "discovery", 1)
    recent = [event["kind"] for event in house.ask("GET", "/status")["recent"]]
    assert recent == ["lock.released", "memory.stored", "session.started", "session.started"]


def test_a_reader_that_does_not_read_holds_up_nobody_and_a_stop_ends_the_stream(house: Coordinated) -> None:
    house.run("daemon", "start")
    with closing(dial(house, 0)) as lazy:
        for number in range(40):
            body = {"title": f"task {number}", "description": "x", "input_data": {"text": "y" * 200}}
            house.ask("POST", "/tasks", body)
        quick = Reader(house, 0)
        eventually(lambda: sum(event["kind"] == "task.submitted" for event in quick.seen) == 40)
        house.run("daemon", "stop")
        lazy.settimeout(20)
        received = b"".join(iter(lambda: lazy.recv(65536), b""))
        assert received.count(b"task.submitted") == 40
    quick.stop()


def test_a_place_that_is_none_is_refused(house: Coordinated) -> None:
    for query in ("after=-1", "after=x", f"after={2**63}"):
        with pytest.raises(InvalidInput):
            house.ask("GET", f"/events?{query}")
