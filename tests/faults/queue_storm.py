"""A storm over a full queue: daemons and runners are killed, and the leases in the files are compared with the database.

Used by the suite (a few hundred kills) and by ``python -m bench storm`` (a thousand).
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter, defaultdict
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil

from corral.runners.tags import TASK_MARK
from corral.work.evidence import lines as mapping
from tests.faults.storm import Caller, Storm
from tests.support.coordinated import Coordinated, eventually

Line = dict[str, Any]

LONGEST_S = 0.8
"""Of a task's own work."""
REFILL = 24
"""Tasks that are submitted at once when the queue runs dry before the kills are over."""
MOST_OF_ONE = 5
"""Kills of one task's runner. Tasks under suspicion run one at a time: without this the first would be killed for ever."""
SAMPLE_EVERY = 10
"""Kills between two comparisons of the files with the database."""


class QueueStorm(Storm):
    """Tasks in a queue, and kills of the daemon and of the runners.

    Each task holds an operating-system lock of its own while any of its processes lives: two attempts of one task that are
    alive at once are seen by the second.
    """

    def __init__(self, house: Coordinated, seed: int, folder: Path) -> None:
        super().__init__(house, seed, branches=0)
        self.folder = folder
        self.samples = 0
        self.killed: Counter[str] = Counter()
        self.settled_within_s = 600.0

    def rage(self, *, daemons: int, runners: int, tasks: int) -> None:
        """Submit ``tasks`` tasks at once, and kill so many daemons and runners while they are worked off."""
        caller = Caller(self.root)
        try:
            self._fill(caller, tasks)
            kinds = list(Counter(daemon=daemons, runner=runners).elements())
            self.chance.shuffle(kinds)
            for number, kind in enumerate(kinds):
                time.sleep(self.chance.uniform(0, 0.15))
                self._strike(caller, kind)
                if number % SAMPLE_EVERY == 0:
                    self.compare()
        finally:
            caller.close()

    def check(self) -> None:
        """As of any storm; and each change of a lease is in the files, once, in order, and none is left active."""
        super().check()
        overlaps = self.folder / "overlaps"
        assert not overlaps.exists(), f"two attempts of one task were alive at once: {overlaps.read_text()} {self}"
        lifecycle, leases = self._read("analytics/supervisor_lifecycle.jsonl"), self._read("supervisor_leases.jsonl")
        with self._database() as conn:
            rows = conn.execute("SELECT event_id, kind FROM events ORDER BY event_id").fetchall()
        assert [line["event_id"] for line in lifecycle] == [row[0] for row in rows if row[1] in mapping.KINDS], self
        by_task: dict[str, list[Line]] = defaultdict(list)
        for line in leases:
            by_task[line["queue_task_id"]].append(line)
        assert by_task.keys() == self.tasks.keys(), "a lease of a task that nobody was acknowledged, or none of one"
        for mine in by_task.values():
            taken, ended = mine[::2], mine[1::2]
            assert {line["status"] for line in taken} == {"active"}, mine
            assert {line["status"] for line in ended} <= {"released", "expired"}, mine
            assert [line["attempt"] for line in taken] == [line["attempt"] for line in ended], mine
            assert [line["attempt"] for line in taken] == list(range(1, len(taken) + 1)), mine
        ends = Counter(line["queue_task_id"] for line in lifecycle if line["event"] == "completed")
        assert ends == Counter(self.tasks.keys()), "each task is completed once"

    def compare(self) -> None:
        """At any moment: what the file says of a lease is what the database says, for all that the file has come to.

        The file is read first: whatever stands in it, the database must have by then.
        """
        leases = self._read("supervisor_leases.jsonl")
        try:
            with self._database() as conn:
                conn.execute("BEGIN")
                kinds = dict(conn.execute("SELECT event_id, kind FROM events").fetchall())
                newest = dict(
                    conn.execute(
                        "SELECT task_id, max(event_id) FROM events WHERE kind IN (SELECT value FROM json_each(?)) "
                        "GROUP BY task_id",
                        (json.dumps([*mapping.ENDS, "task.claimed"]),),
                    ).fetchall()
                )
                running = {row[0] for row in conn.execute("SELECT task_id FROM tasks WHERE status = 'running'")}
                opened = Counter(row[0] for row in conn.execute("SELECT task_id FROM attempts WHERE ended_at IS NULL"))
        except sqlite3.OperationalError:
            return  # between two daemons, and this connection may not write: the next look counts
        self.samples += 1
        assert opened == Counter(running), f"leased and running are not the same: {opened} {running} {self}"
        places = [line["event_id"] for line in leases]
        assert places == sorted(set(places)), f"a line twice, or out of order; {self}"
        assert set(places) <= kinds.keys(), f"a line without its event; {self}"
        last = {line["queue_task_id"]: line for line in leases}
        for task_id, line in last.items():
            if line["event_id"] == newest[task_id]:
                assert (line["status"] == "active") == (task_id in running), f"{line} {self}"
        reached = places[-1] if places else 0
        for task_id in running:
            if newest[task_id] <= reached:
                assert last[task_id]["status"] == "active", f"{last[task_id]} {self}"

    # -- the pieces

    def _fill(self, caller: Caller, number: int) -> None:
        first = len(self.tasks)
        asked = [self._task(n) for n in range(first, first + number)]
        ids = caller("POST", "/tasks/batch", {"tasks": asked})["task_ids"]
        self.tasks |= {task_id: item["title"] for task_id, item in zip(ids, asked, strict=True)}

    def _task(self, number: int) -> dict[str, Any]:
        file = f"task-0-{number}.txt"
        # Any other code is that of a shell's child that was killed before it became `flock`.
        alone = f"exec 9>>{self.folder}/{file}.alive; flock -n -E 75 9; [ $? -ne 75 ] || echo {file} >> {self.folder}/overlaps"
        keep = self.chance.choice(["", f"; git add {file} && git commit -q -m {file}"])
        return {
            "title": file,
            "command": f"{alone}; sleep {self.chance.uniform(0.1, LONGEST_S):.2f}; echo {number} >> {file}{keep}",
            "idempotency_key": file,
            "priority": self.chance.randrange(11),
            "author_name": "A",
            "author_email": "a@b.test",
        }

    def _strike(self, caller: Caller, kind: str) -> None:
        def struck() -> bool:
            if self._kill_one(kind):
                return True
            status = caller("GET", "/status")["tasks"]  # starts the daemon where there is none
            if sum(status.get(state, 0) for state in ("pending", "running", "interrupted")) < 4:
                self._fill(caller, REFILL)
            return False

        eventually(struck, 90)
        self.kills[kind] += 1

    def _kill_one(self, kind: str) -> bool:
        """Kill a daemon, or the shell that an attempt is: not what it started, for the shell's death ends the attempt."""
        processes = []
        for process, words in self.processes():
            if kind == "daemon" and "corral.daemon" in words:
                processes.append((process, ""))
            elif kind == "runner" and words[:2] == ["/bin/sh", "-c"]:
                with suppress(psutil.Error):
                    processes.append((process, process.environ().get(TASK_MARK, "")))
        spared = {task_id for task_id, number in self.killed.items() if number >= MOST_OF_ONE}
        processes = [entry for entry in processes if (entry[1] and entry[1] not in spared) or kind == "daemon"]
        with suppress(psutil.Error, IndexError):
            victim, task_id = self.chance.choice(processes)
            victim.kill()
            if task_id:
                self.killed[task_id] += 1
            return True
        return False

    def _read(self, name: str) -> list[Line]:
        """The whole lines of a file; one that is being written has no end yet."""
        file = self.root / ".corral" / "state" / name
        whole = file.read_bytes().rpartition(b"\n")[0] if file.exists() else b""
        return [json.loads(line) for line in whole.splitlines()]

    def _database(self) -> closing[sqlite3.Connection]:
        place = self.root / ".corral" / "corral.db"
        return closing(sqlite3.connect(f"file:{place}?mode=ro", uri=True, timeout=10))
