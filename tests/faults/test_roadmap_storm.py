"""A roadmap of thirty tasks is worked off while its daemon is killed again and again, and some tasks never succeed."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from corral.core.errors import DaemonUnreachable
from corral.work.evidence.lines import KINDS
from corral.work.roadmap.checks import read_roadmap
from corral.work.roadmap.document import with_statuses
from tests.conftest import commit_all, git, worktrees_in
from tests.faults.storm import processes_of, seed_of_this_run
from tests.faults.test_poison import kill_the_daemon
from tests.integration.planned import Plan
from tests.support.coordinated import Coordinated, eventually
from tests.support.files import executable
from tests.support.programs import program, requires

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

KILLS, DEADLINE_S = 5, 150.0
CONFIG = """
tasks: {max_retries: 2, retry_initial_s: 0.1, retry_max_s: 0.3, max_crashes: 3}
supervisor: {max_agents: 4, stop_grace_s: 1}
worktrees: {pool_min_files: 0}
"""
KINDS_OF_AGENTS = {"Researcher": "research", "Implementer": "implement", "Reviewer": "review"}
PHASES = {"Researcher": ("STRATEGIZE", "SPEC"), "Implementer": ("PLAN", "IMPLEMENT"), "Reviewer": ("VERIFY", "MONITOR")}
PROGRAM = """\
#!/bin/sh
# Does the task that the last line of its prompt names, and says what it did in each of its phases.
part=$(tail -n 1)
sleep 0.{pause}
mkdir -p ".corral-evidence/$part"
for phase in {phases}; do echo "$phase of $part" > ".corral-evidence/$part/$phase.md"; done
echo "{name}" > "part-$part.txt"
"""
JQ_WHOLE = """
[.[].event_id] as $ids | ($ids == ($ids | sort | unique)) and
all(.[]; (.task_id | type) == "string" and (.agent_id | length) > 0 and (.timestamp | test("^[0-9-]{10}T[0-9:.]{12}Z$")))
"""
JQ_COUNTS = """
group_by(.task_id) | map({key: .[0].task_id, value: (group_by(.event) | map({key: .[0].event, value: length}) | from_entries)})
| from_entries
"""
JQ_LEASED = 'group_by(.queue_task_id) | map(last) | map(select(.status == "active") | .task_id)'


def agents(house: Coordinated, folder: Path) -> None:
    """Three kinds of agents with a program each, and a team of them."""
    members = []
    for name, capability in KINDS_OF_AGENTS.items():
        program = executable(
            folder / name.lower(), PROGRAM.format(name=name, phases=" ".join(PHASES[name]), pause=len(name) % 4)
        )
        file = house.root / ".claude" / "agents" / f"{name.lower()}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        front = f"name: {name.lower()}\ndescription: Use it.\nrunner: {name.lower()}\ncommand: [{program}]"
        file.write_text(f"---\n{front}\n---\n\nDo it well.\n")
        member = {
            "name": name,
            "role": "r",
            "capabilities": [capability],
            "description": "One.",
            "runner": name.lower(),
        }
        members.append(member)
    (house.root / ".corral" / "teams.yaml").write_text(yaml.safe_dump({"agents": members}))
    house.trust()


class Thirty:
    """The tasks: 26 that can be done, two that cannot, and two that wait for those."""

    def __init__(self, house: Coordinated, folder: Path, chance: random.Random) -> None:
        self.never = {
            "poison": f"echo x >> {folder}/poison; {kill_the_daemon(house.root)}; kill -9 $PPID; sleep 60",
            "endless": "sleep 600",
        }
        self.after = {"after-poison": "poison", "after-endless": "endless"}
        self.parts: dict[str, str | None] = {}
        items: list[dict[str, Any]] = []
        for number in range(22):
            name = f"t{number:02}"
            agent = chance.choice([*KINDS_OF_AGENTS, None])
            parents = chance.sample(sorted(self.parts), min(len(self.parts), chance.choice([0, 0, 1, 2])))
            does: dict[str, Any] = {"command": f"echo plain > part-{name}.txt"}
            if agent is not None:
                does = {"prompt": f"Do this part:\n{name}", "capabilities": [KINDS_OF_AGENTS[agent]]}
            items.append({"id": name, "dependencies": parents, "priority": chance.randrange(11), **does})
            self.parts[name] = agent
        for number in range(2):
            name, mark = f"flaky{number}", folder / f"failed{number}"
            command = f"[ -e {mark} ] || {{ touch {mark}; exit 1; }}; echo plain > part-{name}.txt"
            items.append({"id": name, "command": command, "dependencies": chance.sample(sorted(self.parts), 1)})
            items.append(
                {"id": f"on-{name}", "command": f"cat part-{name}.txt > part-on-{name}.txt", "dependencies": [name]}
            )
            self.parts |= {name: None, f"on-{name}": None}
        for name, command in self.never.items():
            items.append({"id": name, "command": command, "priority": "high", "timeout_s": 4, "max_retries": 1})
        for name, parent in self.after.items():
            items.append({"id": name, "command": "true", "dependencies": [parent]})
        chance.shuffle(items)
        text = yaml.safe_dump(items, sort_keys=False, width=500)
        self.text = "# What we do.\n" + text.replace("- id:", "\n# One more.\n- id:")
        assert len(items) == 30

    @property
    def expected(self) -> dict[str, str]:
        """The status of each at the end."""
        return {
            **dict.fromkeys(self.parts, "done"),
            **dict.fromkeys(self.never, "blocked"),
            **dict.fromkeys(self.after, "pending"),
        }


class Asking:
    """A client that asks until it is answered: each time it starts the daemon that was killed."""

    def __init__(self, house: Coordinated) -> None:
        self._house = house

    def __call__(self, path: str, **query: Any) -> Any:
        until = time.monotonic() + 60
        while True:
            try:
                return self._house.ask("GET", path, query=query or None)
            except DaemonUnreachable:
                assert time.monotonic() < until


def rows(house: Coordinated, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(house.root / ".corral" / "corral.db")) as conn:
        return conn.execute(sql, values).fetchall()


def kill_at_random(house: Coordinated, plan: Plan, ask: Asking, chance: random.Random) -> None:
    """Kill the daemon, each time after something more was done, and never for the third time over the same innocent task."""
    for _kill in range(KILLS):
        before = Counter(plan.statuses().values())["done"]

        def is_further(before: int = before) -> bool:
            ask("/health")
            return Counter(plan.statuses().values())["done"] > before

        eventually(is_further, DEADLINE_S)
        kind = chance.choice(["at once", "while one runs", "while one is verified"])
        time.sleep(chance.uniform(0, 0.5))  # its age at death is what varies; nothing waits for it
        done = time.monotonic() + 3

        def is_time(kind: str = kind, done: float = done) -> bool:
            ask("/health")
            hit = "SELECT 1 FROM tasks WHERE status = 'running' AND crashes >= 2 AND title != 'poison'"
            if rows(house, hit):
                return False
            running = bool(rows(house, "SELECT 1 FROM tasks WHERE status = 'running'"))
            verified = bool(rows(house, "SELECT 1 FROM merge_requests WHERE state = 'verifying'"))
            return {"at once": True, "while one runs": running}.get(kind, verified) or time.monotonic() > done

        eventually(is_time)
        eventually(lambda: ask("/health") and kill_the_server(house))


def kill_the_server(house: Coordinated) -> bool:
    """Kill -9; whether there was one: the poison may just have been faster."""
    processes = [process for process, words in processes_of(house.root) if "corral.daemon" in words]
    for process in processes:
        with suppress(psutil.Error):
            process.kill()
    return bool(processes)


def jq(file: Path, question: str) -> Any:
    done = subprocess.run([program("jq"), "-s", question, str(file)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@requires("jq")
@pytest.mark.slow("Thirty tasks, and the restarts after each kill.")
@pytest.mark.req("SUP-NFR1", "SUP-AC4", "SUP-AC5", "SUP-FR1", "SUP-FR2", "SUP-FR4", "SUP-FR5", "SUP-FR6", "SUP-NFR3")
def test_a_roadmap_of_thirty_tasks_is_worked_off_whatever_is_killed(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    seed = seed_of_this_run()
    print(f"STORM_SEED={seed}")
    chance = random.Random(seed)
    folder = tmp_path / "programs"
    folder.mkdir()
    house = coordinate(verify=("test -f README.md",), config=CONFIG)
    agents(house, folder)
    commit_all(house.root, "coordinated")
    thirty = Thirty(house, folder, chance)
    plan, ask = Plan(house, thirty.text), Asking(house)
    house.run("supervisor", "start")
    kill_at_random(house, plan, ask, chance)

    def is_over() -> bool:
        ask("/health")
        return plan.statuses() == thirty.expected and not ask("/supervisor")["open"]

    try:
        eventually(is_over, DEADLINE_S)
    except AssertionError as error:
        wrong = {name: status for name, status in plan.statuses().items() if thirty.expected[name] != status}
        status = house.run("supervisor", "status", check=False).stdout + house.run("status", check=False).stdout
        raise AssertionError(f"{wrong}\n{status}") from error
    check_the_target(house, thirty)
    check_the_dead(house, thirty, ask, folder)
    check_the_files(house, thirty)
    statuses = {name: status for name, status in thirty.expected.items() if status != "pending"}
    assert plan.path.read_bytes() == with_statuses(thirty.text.encode(), statuses), "comments and order stay"
    assert read_roadmap(plan.path.read_bytes()).problems == ()
    assert rows(house, "PRAGMA integrity_check") == [("ok",)] and rows(house, "PRAGMA foreign_key_check") == []
    assert git(house.root, "fsck", "--connectivity-only", "--no-dangling") == ""
    pooled = {name for (name,) in rows(house, "SELECT name FROM worktrees WHERE state = 'pooled'")}
    assert {place.name for place in worktrees_in(house.root)} <= pooled


def check_the_target(house: Coordinated, thirty: Thirty) -> None:
    """Everything that can land has landed, once, and each landing was verified."""
    for name, agent in thirty.parts.items():
        file = f"part-{name}.txt"
        assert git(house.root, "show", f"main:{file}") == (agent or "plain")
        assert len(git(house.root, "log", "--no-merges", "--format=%H", "main", "--", file).split()) == 1
    landed = rows(house, "SELECT task_id, landed_sha, receipt_id FROM merge_requests WHERE state = 'landed'")
    assert len(landed) == len({task_id for task_id, _sha, _receipt in landed}) == len(thirty.parts)
    for _task, sha, receipt in landed:
        git(house.root, "merge-base", "--is-ancestor", sha, "main")
        assert rows(house, "SELECT status FROM receipts WHERE receipt_id = ?", receipt) == [("passed",)]
    subprocess.run(["sh", "-c", "test -f README.md"], cwd=house.root, check=True)


def check_the_dead(house: Coordinated, thirty: Thirty, ask: Asking, folder: Path) -> None:
    """Those that cannot be done are in the dead-letter queue, each with its story and with what a person can type."""
    details = [ask(f"/tasks/{row['task_id']}/detail") for row in ask("/tasks", status="dead")]
    dead = {row["metadata"]["roadmap_id"]: row for row in details}
    assert set(dead) == set(thirty.never)
    poison, endless = dead["poison"], dead["endless"]
    assert poison["error_code"] == "daemon_died" and "4 times" in poison["error_message"]
    assert len((folder / "poison").read_text().split()) <= 4, "max_crashes + 1, or one of these while it only began"
    assert endless["error_code"] == "timeout" and endless["attempts"] == 2
    needs = [need for need in ask("/status")["needs_you"] if need["kind"] == "failed_task"]
    assert {need["ids"]["task_id"] for need in needs} == {row["task_id"] for row in dead.values()}
    for row in dead.values():
        summary = house.root / ".corral" / "state" / "evidence" / row["metadata"]["roadmap_id"] / "summary.md"
        assert eventually(summary.exists) and row["error_code"] in summary.read_text()


def _says_landed(summary: Path) -> bool:
    return "| outcome | landed |" in summary.read_text()


def check_the_files(house: Coordinated, thirty: Thirty) -> None:
    """jq over the exports agrees with the database, and each task that is over has its evidence."""
    state = house.root / ".corral" / "state"
    lifecycle, leases = state / "analytics" / "supervisor_lifecycle.jsonl", state / "supervisor_leases.jsonl"
    marks = ", ".join("?" * len(KINDS))
    ids = [
        row[0] for row in rows(house, f"SELECT event_id FROM events WHERE kind IN ({marks}) ORDER BY event_id", *KINDS)
    ]
    eventually(lambda: jq(lifecycle, "map(.event_id)") == ids)
    assert jq(lifecycle, JQ_WHOLE) is True and jq(leases, JQ_WHOLE) is True
    counts = jq(lifecycle, JQ_COUNTS)
    claims = dict(rows(
        house, "SELECT t.title, count(*) FROM events e JOIN tasks t USING (task_id) WHERE e.kind = 'task.claimed' GROUP BY 1"
    ))  # fmt: skip
    assert {name: count["selected"] for name, count in counts.items()} == claims
    assert {name for name, count in counts.items() if count.get("completed") == 1} == set(thirty.parts)
    assert jq(leases, JQ_LEASED) == []
    assert jq(leases, 'map(select(.status == "active")) | length') == sum(claims.values())
    for name, agent in thirty.parts.items():
        folder = state / "evidence" / name
        eventually(partial(_says_landed, folder / "summary.md"))
        events = jq(folder / "lifecycle.json", ".[0].events | map(.event)")
        assert events[-4:] == ["selected", "assigned", "started", "completed"]
        written = {file.stem for file in folder.glob("*.md")} - {"summary"}
        assert written == set(PHASES.get(agent or "", ())), name
        assert all((folder / f"{phase}.md").read_text() == f"{phase} of {name}\n" for phase in written)
    assert {file.name for file in (state / "evidence").iterdir()} == {*thirty.parts, *thirty.never}
