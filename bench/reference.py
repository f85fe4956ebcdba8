"""The bare reference daemon: the practical limit for a daemon in Python.

asyncio, a Unix socket, JSON lines, one writer thread, SQLite at FULL durability, one commit shared by concurrent
requests. It checks nothing except that a lock belongs to one owner.

``python -m bench.reference SOCKET DATABASE``
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Waiter = tuple[dict[str, Any], "asyncio.Future[dict[str, Any]]"]

_TABLES = """
CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, beat REAL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS locks (path TEXT PRIMARY KEY, owner TEXT, until REAL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tasks (seq INTEGER PRIMARY KEY, id TEXT UNIQUE, title TEXT, state TEXT, priority INTEGER);
CREATE INDEX IF NOT EXISTS next ON tasks (state, priority DESC, seq);
CREATE TABLE IF NOT EXISTS mail (seq INTEGER PRIMARY KEY, sender TEXT, reader TEXT, subject TEXT, body TEXT, at REAL);
CREATE INDEX IF NOT EXISTS inbox ON mail (reader, seq);
"""


def opened(path: str) -> sqlite3.Connection:
    """A connection to its database, which is created if missing."""
    db = sqlite3.connect(path, isolation_level=None, timeout=60)
    db.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;" + _TABLES)
    return db


def do(db: sqlite3.Connection, call: dict[str, Any]) -> dict[str, Any]:
    """Run one operation."""
    op, now = call["op"], time.time()
    if op in ("heartbeat", "register"):
        db.execute(
            "INSERT INTO sessions VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET beat = excluded.beat", (call["id"], now)
        )
    elif op == "acquire":
        held = db.execute("SELECT owner FROM locks WHERE path = ? AND until > ?", (call["path"], now)).fetchone()
        if held is not None and held[0] != call["id"]:
            return {"ok": False, "holder": held[0]}
        db.execute("INSERT OR REPLACE INTO locks VALUES (?, ?, ?)", (call["path"], call["id"], now + 3600))
    elif op == "check":
        return {"held": db.execute("SELECT owner FROM locks WHERE path = ?", (call["path"],)).fetchone()}
    elif op == "release":
        db.execute("DELETE FROM locks WHERE path = ? AND owner = ?", (call["path"], call["id"]))
    elif op == "send":
        values = (call["id"], call["to"], call["subject"], call["body"], now)
        db.execute("INSERT INTO mail (sender, reader, subject, body, at) VALUES (?, ?, ?, ?, ?)", values)
    elif op == "inbox":
        query = "SELECT sender, subject, body, at FROM mail WHERE reader = ? ORDER BY seq DESC LIMIT 20"
        return {"mail": db.execute(query, (call["id"],)).fetchall()}
    elif op == "submit":
        db.execute(
            "INSERT INTO tasks (id, title, state, priority) VALUES (?, ?, 'pending', 5)", (call["id"], call["title"])
        )
    return {"ok": True}


class _Writer(threading.Thread):
    def __init__(self, path: str, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(daemon=True)
        self.waiting: queue.SimpleQueue[Waiter] = queue.SimpleQueue()
        self._path, self._loop = path, loop

    def run(self) -> None:
        db = opened(self._path)
        while True:
            batch = [self.waiting.get()]
            with contextlib.suppress(queue.Empty):
                while len(batch) < 64:
                    batch.append(self.waiting.get_nowait())
            db.execute("BEGIN IMMEDIATE")
            answers = [(future, do(db, call)) for call, future in batch]
            db.execute("COMMIT")
            self._loop.call_soon_threadsafe(self._give, answers)

    @staticmethod
    def _give(answers: list[tuple[asyncio.Future[dict[str, Any]], dict[str, Any]]]) -> None:
        for future, answer in answers:
            future.set_result(answer)


async def _serve(path: str, database: str) -> None:
    loop = asyncio.get_running_loop()
    writer = _Writer(database, loop)
    writer.start()

    async def speak(reader: asyncio.StreamReader, output: asyncio.StreamWriter) -> None:
        while asked := await reader.readline():
            future: asyncio.Future[dict[str, Any]] = loop.create_future()
            writer.waiting.put((json.loads(asked), future))
            output.write(json.dumps(await future).encode() + b"\n")
        output.close()

    server = await asyncio.start_unix_server(speak, path)
    async with server:
        await server.serve_forever()


@contextlib.contextmanager
def reference(folder: Path) -> Iterator[tuple[Path, int]]:
    """Run one in a folder; yields its socket and its process id."""
    path = folder / "reference.sock"
    argv = [sys.executable, "-m", "bench.reference", str(path), str(folder / "reference.db")]
    process = subprocess.Popen(argv, cwd=Path(__file__).parent.parent)
    try:
        until = time.monotonic() + 20
        while not _answers(path):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError("the reference daemon did not start")
            time.sleep(0.002)
        yield path, process.pid
    finally:
        process.kill()
        process.wait()
        for left in folder.glob("reference.*"):
            left.unlink()


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as link, contextlib.suppress(OSError):
        link.connect(str(path))
        link.sendall(b'{"op": "check", "path": ""}\n')
        return bool(link.recv(100))
    return False


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:3]))
