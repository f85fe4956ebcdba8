"""A PostgreSQL of the tests' own: a throw-away cluster on a Unix socket, where the programs and the driver are there."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, NullPool, create_engine
from sqlalchemy.exc import OperationalError

from corral.store.migrate import make_schema
from tests.support.programs import MACHINE, find

DEADLINE_S = 30.0
LOCALE = "en_US.UTF-8" if sys.platform == "darwin" else "C.UTF-8"
"""Of the letters; text is compared by its code points, as SQLite does it."""


@contextmanager
def cluster() -> Iterator[Engine]:
    """Start one with a database of Corral's, and remove it in the end."""
    # Short: a socket's name has a limit. The server refuses to be root, and then needs a folder of its own.
    with tempfile.TemporaryDirectory(prefix="corral-pg-", dir="/tmp") as name:
        folder, who = Path(name), _somebody()
        if who:
            os.chown(folder, who["user"], who["group"])
        run: dict[str, Any] = {"cwd": folder, "env": {"PATH": MACHINE, "HOME": name}, **who}
        data = str(folder / "data")
        made = subprocess.run(
            [_program("initdb"), "-D", data, "-U", "corral", "-A", "trust", "-E", "UTF8", "--no-sync",
             "--lc-collate=C", f"--lc-ctype={LOCALE}", "--lc-messages=C"],
            capture_output=True, text=True, **run,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        # Where it can be had: the server does not outlive tests that are killed.
        bound = [setpriv, "--pdeathsig", "QUIT"] if (setpriv := find("setpriv")) else []
        log = folder / "log"
        with log.open("wb") as output:
            server = subprocess.Popen(
                [*bound, _program("postgres"), "-D", data, "-k", name, "-F", "-c", "listen_addresses="],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, **run,
            )  # fmt: skip
        url = URL.create("postgresql+psycopg", username="corral", database="postgres", query={"host": name})
        engine = create_engine(url, poolclass=NullPool)
        try:
            _wait(engine, server, log)
            with engine.begin() as conn:
                make_schema(conn)
            yield engine
        finally:
            engine.dispose()
            server.send_signal(signal.SIGQUIT)
            server.wait(DEADLINE_S)


def _wait(engine: Engine, server: subprocess.Popen[Any], log: Path) -> None:
    until = time.monotonic() + DEADLINE_S
    while True:
        try:
            engine.connect().close()
            return
        except OperationalError:
            assert server.poll() is None and time.monotonic() < until, log.read_text()
            time.sleep(0.02)


def _somebody() -> dict[str, int]:
    """Whom the server runs as where the tests are root."""
    if os.geteuid():
        return {}
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = names.get("postgres") or names["nobody"]
    return {"user": entry.pw_uid, "group": entry.pw_gid}


def _program(name: str) -> str:
    # Debian and its like keep the programs out of the path, a folder for each version.
    beside = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[4]))
    return find(name) or (str(beside[-1]) if beside else "")


def _missing() -> str:
    """What is not here of what it takes; empty if nothing."""
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        return f"PostgreSQL's driver: {error}."
    absent = [name for name in ("initdb", "postgres") if not _program(name)]
    return f"PostgreSQL's {' and '.join(absent)} not found." if absent else ""


MISSING = _missing()
"""Why there can be no server here; empty if there can."""
