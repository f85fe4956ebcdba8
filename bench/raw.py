"""The floor below the reference daemon: processes that write the SQLite file themselves, one transaction per operation."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.load import Load
from bench.reference import do, opened

Plan = Iterable[dict[str, Any]]


def _play(database: str, plan: Plan, parent: Connection) -> None:
    db, latencies = opened(database), []
    parent.send(None)
    parent.recv()
    for call in plan:
        began = time.perf_counter()
        db.execute("BEGIN IMMEDIATE" if call["op"] not in ("check", "inbox") else "BEGIN")
        do(db, call)
        db.execute("COMMIT")
        latencies.append((time.perf_counter() - began) * 1000)
    parent.send(latencies)


def drive(database: Path, plans: Sequence[Plan]) -> Load:
    """Run every plan in its own process, all at once."""
    fork, links, players = multiprocessing.get_context("fork"), [], []
    for plan in plans:
        ours, theirs = fork.Pipe()
        players.append(fork.Process(target=_play, args=(str(database), plan, theirs)))
        links.append(ours)
        players[-1].start()
        ours.recv()
    began = time.perf_counter()
    for link in links:
        link.send(None)
    load = Load([latency for link in links for latency in link.recv()])
    load.seconds = time.perf_counter() - began
    for player in players:
        player.join()
    return load
