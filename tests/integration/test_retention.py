"""What is over and old goes, in small batches; what is open, unread or the only copy of work stays, however old it is."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, delete, func, insert, select, update

from corral.config.paths import Project
from corral.config.sections.upkeep import Retention as Ages
from corral.core.errors import DatabaseDamaged, NotFound
from corral.core.events import EventKind
from corral.core.instants import iso
from corral.core.needs import Need
from corral.core.states import ReceiptStatus
from corral.git.checkouts import ignored, private, salvage, status
from corral.git.process.command import open_checkout, open_repository
from corral.observe.audit import reading, trail
from corral.observe.retention import store as retention_rows
from corral.observe.retention.api import Kept, Removed
from corral.observe.retention.collection import Collection
from corral.observe.retention.retention import EVERY, Retention, Round
from corral.store import events
from corral.store import schema as tables
from corral.store import schema_coordination as talk
from corral.store import schema_project as project_tables
from corral.store.engine import log
from corral.store.engine.database import Database
from corral.store.migrate import open_schema
from corral.work.agents.record import stats
from corral.work.merges.store import receipts as receipt_rows
from tests.conftest import commit, git
from tests.support.coordinated import Coordinated, rested
from tests.support.files import put

THEN = datetime(2026, 1, 1, tzinfo=timezone.utc)
LATER = THEN + timedelta(days=400)
LARGE = EventKind.CHANGE_UNANNOUNCED({"paths": ["x" * 500], "checkout": "/c"})


@dataclass
class World:
    """A database, a repository and the job; the job's clock is an argument."""

    db: Database
    root: Path
    ages: Ages = field(default_factory=Ages)
    faults: dict[str, Need] = field(default_factory=dict)
    pauses: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        home = self.root / ".corral"
        project = Project(self.root, self.root / ".git", home, bare=False)
        repo = open_repository(self.root / ".git")
        self.job = Retention(self.db, repo, project, lambda: self.ages, self.faults, pause=self.pauses.append)
        self.logs = project.logs_dir
        self.logs.mkdir(parents=True, exist_ok=True)

    def round(self, now: datetime = LATER) -> Round:
        return self.job.round(now)

    def put(self, table: Any, **values: Any) -> None:
        self.db.write(lambda conn: conn.execute(insert(table).values(**values)))

    def all(self, column: Any) -> set[Any]:
        return self.db.read(lambda conn: set(conn.execute(select(column)).scalars()))

    def session(self, name: str, ended: datetime | None = THEN, **more: Any) -> None:
        self.put(
            tables.agent_sessions, session_id=name, agent_name=name.title(), agent_type="claude", capabilities=[],
            status="disconnected" if ended else "active", ended_at=iso(ended) if ended else None, started_at=iso(THEN),
            last_heartbeat=iso(THEN), **more,
        )  # fmt: skip

    def task(self, name: str, *, is_open: bool, session_id: str | None = None, **more: Any) -> None:
        self.put(
            tables.tasks, task_id=name, task_type="t", title=name, status="pending" if is_open else "completed", priority=5,
            limits={}, max_retries=0, attempts=1, ignore_dependency_failure=False, fencing_token=1,
            created_at=iso(THEN), completed_at=None if is_open else iso(THEN), **more,
        )  # fmt: skip
        if session_id is not None:
            self.put(
                tables.attempts, task_id=name, number=1, session_id=session_id, usage={}, claimed_at=iso(THEN),
                ended_at=iso(THEN), outcome="returned" if is_open else "completed",
            )  # fmt: skip

    def merge(self, name: str, state: str, **more: Any) -> None:
        over = state not in ("queued", "verifying", "held")
        self.put(
            tables.merge_requests, merge_id=name, title=name, priority=5, target="main", head_sha="0" * 40, state=state,
            tries=0, created_at=iso(THEN), updated_at=iso(THEN), finished_at=iso(THEN) if over else None,
            reason="Some reason." if state in ("failed", "held") else None,
            **{"branch": name, "landed_sha": "1" * 40 if state == "landed" else None, **more},
        )  # fmt: skip

    def event(self, kind: str, at: datetime = THEN, **about: Any) -> None:
        self.put(tables.events, at=iso(at), kind=kind, data={}, **about)

    def message(self, subject: str, to: str, *, ack: bool = False, **receipt: datetime) -> None:
        def send(conn: Connection) -> None:
            sent = insert(talk.messages).values(
                message_id=subject, thread_id=f"thread-{subject}", sender_session_id="sender", sender_name="Sender",
                kind="message", subject=subject, body="word", data={}, importance="normal", ack_required=ack,
                attachments=[], created_at=iso(THEN),
            )  # fmt: skip
            key = conn.execute(sent).inserted_primary_key
            assert key is not None
            moments = {name: iso(moment) for name, moment in receipt.items()}
            about = {"session_id": to, "seq": key[0], "name": to, "role": "to"}
            conn.execute(insert(talk.message_recipients).values(**about, **moments))

        self.db.write(send)


@pytest.fixture
def world(repo: Path) -> Iterator[World]:
    path = repo / ".corral" / "corral.db"
    put(path.parent / ".gitignore", "*\n")
    open_schema(path)
    made = World(Database(path), repo)
    yield made
    made.db.close()


def test_the_number_of_an_event_is_never_given_to_another_one(world: World) -> None:
    """Readers store how far they have read; what came under a number that they have passed would never be told."""
    for _ in range(3):
        world.event("session.changed")
    newest = max(world.all(tables.events.c.event_id))
    world.round()
    world.event("session.changed", LATER)
    assert world.all(tables.events.c.event_id) == {newest, newest + 1}


def test_old_rows_go_and_what_an_open_one_needs_stays(world: World) -> None:
    world.session("sender", ended=None)
    world.session("live", ended=None)
    world.session("parent")
    for name in ("gone", "busy", "writer", "heir"):
        world.session(name, parent_session_id="parent" if name == "busy" else None)
    world.session("left", heir_session_id="heir", ended=LATER)
    world.task("open", is_open=True, session_id="busy")
    world.task("done", is_open=False, session_id="gone")
    world.put(
        talk.handoffs, handoff_id="h", session_id="writer", agent_name="Writer", automatic=True, summary="s",
        completed_work=[], in_progress=[], decisions=[], next_steps=[], relevant_files=[], created_at=iso(THEN),
    )  # fmt: skip
    world.put(
        talk.memories, memory_id="m", session_id="gone", agent_name="Gone", event_type="e", summary="s", lessons=[], tags=[],
        digest="d", times=1, created_at=iso(THEN), seen_at=iso(THEN),
    )  # fmt: skip
    receipts = {}
    for state in ("held", "landed", "failed"):
        row = world.db.write(
            lambda conn: receipt_rows.add(
                conn, tree="t", fingerprint="f", status=ReceiptStatus.PASSED, now=THEN, exit_code=0
            )
        )
        receipts[state] = row["receipt_id"]
        world.merge(state, state, receipt_id=row["receipt_id"])
    for name, branch in (("by-merge", "held"), ("by-branch", "main"), ("old", "nowhere")):
        world.put(
            tables.worktrees, worktree_id=name, name=name, path=f"/w/{name}", branch=branch, base_sha="0" * 40,
            purpose="task", state="removed", provision={}, created_at=iso(THEN), removed_at=iso(THEN),
        )  # fmt: skip
    happened: tuple[tuple[str, dict[str, Any]], ...] = (
        ("lock.acquired", {"task_id": "open"}), ("lock.released", {"merge_id": "held"}), ("lock.expired", {"session_id": "live"}),
        ("task.failed", {}), ("edit.denied", {"task_id": "done"}), ("lock.awaited", {"session_id": "gone"}),
    )  # fmt: skip
    for kind, about in happened:
        world.event(kind, **about)
    world.event("memory.stored", at=LATER)

    world.round()
    assert world.all(tables.events.c.kind) == {
        "lock.acquired",
        "lock.released",
        "lock.expired",
        "task.failed",
        "memory.stored",
    }
    assert world.all(tables.agent_sessions.c.session_id) == {
        "sender",
        "live",
        "parent",
        "busy",
        "writer",
        "heir",
        "left",
    }
    assert world.all(tables.receipts.c.receipt_id) == {receipts["held"], receipts["landed"]}
    assert world.all(tables.worktrees.c.worktree_id) == {"by-merge", "by-branch"}
    assert world.all(tables.tasks.c.task_id) == {"open", "done"}
    assert world.all(tables.merge_requests.c.merge_id) == {"held", "landed", "failed"}
    assert world.all(talk.memories.c.agent_name) == {"Gone"} and world.all(talk.handoffs.c.handoff_id) == {"h"}
    assert world.faults == {}


def test_mail_goes_when_everybody_has_it_and_never_unread_by_age_alone(world: World) -> None:
    for name, ended in (("sender", None), ("reader", None), ("away", LATER), ("over", THEN)):
        world.session(name, ended=ended)
    world.message("unread", "reader")
    world.message("to be acknowledged", "reader", ack=True, read_at=THEN)
    world.message("waits for one that ended lately", "away", bounced_at=THEN)
    world.message("waits for an agent", "over")
    world.message("brought", "reader", injected_at=THEN)
    world.message("acknowledged", "reader", ack=True, acknowledged_at=THEN)
    world.message("came back", "over", bounced_at=THEN)
    world.round()
    kept = {"unread", "to be acknowledged", "waits for one that ended lately", "waits for an agent"}
    assert world.all(talk.messages.c.subject) == kept
    words = "SELECT count(*) FROM messages_fts WHERE messages_fts MATCH 'brought'"
    assert world.db.read(lambda conn: conn.exec_driver_sql(words).scalar()) == 0
    assert "over" in world.all(tables.agent_sessions.c.session_id), "mail waits for it"


def test_nothing_is_deleted_before_its_age_or_where_the_age_is_null(world: World) -> None:
    world.session("gone")
    world.event("memory.stored")
    world.round(THEN + timedelta(days=29))
    world.ages = Ages(events_days=None, sessions_days=None)
    world.round()
    assert world.all(tables.events.c.kind) == {"memory.stored"} and world.all(tables.agent_sessions.c.session_id) == {
        "gone"
    }


def test_no_batch_keeps_the_writer_long_and_the_file_shrinks(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[int] = []
    remove = retention_rows.remove

    def counted(conn: Connection, kind: str, keys: list[Any], before: str) -> int:
        batches.append(len(keys))
        return remove(conn, kind, keys, before)

    monkeypatch.setattr(retention_rows, "remove", counted)
    monkeypatch.setattr(log, "CUT_AFTER_S", 0.05)

    def fill(conn: Connection) -> None:
        for number in range(12_000):
            events.record(conn, THEN, LARGE, session_id=f"s{number}")

    world.db.write(fill)
    rested(world.db.path)
    full = world.db.path.stat().st_size
    waits: list[float] = []
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            began = time.perf_counter()
            world.db.write(lambda conn: conn.execute(delete(tables.events).where(tables.events.c.event_id == -1)))
            waits.append(time.perf_counter() - began)

    beside = threading.Thread(target=write)
    beside.start()
    try:
        while world.round().more:
            pass
    finally:
        done.set()
        beside.join()
    rested(world.db.path)
    assert world.db.read(lambda conn: conn.execute(select(func.count()).select_from(tables.events)).scalar()) == 1
    assert world.db.path.stat().st_size < full / 4
    assert max(batches) <= 200
    held = sorted(world.pauses)
    assert held[int(len(held) * 0.9)] < 0.02, "a batch is as small as its time allows"
    assert sorted(waits)[int(len(waits) * 0.95)] < 0.05


def test_logs_go_by_age_then_by_size_but_not_those_of_open_work_or_through_links(world: World, tmp_path: Path) -> None:
    world.task("open", is_open=True)
    world.ages = Ages(logs_mb=1)
    outside = tmp_path / "outside"
    put(outside / "precious.log", "x")

    def log(name: str, days: int, size: int = 1) -> Path:
        file = world.logs / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * size)
        moment = (LATER - timedelta(days=days)).timestamp()
        os.utime(file, (moment, moment))
        return file

    old, open_one = log("tasks/done/1.log", 100), log("tasks/open/1.log", 100, 700_000)
    large, new = log("merges/m/1.log", 5, 700_000), log("merges/n/1.log", 2, 200_000)
    foreign, setup = log("tasks/done-too/notes.txt", 100), log("worktrees/w.log", 100)
    dry_run, copy = log("verification-dry-run.log", 100), log("../corral.db.before-0001", 100)
    mine, link = log("../corral.db.before-mine", 100), world.root / ".corral" / "corral.db.before-0002"
    link.symlink_to(mine)
    (world.logs / "tasks" / "link").symlink_to(outside)
    os.utime(outside / "precious.log", (0, 0))
    plan = Collection(world.job).run(LATER, dry_run=True)
    assert {"kind": "backups", "count": 1} in plan["removed"] and {"kind": "logs", "count": 4} in plan["removed"]
    assert world.round().removed["backups"] == 1
    assert [file.exists() for file in (old, open_one, large, new, foreign, setup, dry_run, copy)] == [
        False, True, False, True, True, False, False, False,
    ]  # fmt: skip
    assert mine.exists() and link.is_symlink(), "a copy of a person's own, and a link, are not Corral's"
    assert not old.parent.exists() and (outside / "precious.log").exists()
    (world.logs / "merges").rename(world.logs / "m")
    (world.logs / "merges").symlink_to(world.logs / "m")
    assert world.round(LATER + timedelta(days=100)).removed["logs"] == 0, "a folder that is a link is not entered"


def saved(root: Path, name: str, at: datetime) -> str:
    snapshot = salvage.snapshot(open_checkout(root), name, at, reason="test")
    assert snapshot is not None
    return snapshot.ref


def test_saved_work_goes_only_where_a_branch_holds_all_of_it(
    world: World, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(timezone.utc)
    (repo / "unique.txt").write_text("nobody else has this")
    unique = saved(repo, "unique", now)
    (repo / "unique.txt").unlink()
    (repo / "landed.txt").write_text("this lands")
    landed = saved(repo, "landed", now)
    commit(repo, {"landed.txt": "this lands"})
    head = git(repo, "rev-parse", "HEAD")
    git(repo, "update-ref", "refs/corral/salvage/held/1", head)
    (repo / "queue.txt").write_text("only the queue and a remote have this")
    in_queue = saved(repo, "queue", now)
    for ref in ("refs/corral/mq/one", "refs/remotes/origin/x"):
        git(repo, "update-ref", ref, git(repo, "rev-parse", in_queue))
    later = now + timedelta(days=40)
    assert world.round(now + timedelta(days=10)).removed["salvage"] == 0
    assert world.round(later).removed["salvage"] == 2
    left = set(git(repo, "for-each-ref", "--format=%(refname)", "refs/corral/salvage").splitlines())
    assert left == {unique, in_queue} and landed not in left
    assert "saved_work" not in world.faults
    monkeypatch.setattr("corral.observe.retention.retention.MANY_SAVED", 1)
    world.round(later)
    assert world.faults["saved_work"].what.startswith("2 saved states")


def test_of_two_saved_states_that_hold_each_other_one_stays(world: World, repo: Path) -> None:
    now = datetime.now(timezone.utc)
    (repo / "w.txt").write_text("work")
    first = saved(repo, "a", now)
    git(repo, "update-ref", "refs/corral/salvage/b/1", git(repo, "rev-parse", first))
    world.round(now + timedelta(days=40))
    world.round(now + timedelta(days=50))
    assert len(git(repo, "for-each-ref", "refs/corral/salvage").splitlines()) == 1


def test_what_could_not_be_deleted_is_said_until_it_can_be(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):
        world.event("memory.stored")
    folder = world.logs / "tasks" / "t"
    folder.mkdir(parents=True)
    (folder / "1.log").mkdir()
    (folder / "2.log").write_text("x")
    os.utime(folder / "2.log", (0, 0))

    def refuse(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    with monkeypatch.context() as broken:
        broken.setattr(Path, "unlink", refuse)
        done = world.round()
    assert done.problems == {"logs": "2.log: Permission denied"} and done.removed["events"] == 1
    assert "logs: 2.log: Permission denied" in world.faults["retention"].what
    world.round()
    assert world.faults == {}


@pytest.mark.req("FR-META-001")
def test_old_attempts_go_but_the_newest_of_a_task_and_those_of_open_dead_landing_or_waited_for_ones(
    world: World,
) -> None:
    """And the record of the agent that made them keeps all of its figures."""
    outcome = {1: "completed", 2: "failed"}
    for name, more in (
        ("done", {}), ("open", {}), ("dead", {}), ("cleared", {"dismissed_at": iso(THEN)}), ("landing", {}), ("awaited", {}),
    ):  # fmt: skip
        world.task(name, is_open=name == "open", **more)
        state = {"status": "dead", "error_code": "e"} if name in ("dead", "cleared") else {}
        changed = update(tables.tasks).where(tables.tasks.c.task_id == name).values(fencing_token=2, **state)
        world.db.write(methodcaller("execute", changed))
        for number in (1, 2):
            world.put(
                tables.attempts, task_id=name, number=number, session_id="s", claimed_at=iso(THEN), started_at=iso(THEN),
                usage={"input_tokens": 100, "output_tokens": 20, "cost_usd": 0.5 * number}, outcome=outcome[number],
                ended_at=iso(THEN + timedelta(seconds=30 * number)),
            )  # fmt: skip
            world.put(
                project_tables.agent_runs, task_id=name, number=number, agent="mason", task_type="t", began_at=iso(THEN)
            )
    world.merge("m", "queued", task_id="landing")
    world.put(tables.task_dependencies, task_id="open", depends_on="awaited")
    assert world.round(THEN + timedelta(days=89)).removed["attempts"] == 0
    before = world.db.read(lambda conn: stats(conn, "mason", THEN - timedelta(days=1), None))
    assert world.round(THEN + timedelta(days=91)).removed["attempts"] == 2
    pairs = world.db.read(lambda conn: conn.execute(select(tables.attempts.c.task_id, tables.attempts.c.number)).all())
    assert {name for name, number in pairs if number == 1} == {"open", "dead", "landing", "awaited"}
    assert len([number for _, number in pairs if number == 2]) == 6
    (was,) = before
    assert (was["outcomes"], was["duration_s"], was["tokens"]) == (
        {"completed": 6, "failed": 6},
        {"median": 30.0, "of": 6},
        1440,
    )
    assert world.db.read(lambda conn: stats(conn, "mason", THEN - timedelta(days=1), None)) == before


@pytest.mark.req("NFR-COMP-003")
def test_the_audit_is_kept_for_90_days_and_what_is_left_of_it_verifies(world: World) -> None:
    for day in range(100):
        deed = trail.Deed(THEN + timedelta(days=day), "task.cancel", None, "me", None, {}, {})
        world.db.write(partial(trail.append, drafts=[trail.draft(deed, {})]))
    assert world.round(THEN + timedelta(days=90)).removed["audit"] == 0
    assert world.round(THEN + timedelta(days=100)).removed["audit"] == 10
    verdict = reading.verify(world.db.read)
    assert (verdict["valid"], verdict["lines"], verdict["removed_until"]) == (True, 90, 10)
    world.ages = Ages(audit_days=None)
    assert "audit" not in world.round(LATER).removed


def test_beyond_the_disk_budget_logs_of_landed_work_go_first_then_other_finished_ones_then_events(world: World) -> None:
    world.ages = Ages(disk_mb=10)
    receipt = world.db.write(
        lambda conn: receipt_rows.add(
            conn, tree="t", fingerprint="f", status=ReceiptStatus.PASSED, now=LATER, exit_code=0
        )
    )
    for name, is_open in (("landed", False), ("failed", False), ("open", True)):
        world.task(name, is_open=is_open)
    world.merge("m", "landed", task_id="landed", receipt_id=receipt["receipt_id"])
    logs = {}
    for age, name in enumerate(("landed", "failed", "open")):  # the landed one is the newest
        logs[name] = world.logs / "tasks" / name / "1.log"
        logs[name].parent.mkdir(parents=True)
        logs[name].write_bytes(b"x" * 4_000_000)
        moment = (LATER - timedelta(hours=age)).timestamp()
        os.utime(logs[name], (moment, moment))
    world.event("memory.stored", LATER - timedelta(days=2))
    world.event("session.changed", LATER)
    world.round()
    assert [file.exists() for file in logs.values()] == [False, True, True] and world.faults == {}
    logs["open"].write_bytes(b"x" * 12_000_000)
    assert world.all(tables.events.c.kind) == {"memory.stored", "session.changed"}
    world.round()
    assert [file.exists() for file in logs.values()] == [False, False, True], "an open task's log stays"
    assert world.all(tables.events.c.kind) == {"session.changed"}
    assert "retention.disk_mb" in world.faults["disk_budget"].what


def test_a_request_tells_beforehand_what_it_deletes_and_why_the_rest_is_kept(world: World, repo: Path) -> None:
    now = datetime.now(timezone.utc)
    for name in ("sender", "reader"):
        world.session(name, ended=None)
    world.message("unread", "reader")
    world.message("brought", "reader", injected_at=THEN)
    world.event("memory.stored")
    world.event("lock.expired", session_id="reader")
    (repo / "unique.txt").write_text("nobody else has this")
    unique = saved(repo, "unique", now)
    (repo / "unique.txt").unlink()
    git(repo, "update-ref", "refs/corral/salvage/held/1", git(repo, "rev-parse", "HEAD"))
    later, gc = now + timedelta(days=120), Collection(world.job)

    def told(parts: Sequence[Removed | Kept]) -> dict[str, int]:
        return {part["kind"]: part["count"] for part in parts}

    plan = gc.run(later, dry_run=True)
    assert told(plan["removed"]) == {"events": 1, "messages": 1, "salvage": 1}
    assert told(plan["kept"]) == {"events": 1, "messages": 1, "salvage": 1}
    assert [ref["ref"] for part in plan["kept"] for ref in part["refs"]] == [unique]
    assert world.all(talk.messages.c.subject) == {"unread", "brought"}, "nothing was deleted"
    with pytest.raises(NotFound):
        gc.run(later, dry_run=False, forget=["refs/heads/main"])
    done = gc.run(later, dry_run=False)
    assert told(done["removed"]) == told(plan["removed"]) and told(done["kept"]) == told(plan["kept"])
    assert git(repo, "for-each-ref", "--format=%(refname)", "refs/corral/salvage") == unique
    assert told(gc.run(later, dry_run=False, forget=[unique])["removed"]) == {"salvage": 1}
    assert git(repo, "for-each-ref", "refs/corral/salvage") == ""


def test_damage_is_found_by_the_daily_look(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "CUT_AFTER_S", 0.05)

    def fill(conn: Connection) -> None:
        for _ in range(500):
            events.record(conn, LATER, LARGE)

    world.db.write(fill)
    rested(world.db.path)
    with world.db.path.open("r+b") as raw:
        raw.seek(-8 * 4096, os.SEEK_END)
        raw.write(os.urandom(8 * 4096))
    assert world.db.damage is None
    with pytest.raises(DatabaseDamaged):
        world.round()
    assert world.db.damage is not None


def test_the_daemon_rotates_the_log_of_hooks_at_its_start(house: Coordinated) -> None:
    hook_log = put(house.root / ".corral" / "logs" / "hook.log", "x" * 2_000_000)
    house.run("daemon", "start")
    assert hook_log.with_name("hook.log.1").stat().st_size == 2_000_000
    assert hook_log.stat().st_size < 1000


@pytest.mark.req("FR-LOOP-005")
def test_the_refs_of_a_loop_go_once_it_landed_or_its_task_is_gone_and_its_history_stays(world: World) -> None:
    head = commit(world.root, {"work.txt": "work"})
    receipt = world.db.write(
        lambda conn: receipt_rows.add(
            conn, tree="t", fingerprint="f", status=ReceiptStatus.PASSED, now=LATER, exit_code=0
        )
    )
    for name, state in (("landed", "landed"), ("open", "queued"), ("limits", None), ("gone", None)):
        if name != "gone":
            world.task(name, is_open=False)
        if state is not None:
            world.merge(f"of-{name}", state, task_id=name, receipt_id=receipt["receipt_id"])
        loop = {"task_id": name, "title": name, "spec": {"until": []}, "counted_from": 0, "created_at": iso(THEN)}
        world.put(project_tables.loops, **loop)
        world.put(
            project_tables.loop_iterations, task_id=name, iteration=1, attempt=1, session_id="s", base_sha=head,
            head_sha=head, verdict="not_converged", is_success=True, record="{}", duration_s=1.0,
            started_at=iso(THEN), ended_at=iso(THEN),
        )  # fmt: skip
        for which in ("1", "best"):
            git(world.root, "update-ref", f"refs/corral/loops/{name}/{which}", head)

    def held() -> set[str]:
        return set(git(world.root, "for-each-ref", "--format=%(refname:lstrip=3)", "refs/corral/loops/").split())

    alone = git(world.root, "commit-tree", git(world.root, "rev-parse", "HEAD^{tree}"), "-m", "no loop made it")
    foreign = {"landed/mine": alone, "of-another-database/1": head}  # what only looks like Corral's stays
    for name, sha in foreign.items():
        git(world.root, "update-ref", f"refs/corral/loops/{name}", sha)

    world.round(THEN + timedelta(days=1))
    assert held() - set(foreign) == {
        f"{name}/{which}" for name in ("landed", "open", "limits") for which in ("1", "best")
    }
    assert world.round().removed["loops"] == 2
    assert held() - set(foreign) == {f"{name}/{which}" for name in ("open", "limits") for which in ("1", "best")}
    assert held() >= set(foreign)
    assert world.all(project_tables.loop_iterations.c.task_id) == {"landed", "open", "limits", "gone"}
    assert world.all(project_tables.loops.c.task_id) == {"landed", "open", "limits", "gone"}


def test_what_landed_is_kept_for_its_days_and_what_nobody_decided_about_for_longer(world: World) -> None:
    first = git(world.root, "rev-parse", "HEAD")
    second = commit(world.root, {"work.txt": "work"})
    foreign = git(world.root, "commit-tree", "HEAD^{tree}", "-m", "another database's")
    receipt = world.db.write(
        lambda conn: receipt_rows.add(
            conn, tree="t", fingerprint="f", status=ReceiptStatus.PASSED, now=THEN, exit_code=0
        )
    )
    for name, sha in (("a", first), ("b", second)):
        world.merge(name, "landed", landed_sha=sha, receipt_id=receipt["receipt_id"])
    old, young = f"{THEN:%Y%m%dT%H%M%SZ}", f"{LATER:%Y%m%dT%H%M%SZ}"
    names = {
        "tips/main": second, f"kept/main/{old}-{first}": first, f"kept/main/{young}-{second}": second,
        f"lost/main/{old}-{second}": second, f"kept/main/{old}-{foreign}": foreign, "tips/other": second,
        "kept/main/mine": first,
    }  # fmt: skip
    for name, sha in names.items():
        git(world.root, "update-ref", f"refs/corral/landed/{name}", sha)
    plan = Collection(world.job).run(LATER, dry_run=True)
    assert {"kind": "landed", "count": 2} in plan["removed"]
    kept = {entry["reason"].partition(":")[0]: entry["count"] for entry in plan["kept"] if entry["kind"] == "landed"}
    assert kept == {
        "a rewound branch lost it, and nobody has decided": 1,
        "no landing is recorded with it here": 3,
    }
    world.ages = Ages(landed_days=None)
    assert "landed" not in {kind for kind, count in world.round().removed.items() if count}
    world.ages = Ages()
    assert world.round().removed["landed"] == 2
    left = git(world.root, "for-each-ref", "--format=%(refname)", "refs/corral/landed/").split()
    assert set(names) - {"tips/main", f"kept/main/{old}-{first}"} == {ref.split("/", 3)[3] for ref in left}


def test_a_log_that_cannot_be_deleted_keeps_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        (folder := world.logs / "tasks" / name).mkdir(parents=True)
        (folder / "1.log").write_text("old")
        os.utime(folder / "1.log", (THEN.timestamp(), THEN.timestamp()))
    unlink = Path.unlink

    def refuse(path: Path, *, missing_ok: bool = False) -> None:
        if path.parent.name == "a":
            raise PermissionError(1, "Operation not permitted", str(path))
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)  # as for a file that the system protects
    done = world.round()
    assert [file.parent.name for file in sorted(world.logs.glob("tasks/*/1.log"))] == ["a"]
    assert (done.removed["logs"], done.problems["logs"]) == (2, "1.log: Operation not permitted")
    assert "1.log" in world.faults["retention"].what


def test_a_clock_that_jumps_deletes_nothing_for_an_hour_and_one_set_back_delays_no_round(world: World) -> None:
    world.event("lock.acquired")
    world.event("lock.released")
    now = THEN + timedelta(minutes=1)
    world.job.step(THEN)
    due = world.job.step(now)
    assert due == now + EVERY
    assert world.job.step(LATER) == LATER + EVERY
    assert len(world.all(tables.events.c.event_id)) == 2, "the clock may be wrong"
    assert world.job.step(now + EVERY) == now + 2 * EVERY
    assert len(world.all(tables.events.c.event_id)) == 2, "it was, and nothing is lost"
    world.job.step(LATER)
    assert world.job.step(LATER + EVERY) == LATER + 2 * EVERY
    assert len(world.all(tables.events.c.event_id)) == 1, "it is right, and stays so"


def test_a_private_copy_goes_if_another_contains_it_and_an_only_one_stays(world: World) -> None:
    repo = open_repository(world.root / ".git")
    commit(world.root, {".gitignore": "*.db\n.corral\n"})

    def save(after: timedelta) -> str:
        listed = status.look_at_all(open_checkout(world.root))[1]
        survey = ignored.survey(world.root, listed, (), (), 1_000_000)
        copy = private.save(repo, world.root, "w1", THEN + after, survey, reason="x", head=None, known={})
        assert copy is not None
        return copy.ref

    (world.root / "a.db").write_text("1")
    save(timedelta())
    (world.root / "b.db").write_text("2")
    last = save(timedelta(hours=1))
    assert world.round(THEN + timedelta(days=20)).removed["ignored"] == 0
    assert world.round().removed["ignored"] == 1
    assert [copy.ref for copy in private.listing(repo)] == [last]
    assert world.round().removed["ignored"] == 0
