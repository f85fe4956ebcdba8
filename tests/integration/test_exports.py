"""The supervisor's files, written by the real daemon: lifecycle and leases, whatever is killed, deleted or torn."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from corral.client.connection import Client
from corral.config.paths import find_project
from corral.core.errors import DaemonUnreachable
from corral.core.instants import parse
from corral.work.evidence import lines as mapping
from tests.integration.running import keeper_of
from tests.support.coordinated import Coordinated, eventually
from tests.support.programs import program

Line = dict[str, Any]
FOUR = ["selected", "assigned", "started", "completed"]
QUICK = "tasks: {retry_initial_s: 0.1, retry_max_s: 0.2}\n"


@pytest.fixture
def house(coordinate: Callable[..., Coordinated]) -> Coordinated:
    return coordinate(config=QUICK)


def state(house: Coordinated) -> Path:
    return house.root / ".corral" / "state"


def lifecycle_file(house: Coordinated) -> Path:
    return state(house) / "analytics" / "supervisor_lifecycle.jsonl"


def leases_file(house: Coordinated) -> Path:
    return state(house) / "supervisor_leases.jsonl"


def read(file: Path) -> list[Line]:
    return [json.loads(line) for line in whole_lines(file).splitlines()]


def whole_lines(file: Path) -> str:
    """The lines of a file, without one that is just being written."""
    text = file.read_text() if file.exists() else ""
    return text[: text.rfind("\n") + 1]


def lifecycle(house: Coordinated, task_id: str) -> list[Line]:
    return [line for line in read(lifecycle_file(house)) if line["queue_task_id"] == task_id]


def leases(house: Coordinated, task_id: str) -> list[Line]:
    return [line for line in read(leases_file(house)) if line["queue_task_id"] == task_id]


def names(house: Coordinated, task_id: str) -> list[str]:
    return [line["event"] for line in lifecycle(house, task_id)]


def events_of(house: Coordinated) -> list[int]:
    """The ids of the events that give lines, as the database has them."""
    marks = ", ".join("?" * len(mapping.KINDS))
    with closing(sqlite3.connect(house.root / ".corral" / "corral.db")) as conn:
        rows = conn.execute(f"SELECT event_id FROM events WHERE kind IN ({marks}) ORDER BY event_id", mapping.KINDS)
        return [row[0] for row in rows]


def is_whole(house: Coordinated) -> bool:
    """Whether each event has its line, once and in order, and what is active is what is leased."""
    written = [line["event_id"] for line in read(lifecycle_file(house))]
    return written == events_of(house) and active(house) == leased(house)


def active(house: Coordinated) -> set[str]:
    last = {line["queue_task_id"]: line["status"] for line in read(leases_file(house))}
    return {task_id for task_id, status in last.items() if status == "active"}


def leased(house: Coordinated) -> set[str]:
    with closing(sqlite3.connect(house.root / ".corral" / "corral.db")) as conn:
        return {row[0] for row in conn.execute("SELECT task_id FROM tasks WHERE status = 'running'")}


def jq(file: Path, question: str) -> list[Any]:
    lines = whole_lines(file)
    done = subprocess.run([program("jq"), "-c", question], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.req("SUP-AC1", "SUP-AC4", "SUP-FR2")
def test_a_running_task_has_an_active_lease_that_ends_with_it(house: Coordinated, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    task = house.submit("waits", f"while ! [ -e {gate} ]; do sleep 0.05; done")
    eventually(lambda: names(house, task) == FOUR[:3])
    [lease] = leases(house, task)
    assert lease["status"] == "active" and leased(house) == {task}
    held_s = (parse(lease["expires_at"]) - parse(lease["acquired_at"])).total_seconds()
    assert held_s == 4 * 3600
    [working] = [row["agent_name"] for row in house.ask("GET", "/sessions") if row["agent_type"] == "command"]
    gate.touch()
    house.run("wait", task)
    eventually(lambda: [line["status"] for line in leases(house, task)] == ["active", "released"])
    first, last = leases(house, task)
    same = ("task_id", "agent_id", "acquired_at", "expires_at", "attempt")
    assert [first[key] for key in same] == [last[key] for key in same]
    assert first["agent_id"] == lifecycle(house, task)[0]["agent_id"] == working


@pytest.mark.req("SUP-FR6")
def test_a_cancelled_task_says_so_and_jq_can_ask_for_all_of_it(house: Coordinated) -> None:
    task = house.submit("is called off", "sleep 60")
    eventually(lambda: names(house, task) == FOUR[:3])
    house.run("task", "cancel", task, "--yes", check=False)
    house.run("task", "cancel", task, check=False)
    eventually(lambda: names(house, task)[-1:] == ["failed"])
    assert lifecycle(house, task)[-1]["reason"].startswith("cancelled")
    assert jq(lifecycle_file(house), 'select(.event=="selected") | .queue_task_id') == [task]
    assert jq(leases_file(house), 'select(.status=="active") | .queue_task_id') == [task]
    assert jq(lifecycle_file(house), ".event") == names(house, task)


POINTS = (
    "exports.lifecycle_written", "exports.leases_written", "task.claimed", "task.started", "task.closed", "audit.appended",
)  # fmt: skip


@pytest.mark.req("SUP-NFR1", "SUP-FR3")
@pytest.mark.parametrize("point", POINTS)
def test_after_a_kill_no_line_is_missing_and_none_is_there_twice(house: Coordinated, point: str) -> None:
    house.run("daemon", "start", CORRAL_CRASH_AT=point)
    task = house.submit("says hello", "echo hello > hello.txt")
    eventually(lambda: house.daemon_pid() is None)
    house.run("wait", task)
    eventually(lambda: is_whole(house))
    assert names(house, task)[-4:] == FOUR
    assert "active" not in [line["status"] for line in leases(house, task)][-1:]
    audited = [(line["action"], line["timestamp"]) for line in house.json("audit") if line["task_id"] == task]
    assert {"task.submitted", "task.completed"} < {action for action, _at in audited}
    assert len(set(audited)) == len(audited) and house.run("audit", "--verify").returncode == 0


@pytest.mark.req("SUP-NFR1", "SUP-FR6")
def test_a_kill_while_a_full_file_is_put_aside_loses_no_line_and_jq_reads_all_of_them(house: Coordinated) -> None:
    house.run("daemon", "start", CORRAL_CRASH_AT="exports.rotating")
    large = {"metadata": {"notes": "x" * 900_000}}
    tasks = []
    client = Client(find_project(house.root), autostart=False)
    while house.daemon_pid() is not None:
        with suppress(DaemonUnreachable):
            tasks.append(client.request("POST", "/tasks", {"title": "large", "command": "true", **large})["task_id"])
            eventually(lambda: house.daemon_pid() is None or len(names(house, tasks[-1])) >= len(FOUR))
    client.close()
    older = lifecycle_file(house).with_name("supervisor_lifecycle.jsonl.1")
    assert older.exists() and not lifecycle_file(house).exists()
    house.run("daemon", "start")
    last = house.carry_out("the last one", "true")
    eventually(lambda: names(house, last) == FOUR)
    eventually(lambda: jq(older, ".event_id") + jq(lifecycle_file(house), ".event_id") == events_of(house))


@pytest.mark.req("SUP-NFR1")
def test_the_lease_of_a_dead_daemon_has_expired(house: Coordinated, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    task = house.submit("waits", f"while ! [ -e {gate} ]; do sleep 0.05; done")
    eventually(lambda: names(house, task) == FOUR[:3])
    house.kill_daemon()
    (attempt,) = (house.root / ".corral" / "run" / "attempts").glob(f"{task}.*")
    os.kill(keeper_of(attempt), signal.SIGKILL)  # else its worker goes on
    gate.touch()
    house.run("wait", task)
    eventually(lambda: is_whole(house))
    assert [line["status"] for line in leases(house, task)] == ["active", "expired", "active", "released"]
    assert names(house, task) == [*FOUR[:3], "blocked", *FOUR]


@pytest.mark.req("SUP-NFR4")
def test_a_deleted_or_torn_file_is_made_whole_again(house: Coordinated) -> None:
    first = house.carry_out("first", "true")
    eventually(lambda: is_whole(house) and names(house, first) == FOUR)
    before = lifecycle_file(house).read_bytes(), leases_file(house).read_bytes()
    house.run("daemon", "stop")
    lifecycle_file(house).write_bytes(before[0][:-20])
    leases_file(house).unlink()
    house.run("daemon", "start")
    eventually(
        lambda: (
            leases_file(house).exists()
            and (lifecycle_file(house).read_bytes(), leases_file(house).read_bytes()) == before
        )
    )
    lifecycle_file(house).unlink()  # under a daemon that runs
    second = house.carry_out("second", "true")
    eventually(lambda: is_whole(house) and names(house, second) == FOUR)
    assert lifecycle_file(house).read_bytes().startswith(before[0])


@pytest.mark.req("SUP-NFR1")
def test_a_folder_that_cannot_be_written_stops_no_task_and_is_shown(house: Coordinated, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (state(house)).parent.mkdir(exist_ok=True)
    if state(house).exists():
        shutil.rmtree(state(house))
    state(house).symlink_to(elsewhere)
    task = house.carry_out("says hello", "echo hello > hello.txt")

    def shown() -> list[Line]:
        needs = house.ask("GET", "/status")["needs_you"]
        return [need for need in needs if need["kind"] == "exports"]

    needs = eventually(shown)
    assert all("symbolic link" in need["what"] for need in needs) and not list(elsewhere.iterdir())
    state(house).unlink()
    eventually(lambda: is_whole(house) and names(house, task) == FOUR)
    eventually(lambda: not shown())


def evidence(house: Coordinated, name: str) -> Path:
    return state(house) / "evidence" / name


@pytest.mark.req("SUP-AC6", "SUP-FR4")
def test_the_evidence_of_a_task_says_how_it_went_and_what_it_made(house: Coordinated) -> None:
    makes = "mkdir -p .corral-evidence; echo the plan > plan.md; echo better > .corral-evidence/PLAN.md; echo x > a.txt"
    body = {"title": "Make `a` | b", "command": f"{makes}; echo done > .corral-evidence/Verify.md; ln -s a.txt SPEC.md"}
    task = house.ask("POST", "/tasks", {**body, "metadata": {"roadmap_id": "W0.M1/../x"}})["task_id"]
    house.run("wait", task)
    assert house.json("task", "detail", task)["outcome"] == "landed"
    eventually(lambda: list((state(house) / "evidence").glob("*/summary.md")))
    [folder] = (state(house) / "evidence").iterdir()
    assert folder.name.startswith("W0.M1_.._x-")
    content = json.loads((folder / "lifecycle.json").read_text())
    assert [line["event"] for line in content["events"]] == FOUR and content["task_id"] == "W0.M1/../x"
    assert content["events"] == lifecycle(house, task) and content["outcome"] == "landed"
    assert (folder / "PLAN.md").read_text() == "better\n" and (folder / "VERIFY.md").read_text() == "done\n"
    text = (folder / "summary.md").read_text()
    assert text.startswith("# Make `a` | b\n") and "| outcome | landed |" in text
    assert "| verification | passed" in text and ".corral/logs/merges/" in text
    assert "a.txt" in text and "insertion" in text
    landed = house.json("task", "detail", task)["merge"]["landed_sha"]
    assert f"| landed | {landed} on main |" in text
    assert "[verification.log](verification.log)" in text
    names = {"lifecycle.json", "summary.md", "verification.log", "PLAN.md", "VERIFY.md"}
    assert {file.name for file in folder.iterdir()} == names, "a symbolic link is no evidence"


@pytest.mark.req("SUP-AC6")
def test_evidence_is_written_again_after_a_retry_and_where_it_was_deleted(house: Coordinated, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    task = house.carry_out(
        "fails first", f"[ -e {gate} ] || {{ echo why > REVIEW.md; exit 3; }}; echo x > a.txt", check=False
    )
    file = evidence(house, task) / "summary.md"
    eventually(lambda: file.exists() and "| saved work |" in file.read_text())
    assert "command_failed" in file.read_text() and (file.parent / "REVIEW.md").read_text() == "why\n"
    gate.touch()
    house.run("task", "retry", task)
    house.run("wait", task)
    eventually(lambda: "| outcome | landed |" in file.read_text())
    assert not (file.parent / "REVIEW.md").exists()
    assert json.loads((file.parent / "lifecycle.json").read_text())["events"][-1]["event"] == "completed"
    before = {path.name: path.read_bytes() for path in file.parent.iterdir()}
    house.run("daemon", "stop")
    shutil.rmtree(file.parent)
    house.run("daemon", "start")
    eventually(lambda: file.exists())
    assert {path.name: path.read_bytes() for path in file.parent.iterdir()} == before


@pytest.mark.req("SUP-NFR1")
def test_a_kill_while_evidence_is_written_leaves_it_to_the_next_daemon(house: Coordinated) -> None:
    house.run("daemon", "start", CORRAL_CRASH_AT="exports.evidence_file_written")
    task = house.submit("says hello", "echo hello > hello.txt")
    eventually(lambda: house.daemon_pid() is None)
    house.run("wait", task)
    folder = evidence(house, task)
    eventually(
        lambda: (folder / "summary.md").exists() and "| outcome | landed |" in (folder / "summary.md").read_text()
    )
    events = json.loads((folder / "lifecycle.json").read_text())["events"]
    assert [line["event"] for line in events][-4:] == FOUR
    assert not list(folder.glob(".*"))
