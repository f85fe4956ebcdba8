"""The frequent operations of sessions, over the socket, next to the bare reference daemon and raw SQLite."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.coordinated import Coordinated

from bench import raw
from bench.load import Load, drive, http, line
from bench.measure import Measure, p50, p95
from bench.reference import reference
from bench.world import World
from corral.config.paths import find_project, socket_path

QUIET = "supervisor: {max_agents: 0}\nqueue: {max_size: 1000000}\n"
CLIENTS = (1, 10, 50)
P95_MS = {1: 10.0, 10: 10.0, 50: 50.0}
"""The design's budgets are for 10 and 50 clients; one client has the budget of ten."""
TIMES = 3
"""Repetitions; the quietest counts, for the measurement and its floors: others use the machine too."""
OF_LOCKS = ("heartbeat", "acquire", "check", "release")
OPERATIONS = (*OF_LOCKS, "send", "inbox")
OF_BARE = 1 / 2
"""Of the reference daemon's operations per second: it runs one statement per line of JSON and checks nothing."""
READERS = 50
"""Sessions that receive the mail."""
LETTERS = 100
"""Messages that one session sends: below its limit per minute."""
FILES = 900
"""Files that one session locks: below its limit of locks."""
BODY = "It is free in a minute, once my tests are through. " * 4

Asked = dict[str, Any]
Plans = list[list[Asked]]


def ours(op: str, **call: Any) -> bytes:
    """An operation as a request to the daemon."""
    session = call["id"]
    if op == "heartbeat":
        return http("POST", f"/sessions/{session}/heartbeat")
    if op == "send":
        letter = {"to": [call["to"]], "subject": call["subject"], "body": call["body"]}
        return http("POST", "/messages", {"session_id": session, **letter})
    if op == "inbox":
        return http("GET", f"/messages?session_id={session}&limit=20")
    return http("POST", f"/locks/{op}", {"session_id": session, "paths": [call["path"]]})


def asked(op: str, client: str, number: int) -> Asked:
    """The request of a client in a given round."""
    who = {"op": op, "id": f"client-{client}"}
    if op == "send":
        letter = {"to": f"Reader{number % READERS}", "subject": f"Letter {number}", "body": BODY}
        return {**who, "id": f"sender-{client}-{number // LETTERS}", **letter}
    if op == "inbox":
        return {**who, "id": f"Reader{number % READERS}"}
    return {**who, "path": f"src/c{client}/f{number % FILES}.py"}


def plans(ops: Sequence[str], clients: int, requests: int, turn: str) -> Plans:
    """The requests of each client, in order; each round has its own clients."""
    each = max(1, requests // clients)
    return [[asked(ops[n % len(ops)], f"{turn}.{c}", n // len(ops)) for n in range(each)] for c in range(clients)]


def _to_ours(wanted: Plans) -> list[list[bytes]]:
    return [[ours(**call) for call in plan] for plan in wanted]


def _to_bare(wanted: Plans) -> list[list[bytes]]:
    return [[line(**call) for call in plan] for plan in wanted]


def fill(house: Coordinated, rows: int) -> None:
    """Create the locks of other sessions, a hundred each, and as many messages."""
    client = house.client()
    for first in range(0, rows, 100):
        paths = [f"other/d{number % 97}/f{number}.py" for number in range(first, min(first + 100, rows))]
        client.request("POST", "/locks/acquire", {"session_id": f"other-{first}", "paths": paths, "ttl_s": 86400})
    for number in range(READERS):
        reader = f"Reader{number}"  # its name and its id: the reference daemon knows one of them
        client.request("POST", "/sessions", {"session_id": reader, "agent_name": reader})
    client.close()
    drive(socket_path(find_project(house.root)), _to_ours([_letters(rows)]))


def _letters(rows: int) -> list[Asked]:
    return [{**asked("send", "", number), "id": f"before-{rows}-{number // LETTERS}"} for number in range(rows)]


def _sweep(play: Callable[[Plans], Load], requests: int) -> dict[tuple[str, int], Load]:
    play(plans(("heartbeat",), max(CLIENTS), 4 * max(CLIENTS), ""))
    loads: dict[tuple[str, int], Load] = {}
    for clients, op in itertools.product(CLIENTS, OPERATIONS):
        for time in range(TIMES):
            wanted = plans((op,), clients, requests, f"{clients}.{time}")
            play(_arrivals(wanted))
            load = play(wanted)
            quietest = loads.setdefault((op, clients), load)
            if p95(load.latencies) < p95(quietest.latencies):
                loads[op, clients] = load
    return loads


def _arrivals(wanted: Plans) -> Plans:
    """Register each session before the measurement: a registration has no budget."""
    return [[{"op": "heartbeat", "id": who} for who in dict.fromkeys(call["id"] for plan in wanted for call in plan)]]


def _throughput(play: Callable[[Plans], Load], requests: int) -> Load:
    # Acquire, check and release the same path, and a heartbeat: the requests of working sessions.
    wanted = plans(OF_LOCKS, 10, 2 * requests, "all")
    return max((play(wanted) for _ in range(TIMES)), key=lambda load: load.rate)


def _before(rows: int) -> Iterable[Asked]:
    yield from ({"op": "acquire", "id": "other", "path": f"other/f{number}.py"} for number in range(rows))
    yield from _letters(rows)


@contextmanager
def _filled(world: World, rows: int) -> Iterator[Callable[[Plans], Load]]:
    """A daemon of its own with so many rows: two sweeps of clients together exceed the limit of live sessions."""
    house = world.coordinated(20, QUIET)
    house.run("daemon", "start")
    fill(house, rows)
    socket = socket_path(find_project(house.root))
    yield lambda wanted: drive(socket, _to_ours(wanted))
    house.stop()


def measure(world: World) -> Iterator[Measure]:
    """Measure the latency of each operation, then operations per second."""
    sizes = world.sizes
    with _filled(world, sizes.few_rows) as play:
        few = _sweep(play, sizes.requests // 3)
    with _filled(world, sizes.many_rows) as play:
        many = _sweep(play, sizes.requests)
        total = _throughput(play, sizes.requests)
    before = [list(_before(sizes.many_rows))]
    with reference(world.folder) as (bare, _pid):
        drive(bare, _to_bare(before))
        floor = _sweep(lambda wanted: drive(bare, _to_bare(wanted)), sizes.requests)
        floor_total = _throughput(lambda wanted: drive(bare, _to_bare(wanted)), sizes.requests)
    lowest = _raw(
        world.folder / "raw.db", before, sizes.requests // 3
    )  # with fifty concurrent writers, a request waits long
    for (op, clients), load in many.items():
        yield Measure(
            f"{op}, {clients} client{'s' * (clients > 1)}, {sizes.many_rows:,} rows: p95",
            p95(load.latencies),
            "ms",
            p95(floor[op, clients].latencies),
            P95_MS[clients],
            note=f"p50 {p50(load.latencies):.2f}; with {sizes.few_rows} rows p95 {p95(few[op, clients].latencies):.2f}; "
            f"raw SQLite p95 {p95(lowest[op, clients].latencies):.2f}",
        )
    yield Measure("operations, 10 clients, FULL durability", total.rate, "/s", floor_total.rate, 3000, OF_BARE)


def _raw(database: Path, before: Plans, requests: int) -> dict[tuple[str, int], Load]:
    raw.drive(database, before)
    return _sweep(lambda wanted: raw.drive(database, wanted), requests)
