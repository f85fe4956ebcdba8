"""Connections are bounded before anybody knows who speaks, and the owner is served whatever others open."""

from __future__ import annotations

import json
import resource
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

import psutil
import pytest

from corral.client import wire
from corral.config.paths import find_project, socket_path
from corral.faces.http.connections import HEADERS_BYTES, HEADERS_S, MOST_BODY_BYTES
from tests.support.coordinated import Coordinated, eventually


@pytest.fixture
def house(coordinate: Callable[..., Coordinated]) -> Coordinated:
    house = coordinate(config="daemon: {tcp: true}")
    house.run("daemon", "start")
    return house


def _address(house: Coordinated) -> tuple[str, int]:
    content = json.loads((house.root / ".corral/run/daemon.json").read_text())
    return content["host"], content["port"]


@pytest.mark.req("X1")
def test_it_listens_on_tcp_only_where_somebody_asked_for_it(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate()
    pid = house.ask("GET", "/health")["pid"]
    listening = [
        connection.laddr for connection in psutil.Process(pid).net_connections("inet") if connection.status == "LISTEN"
    ]
    assert listening == []


@pytest.mark.req("X17")
def test_hundreds_who_open_a_connection_and_say_nothing_lock_nobody_out(house: Coordinated) -> None:
    pid = house.running_pid()
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (256, 256))
    with ExitStack() as opened:
        links = []
        for _ in range(500):
            link = opened.enter_context(socket.create_connection(_address(house), timeout=5))
            with suppress(OSError):  # one too many is cut off at once
                link.sendall(b"GET /api/v1/health HTTP/1.1\r\nHost: ")
            links.append(link)
        began = time.monotonic()
        assert house.ask("GET", "/health")["pid"] == pid
        assert psutil.Process(pid).num_fds() < 200
        assert time.monotonic() - began < HEADERS_S, "the owner did not wait for them"
        eventually(lambda: all(_is_cut(link) for link in links), HEADERS_S + 10)


def _is_cut(link: socket.socket) -> bool:
    link.setblocking(False)
    try:
        return link.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_headers_without_an_end_are_cut_off(house: Coordinated) -> None:
    with socket.create_connection(_address(house), timeout=10) as link:
        link.sendall(b"GET / HTTP/1.1\r\n")
        with suppress(OSError):
            for _ in range(2 * HEADERS_BYTES // 1024):
                link.sendall(b"X-A: " + b"a" * 1000 + b"\r\n")
        eventually(lambda: _is_cut(link), HEADERS_S / 2)


@pytest.mark.req("X17")
@pytest.mark.parametrize("body", [b"Content-Length: 157286400", b"Transfer-Encoding: chunked"])
@pytest.mark.executed
def test_a_body_of_150_mb_is_refused_and_not_kept(house: Coordinated, body: bytes) -> None:
    pid = house.running_pid()
    head = b"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + body + b"\r\n\r\n"
    chunk = b"x" * 65536
    sent = chunk if body.startswith(b"Content") else b"%x\r\n%s\r\n" % (len(chunk), chunk)
    with wire.dial(str(socket_path(find_project(house.root))), 20) as link:
        link.sendall(head)
        # It may be cut off while it still sends; to wait for the rest, until the time is out, would be to take it.
        with suppress(ConnectionError):
            for _ in range(2 * MOST_BODY_BYTES // len(chunk)):
                link.sendall(sent)
        with suppress(ConnectionError):
            answer = link.recv(65536)
            assert answer.startswith(b"HTTP/1.1 413 ") and b"too_large" in answer
    assert psutil.Process(pid).memory_info().rss < 250 * 2**20
    assert house.ask("GET", "/health")["pid"] == pid
