"""A storm: clients that work while their daemon, its workers and its gits are killed; and what must be true afterwards.

Whatever a client was told is written down here, outside of the database, and held against the world in the end.
"""

from __future__ import annotations

import itertools
import os
import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import psutil

from corral.client.connection import Client
from corral.config.paths import find_project
from corral.core.errors import DaemonUnreachable, GitFailed
from corral.git.process.command import open_repository
from corral.git.process.stale import lock_files
from tests.conftest import commit, git, worktrees_in
from tests.support.coordinated import Coordinated, eventually

SEED_VARIABLE = "STORM_SEED"
SETTLED_WITHIN_S = 150.0
BACKLOG = 6
KINDS = ("daemon", "worker", "git", "keeper", "both")
"""What is killed; both: a keeper and its worker at once."""

# Here daemons die of somebody else, and tasks come back before they could have waited: no task is to be taken for the cause.
CONFIG = """
tasks: {max_retries: 3, retry_initial_s: 0.1, retry_max_s: 0.5, max_crashes: 50}
supervisor: {max_agents: 4, stop_grace_s: 1}
worktrees: {pool_min_files: 0}
"""


def seed_of_this_run() -> int:
    """Printed by whoever uses it; ``STORM_SEED`` plays one again."""
    return int(os.environ.get(SEED_VARIABLE) or random.randrange(1 << 30))


class Storm:
    """Clients in threads, and kills, over one coordinated repository."""

    def __init__(self, house: Coordinated, seed: int, *, branches: int = 6) -> None:
        self.house, self.root = house, house.root
        self.chance = random.Random(seed)
        self.seed = seed
        self.processes = Processes(house.root)
        self.kills: Counter[str] = Counter()
        self.tasks: dict[str, str] = {}
        """Acknowledged tasks, and the file that each leaves."""
        self.merges: dict[str, str | None] = {}
        """Acknowledged merge requests by branch; None: the target had it already."""
        self.held: dict[str, str] = {}
        """Paths whose lock was acknowledged and not given up, and the session that has it."""
        self.ended: set[str] = set()
        """Sessions whose end was acknowledged."""
        self.trouble: list[BaseException] = []
        self.settled_within_s = SETTLED_WITHIN_S
        self._over = threading.Event()
        git(self.root, "add", "-A")
        git(self.root, "commit", "-q", "--allow-empty", "-m", "coordinated")
        for number in range(branches):
            git(self.root, "switch", "-q", "-c", f"side/{number}", "main")
            commit(self.root, {f"side-{number}.txt": f"{number}\n"}, f"side {number}")
        git(self.root, "switch", "-q", "main")
        (self.root / "mine.txt").write_text("not committed\n")

    # -- the clients

    def blow(self, kills: int, *, tasks: int) -> None:
        """Run the clients, and kill so often meanwhile, each kind in turn; they end once they have submitted ``tasks`` tasks."""
        clients = [self._submit, self._submit, self._lock, self._edit, self._merge]
        threads = [threading.Thread(target=self._client, args=(what, n)) for n, what in enumerate(clients)]
        for thread in threads:
            thread.start()
        try:
            self._kill([*itertools.islice(itertools.cycle(KINDS), kills)])
            eventually(lambda: self.trouble or len(self.tasks) >= tasks, 240)
        finally:
            self._over.set()
            for thread in threads:
                thread.join(120)
        assert not any(thread.is_alive() for thread in threads), "a client hangs"
        if self.trouble:
            raise self.trouble[0]

    def _client(self, what: Callable[[Caller, int, random.Random], Iterator[None]], number: int) -> None:
        chance = random.Random(self.seed + number + 1)
        caller = Caller(self.root)
        try:
            for _ in what(caller, number, chance):
                if self._over.is_set():
                    return
                time.sleep(chance.uniform(0.05, 0.4))
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            self.trouble.append(error)
        finally:
            caller.close()

    def _submit(self, caller: Caller, number: int, chance: random.Random) -> Iterator[None]:
        for turn in range(10_000):
            if _backlog(caller("GET", "/status")) >= BACKLOG:  # enough to be at work all the time
                yield
                continue
            file = f"task-{number}-{turn}.txt"
            keep = chance.choice(["", f"; git add {file} && git commit -q -m {file}"])
            body = {
                "title": file,
                "command": f"sleep {chance.uniform(0, 0.3):.2f}; echo {turn} >> {file}{keep}",
                "idempotency_key": file,
                "author_name": "A",
                "author_email": "a@b.test",
            }
            self.tasks[caller("POST", "/tasks", body)["task_id"]] = file
            yield

    def _lock(self, caller: Caller, number: int, chance: random.Random) -> Iterator[None]:
        session = f"locker-{number}"
        for turn in range(10_000):
            path = f"src/locked-{turn}.py"
            caller("POST", "/locks/acquire", {"paths": [path], "session_id": session})
            self.held[path] = session
            if chance.random() < 0.7:
                del self.held[path]  # from here on it may be free, whether or not we are told
                caller("POST", "/locks/release", {"paths": [path], "session_id": session})
                assert not self._has(caller, path)
            yield

    def _has(self, caller: Caller, path: str) -> bool:
        return any(row["file_path"] == path for row in caller("GET", "/locks"))

    def _edit(self, caller: Caller, _number: int, chance: random.Random) -> Iterator[None]:
        for turn in range(10_000):
            session, path = f"editor-{turn}", f"src/edited-{turn}.py"
            event = {"session_id": session, "cwd": str(self.root)}
            tool = {"tool_name": "Edit", "tool_input": {"file_path": str(self.root / path)}, "tool_use_id": session}
            caller("POST", "/hooks/SessionStart", {**event, "hook_event_name": "SessionStart", "source": "startup"})
            yield
            answer = caller("POST", "/hooks/PreToolUse", {**event, **tool, "hook_event_name": "PreToolUse"})
            assert "permissionDecision" not in answer.get("hookSpecificOutput", {}), answer
            self.held[path] = session
            yield
            caller("POST", "/hooks/PostToolUse", {**event, **tool, "hook_event_name": "PostToolUse"})
            if chance.random() < 0.5:
                del self.held[path]
                caller("POST", "/hooks/SessionEnd", {**event, "hook_event_name": "SessionEnd", "reason": "other"})
                self.ended.add(session)

    def _merge(self, caller: Caller, _number: int, chance: random.Random) -> Iterator[None]:
        names = git(self.root, "for-each-ref", "--format=%(refname:short)", "refs/heads/side").split()
        for branch in names:
            for _ in range(chance.randrange(2, 8)):
                yield
            while branch not in self.merges:
                with suppress(GitFailed):  # the git of this very request was killed: nothing was acknowledged
                    self.merges[branch] = caller("POST", "/merges", {"branch": branch})["merge_id"]

    # -- the kills

    def _kill(self, queue: list[str]) -> None:
        self.chance.shuffle(queue)
        for kind in queue:
            if kind == "daemon":
                time.sleep(self.chance.uniform(0, 0.8))  # its age at death is what varies; nothing waits for it
            until = time.monotonic() + 45
            while not self._kill_one(kind):
                assert not self.trouble, self.trouble
                time.sleep(0.002)  # leaves the processor to those that are waited for
                assert time.monotonic() < until, f"no {kind} to kill; {self}"
            self.kills[kind] += 1

    def _kill_one(self, kind: str) -> bool:
        processes = [
            process for process, words in self.processes() if _kind(words) == ("keeper" if kind == "both" else kind)
        ]
        if not processes:
            return False
        with suppress(psutil.Error):
            victim = self.chance.choice(processes)
            workers = victim.children() if kind == "both" else []
            if kind == "both" and not workers:
                return False
            for process in (victim, *workers):
                process.kill()
            return True
        return False

    def __str__(self) -> str:
        return f"seed {self.seed}, killed {dict(self.kills)}, {len(self.tasks)} tasks, {len(self.merges)} merges"

    # -- afterwards

    def check(self) -> None:
        """Everything settles by itself; nothing that was acknowledged is lost, nothing is doubled, nothing lies about."""
        caller = Caller(self.root)
        try:
            self._settle(caller)
            self._check_tasks(caller)
            self._check_merges(caller)
            self._check_locks(caller)
        finally:
            caller.close()
        self.house.run("daemon", "stop")
        eventually(lambda: not processes_of(self.root))
        self._check_what_lies_about()

    def _in_use(self, caller: Caller) -> list[Any]:
        return [row for row in caller("GET", "/worktrees") if row["state"] != "pooled"]

    def _settle(self, caller: Caller) -> None:
        deadline = time.monotonic() + self.settled_within_s
        while not caller("GET", "/wait", query={"all": True, "timeout_s": 5})["settled"]:
            if time.monotonic() > deadline:
                held = [row for row in caller("GET", "/merges") if row["state"] not in ("landed",)]
                open_tasks = [row for row in caller("GET", "/tasks") if row["status"] != "completed"]
                raise AssertionError(f"not settled in {self.settled_within_s} s: {held} {open_tasks} {self}")
        try:  # what could not be removed is tried again every 30 s
            eventually(lambda: not self._in_use(caller) and not self._refs_of_ours(), 150)
        except AssertionError as error:
            left = f"{caller('GET', '/worktrees')} {self._refs_of_ours()} {caller('GET', '/status')['needs_you']}"
            raise AssertionError(f"what nobody takes away: {left}; {self}") from error

    def _refs_of_ours(self) -> str:
        return git(self.root, "for-each-ref", "refs/corral/mq", "refs/heads/corral")

    def _check_tasks(self, caller: Caller) -> None:
        titles = Counter(row["title"] for row in caller("GET", "/tasks"))
        assert set(titles.values()) <= {1}, "a task was stored twice"
        for task_id, file in self.tasks.items():
            detail = caller("GET", f"/tasks/{task_id}/detail")
            assert detail["status"] == "completed", detail
            assert detail["merge"]["state"] == "landed", detail
            git(self.root, "merge-base", "--is-ancestor", detail["merge"]["landed_sha"], "main")
            kinds = Counter(event["kind"] for event in detail["history"])
            assert kinds["merge.landed"] == kinds["task.completed"] == 1, kinds
            self._landed_once(file, file.split("-")[2].removesuffix(".txt"))

    def _check_merges(self, caller: Caller) -> None:
        for branch, merge_id in self.merges.items():
            if merge_id is not None:
                assert caller("GET", f"/merges/{merge_id}")["state"] == "landed"
            number = branch.removeprefix("side/")
            self._landed_once(f"side-{number}.txt", number)
            git(self.root, "rev-parse", f"refs/heads/{branch}")

    def _landed_once(self, file: str, text: str) -> None:
        assert git(self.root, "show", f"main:{file}") == text
        assert len(git(self.root, "log", "--no-merges", "--format=%H", "main", "--", file).split()) == 1
        assert (self.root / file).read_text() == f"{text}\n"

    def _check_locks(self, caller: Caller) -> None:
        known = {row["file_path"]: row["session_id"] for row in caller("GET", "/locks")}
        assert {path: known.get(path) for path in self.held} == self.held, "an acknowledged lock is lost"
        assert not self.ended & set(known.values()), "a session that ended holds a lock"

    def _check_what_lies_about(self) -> None:
        with closing(sqlite3.connect(self.root / ".corral" / "corral.db")) as conn:
            assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert conn.execute("PRAGMA foreign_key_check").fetchall() == []
            kept = {name for (name,) in conn.execute("SELECT name FROM worktrees WHERE state = 'pooled'")}
        assert git(self.root, "fsck", "--connectivity-only", "--no-dangling") == ""
        assert git(self.root, "status", "--porcelain") == "?? mine.txt"
        assert (self.root / "mine.txt").read_text() == "not committed\n"
        names = {entry.name for entry in worktrees_in(self.root)}
        entries = [(entry / "gitdir").read_text().strip() for entry in (self.root / ".git" / "worktrees").glob("*")]
        assert names == kept, f"a worktree that nothing refers to, or a row without one: {names} {kept}; {self}"
        assert {Path(place).parent.name for place in entries} <= kept | {"1"} and len(entries) <= len(kept) + 1, entries
        assert lock_files(open_repository(self.root / ".git"), datetime.now(timezone.utc)) == [], (
            "a lock that nobody holds"
        )


class Caller:
    """A client as a script has it: asks until it is answered, whatever happens to the daemon."""

    def __init__(self, root: Path) -> None:
        self._client = Client(find_project(root))

    def __call__(self, method: str, path: str, body: Any = None, **kw: Any) -> Any:
        deadline = time.monotonic() + 60
        while True:
            try:
                return self._client.request(method, path, body, **kw)
            except DaemonUnreachable:
                if time.monotonic() > deadline:
                    raise

    def close(self) -> None:
        self._client.close()


def _backlog(status: dict[str, Any]) -> int:
    waiting = ("pending", "running", "interrupted", "queued", "verifying", "held")
    return sum(status["tasks"].get(state, 0) + status["merges"].get(state, 0) for state in waiting)


def processes_of(root: Path) -> list[tuple[psutil.Process, list[str]]]:
    """Every living process, but this one, that names the repository in its command line or was started by its daemon."""
    return Processes(root)()


class Processes:
    """The same again and again, each time but the first at little cost: what lives for milliseconds has to be met.

    A look at every process of a loaded machine takes longer than a git, or a worker, lives. So strangers are looked at once.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._strangers = {os.getpid()}
        self._own = psutil.Process().cmdline()

    def __call__(self) -> list[tuple[psutil.Process, list[str]]]:
        processes = []
        pids = psutil.pids()
        self._strangers.intersection_update(pids)
        for pid in reversed(pids):
            if pid in self._strangers:
                continue
            with suppress(psutil.Error, OSError):
                process = psutil.Process(pid)
                words = process.cmdline() if process.status() != psutil.STATUS_ZOMBIE else []
                if any(str(self._root) in word for word in words) or (words and _works_for(process, self._root)):
                    processes.append((process, words))
                elif self._is_settled(process, words):
                    self._strangers.add(pid)
        return processes

    def _is_settled(self, process: psutil.Process, words: list[str]) -> bool:
        """Whether it can no longer become one: a child of this process is what it will be only after its exec."""
        if words:
            return words != self._own
        return process.status() == psutil.STATUS_ZOMBIE or os.getpgid(process.pid) == 0  # a thread of the kernel


def _works_for(process: psutil.Process, root: Path) -> bool:
    if process.uids().real != os.getuid():
        return False
    environ = process.environ()
    if "CORRAL_KEEPER" in environ:
        return Path(process.cwd()).is_relative_to(root)
    return str(root) in (
        environ.get("CORRAL_PROJECT"),
        environ.get("CORRAL_VERIFICATION", "").partition("/.corral/")[0],
    )


def _kind(words: list[str]) -> str:
    if "corral.daemon" in words:
        return "daemon"
    if "keeper.py" in words:
        return "keeper"
    if not words:  # in the middle of an exec: what it is shows at the next look
        return ""
    return "git" if words[0] in ("git", "/usr/bin/env") or words[0].endswith("/git") else "worker"
