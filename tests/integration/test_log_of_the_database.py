"""The write-ahead log stays short while sessions work and while they only live: nobody has to stop for it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tests.support.coordinated import Coordinated, eventually

SESSIONS, ROUNDS = 4, 80
BOUND = 24 << 20
"""Three times what is cut: a reader can be in it when it is to be cut."""


@pytest.mark.req("D7")
def test_the_log_is_cut_while_sessions_live(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate()
    house.run("daemon", "start")
    log, at_work = house.root / ".corral/corral.db-wal", threading.Semaphore(0)

    def work(number: int) -> None:
        client, mine = house.client(), {"session_id": f"s{number}", "paths": [f"d{number}/f{n}" for n in range(100)]}
        try:
            for _ in range(ROUNDS):
                client.request("POST", "/locks/acquire", mine)
                client.request("POST", "/locks/release", mine)
        finally:
            client.close()
            at_work.release()

    sessions = [threading.Thread(target=work, args=(number,)) for number in range(SESSIONS)]
    for session in sessions:
        session.start()
    reader, largest, working = house.client(), 0, SESSIONS
    try:
        while working:
            reader.request("GET", "/locks")
            largest = max(largest, log.stat().st_size)
            working -= at_work.acquire(timeout=0.01)
        assert 0 < largest < BOUND, f"{largest >> 20} MB"

        def cut() -> bool:
            """Every session gives a sign of life far more often than the writer would call it idle."""
            for number in range(SESSIONS):
                reader.request("POST", f"/sessions/s{number}/heartbeat")
            return log.stat().st_size < 1 << 20

        eventually(cut)
    finally:
        reader.close()
        for session in sessions:
            session.join()
