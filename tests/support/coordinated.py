"""A coordinated repository as a user has it: the real command line, the real daemon, nothing left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from corral.client.connection import Client
from corral.config.paths import find_project
from corral.core.errors import CorralError
from corral.faces.cli.program.daemon import stop_and_wait
from corral.faces.cli.project import trust as project_trust
from tests.support import recorded
from tests.support.forked import SOURCE

DEADLINE_S = 45.0
LONGEST_PAUSE_S = 0.2


class Coordinated:
    """One repository; made by the fixture ``coordinate``."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(self, *args: str, check: bool = True, cwd: Path | None = None, timeout_s: float = 90, **env: str) -> Any:
        """Run ``corral ARGS`` as its own process; returns the CompletedProcess."""
        done = subprocess.run(
            [sys.executable, "-m", "corral", *args],
            cwd=cwd or self.root,
            env={**os.environ, "PYTHONPATH": str(SOURCE), **env},  # whatever a test gives its daemons
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"corral {args} exited {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def json(self, *args: str, **kw: Any) -> Any:
        """Run a command with ``--json`` and read what it prints."""
        return json.loads(self.run(*args, "--json", **kw).stdout)

    def worktrees_in_use(self) -> list[dict[str, Any]]:
        """The worktrees that are not merely kept for later tasks."""
        return [row for row in self.json("worktree", "list") if row["state"] != "pooled"]

    def submit(self, title: str, command: str, *args: str) -> str:
        """Submit a command task; returns its id. Without more arguments no process is needed for it."""
        if not args:
            return str(self.ask("POST", "/tasks", {"title": title, "command": command})["task_id"])
        return str(self.json("task", "submit", "--title", title, "--command", command, *args)["task_id"])

    def carry_out(self, title: str, command: str, *args: str, check: bool = True) -> str:
        """Submit a command task and wait until it has landed, or with ``check=False`` until it is over; returns its id."""
        task = self.submit(title, command, *args)
        self.run("wait", task, "--timeout", "60", check=check)
        return task

    def trust(self) -> None:
        """Approve what the project's files would run, as ``corral trust --yes`` does, without a process for it."""
        project = find_project(self.root)
        project_trust.store().approve(project.common_dir, project_trust.claims(project))
        project_trust.tell_daemon(project)

    def configure(self, text: str, file: str = "local.yaml") -> None:
        """Write a configuration file in ``.corral``, and approve what it would run."""
        (self.root / ".corral" / file).write_text(text)
        self.trust()

    def client(self) -> Client:
        """A client in this process."""
        return Client(find_project(self.root))

    def ask(self, method: str, path: str, body: Any = None, **kw: Any) -> Any:
        """One request to the daemon, started if need be."""
        client = self.client()
        try:
            return client.request(method, path, body, **kw)
        finally:
            client.close()

    def await_audit(self) -> None:
        """Wait until what was done so far is in the audit, which is written a moment later; no observer hears of it."""
        observer, Client.observer = Client.observer, None
        try:
            for _ in range(2):  # the second request's line is written after the events of the first one's step
                reloads = self._reloads()
                self.ask("POST", "/keys/reload")
                eventually(lambda: self._reloads() > reloads)  # noqa: B023 - it is called before the next round
        finally:
            Client.observer = observer

    def _reloads(self) -> int:
        return len(self.ask("GET", "/audit", query={"action": "key.reload"}))

    def hook(self, event: str, session_id: str, cwd: Path | None = None, **payload: Any) -> dict[str, Any]:
        """Send a hook event as the bridge does; returns the answer."""
        body = {"session_id": session_id, "cwd": str(cwd or self.root), "hook_event_name": event, **payload}
        answer = self.ask("POST", f"/hooks/{event}", body)
        assert isinstance(answer, dict)
        return answer

    def edit(self, session_id: str, path: Path | str, *, use: str = "", cwd: Path | None = None) -> dict[str, Any]:
        """Announce an edit of a file."""
        target = self.root / path
        return self.hook(
            "PreToolUse",
            session_id,
            cwd,
            tool_name="Edit",
            tool_input={"file_path": str(target)},
            tool_use_id=use or f"use-{session_id}-{path}",
        )

    def daemon_pid(self) -> int | None:
        """The daemon's process, if one answers."""
        client = Client(find_project(self.root), autostart=False)
        health = client.health()
        client.close()
        return int(health["pid"]) if health else None

    def running_pid(self) -> int:
        """The process of the daemon, which has to answer."""
        pid = self.daemon_pid()
        assert pid is not None
        return pid

    def kill_daemon(self) -> None:
        """Kill -9, and wait for the death."""
        pid = self.running_pid()
        process = psutil.Process(pid)
        process.kill()
        eventually(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)
        # Its other threads may hold the socket a moment longer: who connects then is cut off instead of refused.
        eventually(lambda: self.daemon_pid() != pid)

    def stop(self) -> None:
        """Stop the daemon if one runs; every event that it recorded, and every error that it answered, is one declared."""
        if not (self.root / ".corral").is_dir() and self.root.suffix != ".git":
            return
        try:
            project = find_project(self.root)
        except CorralError:  # a test gave it to somebody else: no daemon of ours can be in it
            return
        try:
            stop_and_wait(project)  # as the command does, without a process for it
        except CorralError:
            self.run("daemon", "stop", check=False)
        faults = recorded.faults_in(project.database) + recorded.undeclared_in(project.logs_dir)
        assert not faults, "\n".join(faults)


def denied(answer: dict[str, Any]) -> str | None:
    """The reason for which a hook answer refuses a tool call, or None."""
    output = answer.get("hookSpecificOutput", {})
    return output.get("permissionDecisionReason") if output.get("permissionDecision") == "deny" else None


def told(answer: dict[str, Any]) -> str:
    """What a hook answer tells the model."""
    return str(answer.get("hookSpecificOutput", {}).get("additionalContext", ""))


def rested(database: Path) -> None:
    """Wait until the writer of a database has moved its log into the file, as it does when it is idle."""
    log = database.with_name(database.name + "-wal")
    eventually(lambda: log.stat().st_size == 0)


def eventually(condition: Callable[[], Any], deadline_s: float = DEADLINE_S) -> Any:
    """Poll until the condition is true, and return it; an assertion fails after the deadline.

    The longer it waits the seldomer it looks: a look may be a command, and what is waited for needs the processor too.
    """
    until, pause_s = time.monotonic() + deadline_s, 0.02
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < until, "it did not come true in time"
        time.sleep(pause_s)
        pause_s = min(1.4 * pause_s, LONGEST_PAUSE_S)
