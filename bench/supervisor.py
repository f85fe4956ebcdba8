"""The supervisor of a roadmap: selecting from a long file, leasing, and writing what its files say, with a real daemon."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from tests.support.coordinated import Coordinated, eventually

from bench.measure import Measure, p50, p95, spread, timed
from bench.world import World
from corral.config.trust import Claim
from corral.core.instants import parse
from corral.faces.cli.project import trust as project_trust
from corral.observe.exports.state_files import Lines

CONFIG = "supervisor: {max_agents: 2}\n"
ROADMAP = Path(".corral", "state", "roadmap.yaml")


def measure(world: World) -> Iterator[Measure]:
    """The figures of the supervisor's requirements: selection, lease, lifecycle line, evidence."""
    house = world.coordinated(20, CONFIG)
    yield _selection(house, min(1000, world.sizes.many_rows), world.sizes.turns)
    yield _line(world.folder / "state", world.sizes.turns * 10)
    yield from _tasks(house, world.sizes.turns)


def _selection(house: Coordinated, tasks: int, times: int) -> Measure:
    """A round over a file that somebody has just changed: read, checked, compared with the queue, the next ones submitted."""
    house.run("pause")
    path = house.root / ROADMAP
    path.parent.mkdir(parents=True, exist_ok=True)
    client = house.client()

    def write(number: int) -> None:
        """Other tasks than before, approved: those that are in the queue are withdrawn, and the next ones submitted."""
        ids = [f"R{number}-{index}" for index in range(tasks)]
        after = [f"dependencies: [{ids[index - 1]}], " if index % 7 else "" for index in range(tasks)]
        lines = zip(ids, after, strict=True)
        path.write_text("".join(f"- {{id: {index}, {wait}command: 'true'}}\n" for index, wait in lines))
        claims = client.request("GET", "/supervisor")["unapproved"]
        approved = [Claim(claim["key"], claim["value"], claim["source"]) for claim in claims]
        project_trust.store().approve(client.project.common_dir, approved)
        path.touch()

    rounds: list[float] = []
    health: list[float] = []
    for number in range(times):
        write(number)
        rounds.append(timed(lambda: client.request("POST", "/supervisor/once", timeout_s=60)))
        health.append(timed(lambda: client.request("GET", "/health")))
        chosen = client.request("GET", "/supervisor")["open"]
        assert chosen == 4, "selected"
    client.close()
    path.unlink()
    house.run("resume")
    return Measure(
        f"supervisor: select from {tasks:,} changed roadmap tasks", p50(rounds), "ms", p50(health), 1000,
        note=f"{spread(rounds)}; floor: health", proves="SUP-NFR2",
    )  # fmt: skip


def _line(folder: Path, times: int) -> Measure:
    """A lifecycle line on the disk; the floor is the same bytes appended and synchronised."""
    lines, bare = Lines(folder / "lines.jsonl", folder.parent), folder.parent / "bare.jsonl"
    line = {
        "event": "selected",
        "task_id": "T-1",
        "metadata": {"roadmap_id": "T-1"},
        "reason": "x" * 200,
        "event_id": 0,
    }
    handle = os.open(bare, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    data = f"{json.dumps(line)}\n".encode()
    written: list[float] = []
    floors: list[float] = []
    for number in range(1, times + 1):
        written.append(timed(lambda: lines.append([{**line, "event_id": number}])))  # noqa: B023
        floors.append(timed(lambda: (os.write(handle, data), os.fsync(handle))))  # type: ignore[func-returns-value]
    os.close(handle)
    return Measure(
        "supervisor: write a lifecycle event", p50(written), "ms", p50(floors), 10,
        note=f"{spread(written)}, p95 {p95(written):.2f}; floor: write, fsync", proves="SUP-NFR2",
    )  # fmt: skip


def _tasks(house: Coordinated, times: int) -> Iterator[Measure]:
    """Tasks one after the other: from the submission to the lease, and from the landing to the whole evidence."""
    leases: list[float] = []
    bundles: list[float] = []
    for number in range(times):
        task_id = house.submit(f"part {number}", f"echo {number} > part-{number}.txt")
        house.run("wait", task_id)
        summary = house.root / ".corral" / "state" / "evidence" / task_id / "summary.md"
        eventually(lambda: "| outcome | landed |" in (summary.read_text() if summary.exists() else ""))  # noqa: B023
        history = {event["kind"]: parse(event["at"]) for event in house.json("task", "detail", task_id)["history"]}
        leases.append((history["task.claimed"] - history["task.submitted"]).total_seconds() * 1000)
        bundles.append((summary.stat().st_mtime - history["merge.landed"].timestamp()) * 1000)
    yield Measure(
        "supervisor: lease of a task, from its submission", p50(leases), "ms", limit=100,
        note=f"{spread(leases)}; with the selection and the wake-up", proves="SUP-NFR2",
    )  # fmt: skip
    yield Measure(
        "supervisor: evidence on the disk, from the landing",
        p50(bundles),
        "ms",
        limit=1000,
        note=spread(bundles),
        proves="SUP-NFR2",
    )
