"""The database is damaged while the daemon runs: it is noticed, nothing is claimed or landed, and the printed remedy is true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from corral.store.engine.database import Database
from tests.conftest import commit_on, git, worktrees_of
from tests.integration.mcp.client import Agent, play
from tests.support.coordinated import Coordinated, eventually
from tests.support.files import executable

pytestmark = [pytest.mark.faults, pytest.mark.timeout(240)]
PAGE = 4096


def overwrite(file: Path) -> None:
    """Something else writes over every page but the first."""
    with file.open("r+b") as raw:
        raw.seek(PAGE)
        raw.write(os.urandom(file.stat().st_size - PAGE))


def truncate(file: Path) -> None:
    os.truncate(file, PAGE * 3)


def follow(house: Coordinated, remedy: str, folder: Path) -> list[str]:
    """Type what the remedy says, up to the start of a daemon, in a shell; returns what was typed."""
    shim = executable(folder / "bin" / "corral", f'#!/bin/sh\nexec "{sys.executable}" -m corral "$@"\n')
    source = str(Path(__file__).resolve().parents[2] / "daemon")
    env = {**os.environ, "PATH": f"{shim.parent}:{os.environ['PATH']}", "PYTHONPATH": source}
    typed = re.findall("`([^`]+)`", remedy)
    steps = typed[: typed.index("corral daemon start") + 1]
    for step in steps:
        done = subprocess.run(step, shell=True, cwd=house.root, env=env, capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, (step, done.stdout, done.stderr)
    return steps


@pytest.mark.req("D8")
@pytest.mark.parametrize("damage", [overwrite, truncate])
def test_damage_is_noticed_stops_everything_and_the_printed_remedy_works(
    coordinate: Callable[..., Coordinated], tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    house = coordinate()
    for number in range(100):
        house.ask("POST", f"/sessions/s{number}/heartbeat")
    commit_on(house.root, "mine", {"mine.txt": "mine"})
    (Path(house.json("worktree", "create", "saved")["path"]) / "draft.txt").write_text("draft")
    house.run("worktree", "remove", "saved")
    began = tmp_path / "began"
    house.submit("long", f"echo $$ > {began}; echo x > x.txt; sleep 600")
    worker = int(eventually(lambda: began.exists() and began.read_text()))
    before = git(house.root, "rev-parse", "main")

    damage(house.root / ".corral" / "corral.db")
    refusal = eventually(
        lambda: (
            (done := house.run("task", "submit", "--title", "t", "--command", "true", check=False)).returncode and done
        )
    )
    assert "damaged" in refusal.stderr and "CORRAL-ERR-008" in refusal.stderr, refusal.stderr
    assert house.run("lock", "list", check=False).returncode == 1, "nothing is read of what may be wrong"
    need = house.json("status")["needs_you"][0]
    assert need["kind"] == "database_damaged" and need["since"]
    assert need["what"].splitlines()[0] in house.run("status").stdout, "people are told as well"
    checks = {check["check"]: check for check in house.json("doctor", check=False) if check["status"] == "error"}
    assert checks["database"]["remedy"] == need["remedy"]
    log = (house.root / ".corral" / "logs" / "corral.log").read_text()
    assert log.count('"event": "database_damaged"') == 1, "it is said once"
    assert git(house.root, "rev-parse", "main") == before

    steps = follow(house, need["remedy"], tmp_path)
    assert len(steps) == 3
    eventually(lambda: not psutil.pid_exists(worker) or psutil.Process(worker).status() == psutil.STATUS_ZOMBIE)
    assert (house.root / ".corral" / "damaged" / "corral.db").exists()
    assert house.json("task", "list") == []
    assert [need["kind"] for need in house.json("status")["needs_you"]] == ["unknown_worktree"], (
        "what the task made is told"
    )
    recovered = house.json("worktree", "recover", "saved")
    assert (Path(recovered["path"]) / "draft.txt").read_text() == "draft"
    assert any("x.txt" in files for _, _, files in os.walk(worktrees_of(house.root))), "worktrees stay"
    house.run("merge", "submit", "mine")
    house.run("wait", "--all", "--timeout", "60")
    assert git(house.root, "show", "main:mine.txt") == "mine"


def test_a_damaged_file_at_the_start_has_the_same_remedy(house: Coordinated, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    house.submit("outlives its daemon", f"echo $$ > {mark}.new; mv {mark}.new {mark}; sleep 600")
    eventually(mark.exists)
    worker = psutil.Process(int(mark.read_text()))
    house.kill_daemon()
    overwrite(house.root / ".corral" / "corral.db")
    others = [house.root / ".corral" / f"corral.db.{what}" for what in ("before-0003", "of-another")]
    for other in others:
        other.write_text("not damaged")
    refusal = house.run("status", check=False).stderr
    assert "damaged" in refusal
    follow(house, refusal.replace("\n", " "), tmp_path)
    eventually(lambda: not worker.is_running())
    assert [need["kind"] for need in house.json("status")["needs_you"]] == ["foreign_database", "unknown_worktree"]
    assert all(other.exists() for other in others), "what else begins with its name stays"


@pytest.mark.req("HANDOFF-4")
def test_an_agent_is_told_that_a_damaged_database_is_unavailable(house: Coordinated) -> None:
    async def scene(agent: Agent) -> None:
        await agent.call("register_session")
        overwrite(house.root / ".corral" / "corral.db")
        for _attempt in range(100):  # until a page that it has not in memory is read
            answer = await agent.call("write_handoff", summary="The login works.")
            if not answer["success"]:
                break
        assert (answer["success"], answer["error"]) == (False, "database_unavailable")
        assert "damaged" in answer["message"]

    play(house, scene)


def test_a_request_of_a_lost_database_keeps_the_commits_that_only_it_pins(house: Coordinated) -> None:
    """A merge's ref without a row may be the last to hold work, once the database was replaced."""
    sha = git(house.root, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "only here")
    git(house.root, "update-ref", "refs/corral/mq/01890000-0000-7000-8000-000000000001", sha)
    git(house.root, "update-ref", "refs/corral/mq/01890000-0000-7000-8000-000000000002", "HEAD")
    house.run("daemon", "start")
    eventually(lambda: len(git(house.root, "for-each-ref", "refs/corral/mq").splitlines()) == 1)
    assert sha in git(house.root, "for-each-ref", "refs/corral/mq")


def test_no_write_is_acknowledged_beside_one_that_met_the_damage(db: Database) -> None:
    from corral.core.errors import DatabaseDamaged
    from corral.store.engine.writes import Write

    damages: list[DatabaseDamaged] = []
    db.on_damage = damages.append
    innocent = Write(lambda conn: conn.exec_driver_sql("INSERT INTO event_cursors VALUES ('r', 1)").rowcount)

    def meets(conn: object) -> None:
        import sqlite3

        raise sqlite3.DatabaseError("database disk image is malformed")

    import threading

    done = threading.Event()
    db.submit([innocent, Write(meets)], done.set)
    assert done.wait(20)
    with pytest.raises(DatabaseDamaged):
        innocent.outcome()
    with pytest.raises(DatabaseDamaged):
        db.read(lambda conn: conn.exec_driver_sql("SELECT 1").scalar())
    assert len(damages) == 1


LISTENER = """
import os, sys
if "corral.daemon" in " ".join(sys.orig_argv):
    def heard(event, given, place=os.environ["LISTENER_LOG"]):
        if event in ("open", "sqlite3.connect") and "corral.db" in str(given[0]):
            log = os.open(place, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(log, f"{event} {given[0]}\\n".encode())
            os.close(log)
    sys.addaudithook(heard)
"""


@pytest.mark.req("D5")
def test_the_daemon_opens_its_database_by_sqlite_alone(house: Coordinated, tmp_path: Path) -> None:
    """POSIX locks of a process are gone as soon as it closes any descriptor of the file."""
    (tmp_path / "sitecustomize.py").write_text(LISTENER)
    log, source = tmp_path / "heard", str(Path(__file__).resolve().parents[2] / "daemon")
    house.run("daemon", "start", PYTHONPATH=f"{tmp_path}{os.pathsep}{source}", LISTENER_LOG=str(log))
    house.carry_out("works", "echo x > x.txt")
    for words in ("doctor", "status", "metrics show", "audit list"):
        house.run(*words.split(), check=False)
    place = house.root / ".corral" / "corral.db"
    place.rename(place.with_suffix(".away"))  # the next write puts it back, from a copy
    house.carry_out("works on", "echo y > y.txt")
    assert place.exists()
    house.run("daemon", "stop")
    events = [line.split(maxsplit=1) for line in log.read_text().splitlines()]
    connected = next(n for n, (event, _) in enumerate(events) if event == "sqlite3.connect")
    opened = [name for event, name in events[connected:] if event == "open"]
    assert [name for name in opened if not name.endswith(".next")] == [], "a copy in the making is nobody's yet"
