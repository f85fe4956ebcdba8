"""A coordinated repository with a database and a merge queue, stepped by hand."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from corral.config.model import Settings
from corral.config.paths import Project
from corral.config.sections.sharing import Landing
from corral.config.worktree_root import WorktreeRoot
from corral.core.identifiers import new_id
from corral.core.inputs import Prepared
from corral.core.instants import iso
from corral.core.states import MergeState
from corral.git.process.command import Git, open_repository
from corral.landing import pauses as pausing
from corral.landing import reverts, runs
from corral.landing.queue import Queue
from corral.landing.verify.verification_context import VerificationContext
from corral.landing.verify.verification_worktree import VerificationWorktree
from corral.store import events
from corral.store.engine.database import Database
from corral.store.migrate import open_schema
from corral.store.rows.merges import MergeRow, ReceiptRow, TargetPauseRow
from corral.work.merges.settling import OnSettled, enqueue
from corral.work.merges.store import merges, pauses, receipts
from corral.work.merges.wire import summary
from corral.work.worktrees import store as worktrees
from tests.conftest import WITHOUT_ROOTS_RIGHTS, commit, git
from tests.support.files import put

OPEN = ("queued", "verifying")
PAUSE_S = 0.03
"""Between two looks at a verification: each takes as long as the verification of most tests."""


class World:
    """Time is the clock's plus what a test skips. Only a running verification is waited for."""

    def __init__(self, root: Path, *, common_dir: Path | None = None, landing: Landing | None = None) -> None:
        self.root = root
        common = common_dir or root / ".git"
        self.project = Project(root, common, root / ".corral", common == root)
        put(self.project.home / ".gitignore", "*\n")
        open_schema(self.project.database)
        self.db = Database(self.project.database)
        self.landing = landing or Landing()
        self.settings_of: Callable[[str], Landing] = lambda _target: self.landing
        self.skipped = timedelta(0)
        self.rest_s = 0.0
        self.slots = 1
        self.settled: list[tuple[str, str]] = []
        self.on_settled: OnSettled = lambda *_: None
        self.prepare: Callable[[Path], Mapping[str, str]] = lambda _path: {}
        self.recipes: Callable[[str], Sequence[Mapping[str, Any]]] = lambda _commit: ()
        self.environ: dict[str, str] = dict(os.environ)
        self.spawn: Callable[[Callable[[], None]], None] = lambda function: function()
        self.project_id = "world"
        self.places = WorktreeRoot(self.project, self.project_id, lambda: None, root.parent / "home")
        self.places.home.mkdir(exist_ok=True)
        self.queue = self.new_queue()

    def new_queue(self) -> Queue:
        """A queue as a restarted daemon has it."""
        return Queue(
            VerificationContext(
                self.db,
                self.project,
                self.project_id,
                self.places,
                lambda own, tip: self.supply(own.path, tip),
                self.environ,
                spawn=lambda function: self.spawn(function),
                recipes=lambda commit: self.recipes(commit),
            ),
            self.repo,
            lambda: Settings(landing=Landing(rest_s=self.rest_s, slots=self.slots)),
            lambda target: self.settings_of(target),
            self._settle,
            lambda: None,
            lambda _pid: None,
        )

    def _settle(self, conn: Connection, row: MergeRow, now: datetime) -> None:
        self.settled.append((row["merge_id"], row["state"]))
        self.on_settled(conn, row, now)

    @property
    def verification_worktree(self) -> VerificationWorktree:
        """The verification worktree."""
        return VerificationWorktree(self.db, self.places, self.repo())

    def supply(self, path: Path, _tip_sha: str) -> Prepared:
        """Make the verification worktree usable."""
        return Prepared(self.prepare(path))

    def repo(self) -> Git:
        return open_repository(self.project.common_dir)

    def now(self) -> datetime:
        return datetime.now(timezone.utc) + self.skipped

    def skip(self, seconds: float) -> None:
        self.skipped += timedelta(seconds=seconds)

    def watch(self, seconds: float) -> None:
        """Let time go by while the queue looks, as it does at least once a second."""
        while seconds > 0:
            self.skip(min(seconds, 4.9))
            seconds -= 4.9
            self.queue.step(self.now())

    def branch(self, name: str, files: dict[str, str], base: str = "main") -> str:
        """A branch with one commit, made in a worktree of its own that is gone again."""
        side = self.root.parent / f"{self.root.name}-side-{name.replace('/', '-')}"
        git(self.root, "worktree", "add", "-q", "--no-track", "-b", name, str(side), base)
        sha = commit(side, files, f"work on {name}")
        git(self.root, "worktree", "remove", str(side))
        return sha

    def own_branch(self, name: str, files: dict[str, str], base: str = "main") -> str:
        """A branch as :meth:`branch` makes it, that a worktree of Corral's was made with; the worktree is removed."""
        sha, at = self.branch(name, files, base), iso(self.now())
        row = {
            "worktree_id": new_id(), "name": name.rpartition("/")[2], "path": "/nowhere", "branch": name, "base_sha": sha,
            "purpose": "task", "state": "removed", "provision": {}, "created_at": at, "removed_at": at,
        }  # fmt: skip
        self.db.write(lambda conn: worktrees.create(conn, row))
        return sha

    def submit(self, branch: str, target: str = "main", *, approved: bool = True, **values: Any) -> str:
        """Submit a branch, whose head a person approves at once unless told otherwise: many verifications here name files."""
        row = enqueue(self.db, self.repo(), branch=branch, target=target, now=self.now(), **values)
        assert row is not None
        if approved:
            self.db.write(lambda conn: merges.approve(conn, row["merge_id"], row["head_sha"], self.now()))
        return str(row["merge_id"])

    def merge(self, merge_id: str) -> MergeRow:
        return self.db.read(lambda conn: merges.get(conn, merge_id))

    def receipt(self, merge_id: str) -> ReceiptRow:
        row = self.db.read(lambda conn: receipts.get(conn, merges.get(conn, merge_id)["receipt_id"]))
        assert row is not None
        return row

    def receipt_log(self, merge_id: str) -> Path:
        """The log of its receipt."""
        log = self.receipt(merge_id)["log"]
        assert log is not None
        return self.root / log

    def events(self) -> list[str]:
        return [row["kind"] for row in self.db.read(events.listing)]

    def run(self, *, deadline_s: float = 30, skip: bool = True) -> None:
        """Step until nothing is queued or verifying, or the line waits; back-off is skipped unless told otherwise."""
        deadline = time.monotonic() + deadline_s
        while True:
            due = self.queue.step(self.now())
            states = {row["state"] for row in self.db.read(merges.listing)}
            waits = MergeState.HELD in states and MergeState.VERIFYING not in states
            if not states & set(OPEN) or (waits and due is not None and due > self.now()):
                return
            assert time.monotonic() < deadline, self.db.read(merges.listing)
            if MergeState.VERIFYING in states:
                time.sleep(PAUSE_S)
            elif due is None or not skip:
                return
            else:
                self.skipped += max(timedelta(0), due - self.now())

    def spend(self, seconds: float, *, deadline_s: float = 30) -> None:
        """Step for so much of the queue's time, or until it waits for nothing but a nudge; verifications run in real time."""
        deadline, until = time.monotonic() + deadline_s, self.now() + timedelta(seconds=seconds)
        while self.now() < until:
            due = self.queue.step(self.now())
            assert time.monotonic() < deadline, self.db.read(merges.listing)
            if self.db.read(lambda conn: merges.listing(conn, [MergeState.VERIFYING])):
                time.sleep(PAUSE_S)
            elif due is None:
                return
            else:
                self.skipped += max(timedelta(0), min(due, until) - self.now())

    def pause(self, target: str = "main") -> TargetPauseRow | None:
        return self.db.read(pauses.paused).get(target)

    def step_until(self, so: Callable[[], object], *, deadline_s: float = 30) -> None:
        """Step until something is so; time goes by as it does."""
        deadline = time.monotonic() + deadline_s
        while not so():
            assert time.monotonic() < deadline, self.db.read(merges.listing)
            self.queue.step(self.now())
            time.sleep(PAUSE_S)

    def until(self, merge_id: str, *states: str, deadline_s: float = 30) -> MergeRow:
        """Step until the request is in one of the states."""
        self.step_until(lambda: self.merge(merge_id)["state"] in states, deadline_s=deadline_s)
        return self.merge(merge_id)

    def offer(self, name: str, files: dict[str, str], **values: Any) -> str:
        """Make a branch of this name as :meth:`branch` does, and submit it."""
        self.branch(name, files)
        return self.submit(name, **values)

    def finish(self, merge_id: str) -> MergeRow:
        """Run, and look at the request."""
        self.run()
        return self.merge(merge_id)

    def land(self, branch: str, **values: Any) -> MergeRow:
        return self.finish(self.submit(branch, **values))

    def log(self, merge_id: str, run: str | None = None) -> str:
        run_row = runs.find(self.db, self.project, merge_id, run)
        file = runs.log_of(self.project, run_row) if run_row is not None else None
        assert file is not None
        return file.read_text()

    def tip(self, ref: str = "main") -> str:
        return git(self.root, "rev-parse", ref)

    def held_refs(self) -> list[str]:
        return git(self.root, "for-each-ref", "--format=%(refname)", "refs/corral/mq/").split()

    def close(self) -> None:
        self.queue.stop(self.now())
        self.db.close()


def why(row: MergeRow | ReceiptRow) -> str:
    """The reason that it has."""
    assert row["reason"] is not None, row
    return row["reason"]


def listed(db: Database) -> list[dict[str, Any]]:
    """The requests as a list shows them, with the reason of a pause that they wait for."""
    return [summary(row) for row in db.read(lambda conn: pausing.explained(conn, merges.listing(conn)))]


def live_on(root: Path, verify: str, remote: str | None = None) -> None:
    """What a daemon does with the queue, in a process of its own: recover, then step until nothing is open.

    Whatever the verification leaves in ``cache/`` is removed before the next one, as build products are.
    """
    style = os.environ.get("LANDING_STYLE", "merge")
    settings = {"verify": [verify], "reruns": 0, "remote": remote, "style": style}
    settings |= json.loads(os.environ.get("LANDING_SETTINGS", "{}"))
    world = World(root, landing=Landing.model_validate(settings))
    world.slots = int(os.environ.get("LANDING_SLOTS", "1"))
    world.prepare = _without_cache
    world.queue.recover(world.now())
    (world.project.home / "alive").touch()
    world.run(deadline_s=60)
    world.close()


def revert(root: Path, merge_id: str) -> None:
    """What a daemon does that is asked for a revert."""
    world = World(root)
    reverts.submit(world.db, world.repo(), merge_id, session_id=None, now=world.now())
    world.close()


def _without_cache(worktree: Path) -> Mapping[str, str]:
    if (worktree / "cache").exists():
        shutil.rmtree(worktree / "cache")
    return {}


def in_a_process(
    root: Path, verify: str, *remote: str, with_all_rights: bool = True, does: str = "live_on", **extra: str
) -> subprocess.Popen[bytes]:
    """Start :func:`live_on` in a child process.

    Args:
        extra: ``CORRAL_CRASH_AT``, ``LANDING_STYLE``, ``LANDING_SETTINGS`` (JSON) and ``LANDING_SLOTS`` may be among it.
        does: Another function of this module, that takes the same.
        with_all_rights: False: not even root passes over the permissions of files there.
    """
    code = f"import sys; from tests.integration.landing_world import *; {does}(Path(sys.argv[1]), *sys.argv[2:])"
    top = Path(__file__).parents[2]
    env = {**os.environ, **extra, "PYTHONPATH": f"{top}{os.pathsep}{top / 'daemon'}"}
    argv = [sys.executable, "-c", code, str(root), verify, *remote]
    return subprocess.Popen(argv if with_all_rights else [*WITHOUT_ROOTS_RIGHTS, *argv], cwd=top, env=env)


def fingerprint(root: Path) -> dict[str, bytes]:
    """Every file of a checkout but the project's own, byte for byte."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.relative_to(root).parts[0] not in (".git", ".corral")
    }
