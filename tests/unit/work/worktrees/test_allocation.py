"""Blocks of ports: disjoint, free when given, refused when there are none."""

from __future__ import annotations

import socket

import pytest

from corral.core.errors import Conflict
from corral.work.worktrees.allocation import bindable, choose_block


def always(_: int) -> bool:
    return True


def test_the_lowest_block_nobody_owns_is_given() -> None:
    assert choose_block(set(), 20000, 10, always) == 20000
    assert choose_block({20000, 20010, 20030}, 20000, 10, always) == 20020


def test_a_block_with_one_busy_port_is_passed_over() -> None:
    assert choose_block(set(), 20000, 10, lambda port: port != 20009) == 20010


def test_blocks_of_another_size_or_start_are_not_overlapped() -> None:
    assert choose_block({20015}, 20000, 10, always) == 20000
    assert choose_block({20015, 20000}, 20000, 10, always) == 20030
    assert choose_block({20010}, 20000, 20, always) == 20040


def test_a_hundred_worktrees_share_no_port() -> None:
    taken: set[int] = set()
    for _ in range(100):
        taken.add(choose_block(taken, 20000, 10, always))
    assert len({port for base in taken for port in range(base, base + 10)}) == 1000


def test_the_last_port_is_used_and_none_beyond() -> None:
    asked: list[int] = []
    assert choose_block(set(), 65526, 10, lambda port: asked.append(port) or True) == 65526  # type: ignore[func-returns-value]
    assert max(asked) == 65535
    with pytest.raises(Conflict) as raised:
        choose_block({65526}, 65526, 10, always)
    assert "port_first" in raised.value.remedy


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_a_port_that_somebody_listens_on_is_not_bindable(address: str) -> None:
    with socket.socket() as listener:
        listener.bind((address, 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert not bindable(port)
    assert bindable(port)


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 in this Python")
def test_a_port_that_is_taken_on_ipv6_alone_is_not_bindable() -> None:
    with socket.socket(socket.AF_INET6) as listener:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            listener.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6 loopback")
        listener.listen()
        assert not bindable(listener.getsockname()[1])


def test_a_port_whose_last_connection_is_still_closing_is_bindable() -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        served, _ = listener.accept()
        served.close()  # The server closes first: its side stays in TIME_WAIT.
        client.recv(1)
        client.close()
    assert bindable(port)
