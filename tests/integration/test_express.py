"""Calls that pass by the framework are answered as the framework would: same shapes, same errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from corral import wire
from corral.config.paths import find_project, socket_path
from corral.errors import InvalidInput, LockHeld
from tests.coordinated import Coordinated


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


@pytest.mark.parametrize("path", ["/hooks/Stop", "/locks/acquire", "/locks/check", "/locks/release", "/tasks"])
@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"\xff"])
def test_a_body_that_cannot_be_read_is_an_error_of_the_usual_shape(house: Coordinated, path: str, body: bytes) -> None:
    house.run("daemon", "start")
    status, answer = _raw(house, "POST", path, body)
    assert status in (400, 422)
    assert set(answer["error"]) == {"code", "name", "message", "cause", "remedy", "details"}


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
    house.run("daemon", "start")
    assert _raw(house, "GET", "/tasks", None) == (200, [])
    assert _raw(house, "POST", "/hooks/Stop/more", b"{}")[0] == 404
