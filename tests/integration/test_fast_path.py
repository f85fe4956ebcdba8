"""Calls that pass by the framework are answered as the framework would: same shapes, same errors."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from corral.client import wire
from corral.config.paths import find_project, socket_path
from corral.core.errors import InvalidInput, LockHeld
from tests.support.coordinated import Coordinated


@pytest.fixture
def house(shared_house: Coordinated) -> Coordinated:
    """One for all tests here."""
    return shared_house


def _raw(house: Coordinated, method: str, path: str, body: bytes | None) -> tuple[int, Any]:
    link = wire.dial(str(socket_path(find_project(house.root))), 10)
    with link:
        link.sendall(wire.request(method, f"/api/v1{path}", body))
        data = b""
        while chunk := link.recv(65536):
            data += chunk
            head, _, rest = data.partition(b"\r\n\r\n")
            if b"content-length: %d" % len(rest) in head.lower():
                break
    return int(data[9:12]), json.loads(rest)


def _refuses(house: Coordinated, method: str, path: str, body: bytes | None) -> None:
    status, answer = _raw(house, method, path, body)
    assert status in (400, 422), (path, body)
    assert set(answer["error"]) == {"code", "name", "message", "cause", "remedy", "details"}, (path, body)


PATHS = ("/hooks/Stop", "/locks/acquire", "/locks/check", "/locks/release", "/tasks")


def test_a_body_that_cannot_be_read_is_an_error_of_the_usual_shape(house: Coordinated) -> None:
    house.ask("GET", "/health")
    for path, body in itertools.product(PATHS, (b"", b"{", b"[1]", b"\xff")):
        _refuses(house, "POST", path, body)


def test_a_wrong_field_is_named_and_an_error_of_the_domain_comes_through(house: Coordinated) -> None:
    with pytest.raises(InvalidInput) as wrong:
        house.ask("POST", "/locks/acquire", {"paths": 5})
    assert wrong.value.details["errors"][0]["field"] == "body.paths"
    taken = house.ask("POST", "/locks/acquire", {"paths": ["a.py", "./a.py"], "session_id": "one"})
    assert [lock["file_path"] for lock in taken["locks"]] == ["a.py"]
    assert taken["locks"][0]["locked_by"]
    with pytest.raises(LockHeld):
        house.ask("POST", "/locks/acquire", {"paths": ["a.py"], "session_id": "two"})


def test_another_method_or_a_longer_path_is_the_frameworks(house: Coordinated) -> None:
    house.ask("GET", "/health")
    assert _raw(house, "GET", "/tasks", None) == (200, [])
    assert _raw(house, "POST", "/hooks/Stop/more", b"{}")[0] == 404


def test_an_inbox_that_is_asked_for_wrongly_is_an_error_of_the_usual_shape(house: Coordinated) -> None:
    house.ask("GET", "/health")
    for query in ("limit=0", "limit=many", "limit=5&limit=0", "everyone=perhaps", "wait_s=-1"):
        _refuses(house, "GET", f"/messages?{query}", None)


def test_an_inbox_is_asked_for_in_any_spelling_of_a_query(house: Coordinated) -> None:
    for name in ("reader", "writer"):
        house.ask("POST", "/sessions", {"session_id": f"the {name}", "agent_name": name})
    for text in ("first", "second"):
        house.ask("POST", "/messages", {"session_id": "the writer", "to": ["reader"], "subject": text, "body": "é"})
    for query in (
        "session_id=the+reader",
        "session_id=the%20reader&unread_only=1",
        "agent=READER&unknown=yes",
        "everyone=true",
    ):
        assert [letter["subject"] for letter in _raw(house, "GET", f"/messages?{query}", None)[1]] == [
            "second",
            "first",
        ]
    assert [letter["subject"] for letter in _raw(house, "GET", "/messages?everyone=on&limit=1", None)[1]] == ["second"]
    assert _raw(house, "GET", "/messages?session_id=the+reader&after=99", None) == (200, [])


def test_an_id_in_the_path_that_no_session_can_have_is_refused(house: Coordinated) -> None:
    house.ask("GET", "/health")
    for bad in ("%20one", "a%07b", "x" * 129):
        _refuses(house, "POST", f"/sessions/{bad}/heartbeat", b"{}")
    assert _raw(house, "POST", "/sessions/one/heartbeat", None)[0] == 200
