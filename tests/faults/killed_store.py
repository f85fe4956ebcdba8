"""A program whose children open the database, write with several threads, and are killed every few milliseconds.

What a child was told is durable it writes into a pipe at once; the pipe outlives it. Run as
``python -m tests.faults.killed_store DATABASE KILLS SEED``; prints ``<kind> <id> <token>`` for every acknowledgement, and
``kills <number>`` last. A kill here costs what a fork costs.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

from corral.config.sections.work import Tasks
from corral.store.engine import log
from corral.store.engine.database import Database
from corral.store.migrate import open_schema
from corral.work.tasks import attempts, scheduling, tasks
from corral.work.tasks.attempts import Ending
from corral.work.tasks.wire import read_submissions

WRITERS = 4
LONGEST_REST_S = 0.02


def write_for_ever(db: Database, pipe: int) -> None:
    """Submit, claim and complete tasks, and say so after each answer."""
    rules = Tasks()
    while True:
        now = datetime.now(timezone.utc)
        (wanted,) = read_submissions([{"title": "t", "command": "true"}])
        made = db.write(lambda conn: tasks.submit(conn, wanted, now, rules))  # noqa: B023 - called before the next turn
        say(pipe, "submitted", made["task_id"], 0)
        row = db.write(
            lambda conn: scheduling.claim(conn, session_id="s", lease_s=60, ageing_s=0, now=now)  # noqa: B023
        )
        if row is None:
            continue
        task_id, token = row["task_id"], row["fencing_token"]
        say(pipe, "claimed", task_id, token)
        db.write(lambda conn: attempts.end(conn, task_id, token, Ending(True), now, rules))  # noqa: B023
        say(pipe, "completed", task_id, token)


def say(pipe: int, kind: str, task_id: str, token: int) -> None:
    """One line, shorter than what a pipe takes whole."""
    os.write(pipe, f"{kind} {task_id} {token}\n".encode())


def live(path: Path, pipe: int) -> None:
    """The child: never comes back."""
    log.CHECKPOINT_EVERY, log.LIMIT = 5, 1 << 18  # so that checkpoints and cuts are killed too
    db = Database(path)
    for _ in range(WRITERS):
        threading.Thread(target=write_for_ever, args=(db, pipe), daemon=True).start()
    signal.pause()


def main() -> None:
    """Fork, kill, collect."""
    path, kills, chance = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
    open_schema(path)
    for _ in range(kills):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                live(path, writing)
            os._exit(1)
        os.close(writing)
        output = bytearray()
        for _ in range(
            chance.choice([0, 0, 1, 4, 12])
        ):  # by progress, not by the clock alone: a loaded machine is slow
            output += os.read(reading, 1 << 16)
        time.sleep(chance.uniform(0, LONGEST_REST_S))  # the moment of death is what varies; nothing waits for it
        os.kill(child, signal.SIGKILL)
        with os.fdopen(reading, "rb") as pipe:
            sys.stdout.write((output + pipe.read()).decode())
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL, "a writer died by itself"
    print(f"kills {kills}", flush=True)


if __name__ == "__main__":
    main()
