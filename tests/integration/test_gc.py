"""``corral gc``: old data goes at once, a kill in its middle loses nothing, unlanded work goes only when a person asks for it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.conftest import git
from tests.support.coordinated import Coordinated, eventually

OLD = "2020-01-01T00:00:00.000Z"
EVENTS = 5000


def rows(house: Coordinated, query: str) -> int:
    with closing(sqlite3.connect(house.root / ".corral" / "corral.db")) as raw:
        return int(raw.execute(query).fetchone()[0])


def aged(house: Coordinated) -> str:
    """Put old events into the database of a stopped daemon, and old work that nothing else has; returns the ref."""
    with closing(sqlite3.connect(house.root / ".corral" / "corral.db")) as raw:
        for number in range(EVENTS):
            values = (OLD, "memory.stored", f'{{"n": {number}, "x": "{"x" * 500}"}}')
            raw.execute("INSERT INTO events (at, kind, data) VALUES (?, ?, ?)", values)
        raw.execute("INSERT INTO events (at, kind, data) VALUES (?, 'task.resumed', '{}')", [OLD])  # the newest stays
        raw.execute("UPDATE event_cursors SET event_id = (SELECT max(event_id) FROM events)")
        raw.commit()
    ref = "refs/corral/salvage/lost/1"
    dates: dict[str, Any] = {"GIT_COMMITTER_DATE": OLD, "GIT_AUTHOR_DATE": OLD}
    blob = git(house.root, "hash-object", "-w", "README.md")
    tree = git(house.root, "write-tree", GIT_INDEX_FILE=str(house.root / ".git" / "other-index"))
    sha = git(house.root, "commit-tree", tree, "-m", f"saved {blob}", **dates)
    git(house.root, "update-ref", ref, sha)
    return ref


@pytest.mark.req("NFR-COMP-003")
def test_a_kill_in_the_middle_loses_nothing_and_unlanded_work_goes_only_when_a_person_asks(house: Coordinated) -> None:
    task = house.carry_out("kept", "true")
    house.stop()
    ref = aged(house)
    house.run("daemon", "start", CORRAL_CRASH_AT="retention.events")
    assert house.run("gc", check=False, CORRAL_CRASH_AT="retention.events").returncode != 0
    eventually(lambda: house.daemon_pid() is None)
    left = rows(house, "SELECT count(*) FROM events WHERE kind = 'memory.stored'")
    assert (
        0 < left < EVENTS
        and rows(house, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check != 'ok'") == 0
    )

    plan = house.json("gc", "--dry-run")
    assert {removal["kind"]: removal["count"] for removal in plan["removed"]} == {"events": left}
    done = house.json("gc")
    assert done["removed"] == plan["removed"] and done["freed_bytes"] > 500_000 and not done["problems"]
    assert [salvage["ref"] for part in done["kept"] for salvage in part["refs"]] == [ref]
    assert house.json("task", "detail", task)["status"] == "completed"
    refused = house.run("gc", "--unlanded", "--yes", check=False, CORRAL_SESSION_ID="agent")
    assert refused.returncode != 0 and "Only a person" in refused.stderr
    assert house.run("gc", "--unlanded", check=False).returncode == 2, "there is no terminal to ask"
    assert ref in git(house.root, "for-each-ref")
    lost = git(house.root, "rev-parse", ref)
    house.run("gc", "--unlanded", "--yes")
    assert ref not in git(house.root, "for-each-ref")
    house.run("audit", "--verify")
    asked = {"dry_run": False, "forget": [ref]}  # the line may be written a moment after the answer

    def done_well() -> list[dict[str, object]]:
        return [
            line["parameters"] for line in house.json("audit", "--action", "gc") if line["result"]["status"] == "ok"
        ]

    eventually(lambda: asked in done_well())

    git(house.root, "update-ref", "refs/heads/other", lost)
    git(house.root, "update-ref", f"{ref}0", lost)
    (house.root / ".git" / "packed-refs.lock").touch()  # another git is at work
    failed = house.run("gc", check=False)
    assert failed.returncode == 1 and "salvage could not be deleted: " in failed.stdout, failed.stdout
    assert "Nothing is old enough" not in failed.stdout and ref in git(house.root, "for-each-ref")
