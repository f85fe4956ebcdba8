"""How operations go through the package: ``python -m tests.walks ROOT`` prints them as JSON.

Each runs for real, in the parts that a daemon is made of. Of three requests it is noted which modules are on the stack when the
request hands its transaction over, and when that transaction's statement reaches the driver; of a task's start and of a landing
those that are on it, on both sides of a thread's beginning, when the worker's process starts and when git moves the target.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

from sqlalchemy import Connection

import corral
from corral.config.paths import find_project
from corral.coordination.mail import tools as mail
from corral.coordination.services import Services
from corral.daemon import nouns
from corral.daemon.wiring import assemble
from corral.faces.http.router import Router
from corral.faces.mcp.calls import Call, current
from corral.faces.mcp.replays import Replays
from corral.landing.queue import Queue
from corral.store.access import StoreAccess
from corral.store.engine.writes import Write
from corral.work.tasks import tasks
from corral.work.tasks.wire import read_submissions
from corral.work.workers.supervisor import Supervisor

PACKAGE = Path(corral.__file__).parent
MACHINERY = "store/engine/"
"""What carries every transaction and statement is no step of any."""
WORK = "echo hello > hello.txt"
EDIT = {"hook_event_name": "PreToolUse", "session_id": "one", "tool_name": "Write", "tool_use_id": "use-1"}


def _modules(frame: FrameType | None) -> list[str]:
    """The modules of the package on a stack, the outermost first; one beside itself is told once."""
    names: list[str] = []
    while frame is not None:
        file = Path(frame.f_code.co_filename)
        if file.is_relative_to(PACKAGE):
            names.append(str(file.relative_to(PACKAGE)))
        frame = frame.f_back
    names.reverse()
    return _once(names)


def _once(modules: list[str]) -> list[str]:
    """Each entering of a module: what calls itself is entered once."""
    return [name for at, name in enumerate(modules) if at == 0 or modules[at - 1] != name]


class Walk:
    """The stacks of one operation, up to the insertion into a table."""

    def __init__(self, table: str) -> None:
        self._row = f"INSERT INTO {table} "
        self._found = False
        self.handed_over: list[str] = []
        self.at_the_row: list[str] = []

    def note(self, sql: str, handed_over: list[str], stack: list[str]) -> None:
        """A statement was run, by the transaction that this stack handed over."""
        if sql.startswith(self._row) and not self._found:
            self._found = True
            begin = stack.index("store/engine/writes.py") + 1
            self.handed_over = [name for name in handed_over if not name.startswith(MACHINERY)]
            self.at_the_row = [name for name in stack[begin:] if not name.startswith(MACHINERY)]

    def modules(self) -> list[str]:
        """In the order in which they are entered. A transaction is a function of a module that handed it over already."""
        return [*self.handed_over, *(name for name in self.at_the_row if name not in self.handed_over)]


def _watch(walks: list[Walk]) -> None:
    """Have the last of these told of every transaction and statement from now on."""
    write, run = StoreAccess.write, Write.run
    handed_over: dict[int, list[str]] = {}

    async def writing(self: StoreAccess, operation: Any, *args: Any, **kwargs: Any) -> Any:
        handed_over[id(operation)] = _modules(sys._getframe(1))
        return await write(self, operation, *args, **kwargs)

    def in_the_writer(self: Write[Any], conn: Connection) -> None:
        stack = handed_over.get(id(self.operation))
        raw: Any = conn.connection.dbapi_connection
        if stack is not None:
            raw.set_trace_callback(lambda sql: walks[-1].note(sql, stack, _modules(sys._getframe(1))))
        run(self, conn)
        raw.set_trace_callback(None)

    StoreAccess.write, Write.run = writing, in_the_writer  # type: ignore[method-assign]


async def _post(router: Router, path: str, body: dict[str, Any]) -> None:
    scope = {"type": "http", "method": "POST", "path": f"/api/v1{path}", "query_string": b"", "headers": []}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start" and message["status"] >= 400:
            raise AssertionError(message)

    await router(scope, receive, send)


async def _walks(services: Services, root: Path) -> dict[str, list[str]]:
    services.changes.bind(asyncio.get_running_loop())

    router, walks = Router(services, nouns.HOT, list), [Walk("nothing")]
    _watch(walks)
    modules = {}

    async def walk(name: str, table: str, operation: Awaitable[Any]) -> None:
        walks.append(Walk(table))
        await operation
        modules[name] = walks[-1].modules()

    await _post(router, "/sessions", {"session_id": "one", "agent_name": "One"})
    await _post(router, "/sessions", {"session_id": "two", "agent_name": "Two"})
    edit = {**EDIT, "cwd": str(root), "tool_input": {"content": "x", "file_path": str(root / "a.py")}}
    await walk("hook of an edit", "file_locks", _post(router, "/hooks/PreToolUse", edit))
    await walk("POST /tasks", "tasks", _post(router, "/tasks", {"title": "A task"}))
    current.set(Call(services=services, replays=Replays(), session="one"))
    await walk("send_message", "messages", mail.send_message(to=("Two",), subject="Hello", body_md="It is free."))
    return modules


def _watch_processes(seen: dict[str, list[str]]) -> None:
    """Note by what the worker's process, and git's that moves a target, are started."""
    submit, start = ThreadPoolExecutor.submit, subprocess.Popen.__init__
    begun_by = threading.local()

    def submitting(self: ThreadPoolExecutor, function: Any, /, *arguments: Any, **named: Any) -> Any:
        before = _modules(sys._getframe(1))

        def run() -> Any:
            begun_by.modules = before
            return function(*arguments, **named)

        return submit(self, run)

    def starting(self: Any, argv: Any, *arguments: Any, **named: Any) -> None:
        words = [os.fspath(word) for word in argv] if isinstance(argv, (list, tuple)) else [str(argv)]
        walk = "start of a task" if "keeper.py" in words else "landing" if "--ff-only" in words else ""
        if walk and walk not in seen:
            seen[walk] = _once([*getattr(begun_by, "modules", ()), *_modules(sys._getframe(1))])
        start(self, argv, *arguments, **named)

    ThreadPoolExecutor.submit = submitting  # type: ignore[method-assign, assignment]
    subprocess.Popen.__init__ = starting  # type: ignore[method-assign, assignment]


def _work_off(services: Services) -> dict[str, list[str]]:
    """Have one task done and landed, by the steps that the jobs make."""
    seen: dict[str, list[str]] = {}
    _watch_processes(seen)
    item = {"title": "Says hello", "command": WORK}
    rules = services.settings().tasks
    services.db.write(lambda conn: tasks.submit_batch(conn, read_submissions([item]), services.now(), rules))
    deadline = time.monotonic() + 60
    while "landing" not in seen and time.monotonic() < deadline:
        services.of(Supervisor).step(services.now())
        services.of(Queue).step(services.now())
        time.sleep(0.02)
    return seen


def main(root: Path) -> None:
    parts = assemble(find_project(root), ThreadPoolExecutor(2))
    try:
        modules = asyncio.run(_walks(parts.services, root))
        print(json.dumps({**modules, **_work_off(parts.services)}))
    finally:
        parts.services.db.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
