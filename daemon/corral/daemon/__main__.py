"""``python -m corral.daemon --project ROOT``: start the daemon of one project and leave when it is ready.

Nothing heavy is imported before this process has the lock: of twenty starters nineteen only wait for the winner and exit.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from contextlib import suppress
from pathlib import Path

from corral.client.connection import start_log
from corral.config.links import make_own_folder
from corral.config.paths import Project, find_project
from corral.core.errors import Conflict, CorralError, DaemonUnreachable
from corral.core.log_files import open_log, shorten
from corral.core.volumes import met_the_end, no_room
from corral.daemon.instance import Instance, claim
from corral.runners import tags

GARBAGE = 10_000
"""New objects between two collections of cyclic garbage, of which a request leaves hardly any."""

NOT_HERE = ("rich", "watchfiles")
"""Packages that a library imports where it finds them, to colour a terminal or to reload code: 5 MB, and a tenth of the start."""

HEAPS = 2
"""Heaps of the C library that all threads share: of sixteen, each would keep what was once needed of it (6 MB)."""
_M_ARENA_MAX = -8


def main() -> int:
    """Start a daemon (or find the one that runs), and report."""
    parser = argparse.ArgumentParser(prog="corral.daemon")
    parser.add_argument("--project", type=Path, required=True)
    parser.add_argument("--foreground", action="store_true")
    parser.add_argument("--adopt", type=Path, metavar="DATABASE")
    options = parser.parse_args()
    tags.shed()  # a worker may start a daemon, which does not end with it
    try:
        project = find_project(options.project)
        if options.foreground:
            _write_to_log(project)
        instance = claim(project)
        if options.adopt is not None:
            print(json.dumps(_adopt(instance, options.adopt)), flush=True)
            return 0
    except CorralError as error:
        print(json.dumps(error.to_wire()), flush=True)
        return 1
    if instance is None:
        return 0
    if options.foreground:
        return _serve(instance, None)
    return _detach(instance)


def _write_to_log(project: Project) -> None:
    """Write to the log of starts; a service manager that opened it would start nothing where no log can be written."""
    with suppress(OSError):
        make_own_folder(project.logs_dir, project.root)
        log = open_log(start_log(project))
        for stream in (1, 2):
            os.dup2(log, stream)
        os.close(log)


def _adopt(instance: Instance | None, source: Path) -> dict[str, str | None]:
    """Take over a database while no daemon runs, under its lock; returns what ``corral daemon adopt`` prints.

    Raises:
        Conflict: A daemon runs.
        CorralError: It cannot be taken over.
    """
    if instance is None:
        raise Conflict(
            "The daemon is running.",
            cause="A database is taken over while no daemon has one open.",
            remedy="`corral daemon stop`, then again.",
        )
    from corral.core.clock import now
    from corral.daemon.binding import adopt
    from corral.git.process.command import open_repository

    try:
        before = adopt(instance.project, open_repository(instance.project.common_dir), source, now())
    finally:
        instance.release()
    return {"adopted": str(source), "replaced": str(before) if before else None}


def _detach(instance: Instance) -> int:
    """Fork the daemon; the parent lives until the child reports ``ready`` or its error."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(reading)
        os._exit(_serve(instance, writing))
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        message = pipe.read()
    if message == b"ready":
        return 0
    if not message:
        error = DaemonUnreachable("The daemon died while it started.", cause="It was killed, or it crashed.")
        message = json.dumps(error.to_wire()).encode()
    sys.stdout.buffer.write(message + b"\n")
    sys.stdout.flush()
    return 1


def _serve(instance: Instance, pipe: int | None) -> int:
    def report(message: bytes) -> None:
        nonlocal pipe
        if pipe is not None:
            with suppress(BrokenPipeError):  # the command that started the daemon was killed meanwhile
                os.write(pipe, message)
            os.close(pipe)
            pipe = None

    shorten(instance.project.logs_dir / "hook.log")  # hooks only append; only the holder of the lock shortens it
    gc.disable()  # imported modules stay: collecting garbage among them would take a fifth of the start
    import ctypes

    with suppress(AttributeError):  # another C library than glibc
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, HEAPS)
    for name in NOT_HERE:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type] # Python's way to say: there is none
    try:
        from corral.daemon.life import serve  # heavy: only the winner of the lock pays for it

        for name in NOT_HERE:  # FastMCP, which comes with the first MCP client, needs one of them
            if sys.modules[name] is None:
                del sys.modules[name]
        gc.freeze()
        gc.set_threshold(GARBAGE)
        gc.enable()
        if serve(instance, ready=lambda: report(b"ready")):
            # Another command may start it meanwhile too: the lock decides, as for any two starters.
            os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    except CorralError as error:
        if pipe is None:  # in the foreground the reason goes where the output goes
            print(json.dumps(error.to_wire()), flush=True)
        report(json.dumps(error.to_wire()).encode())
        return 1
    except Exception as error:  # noqa: BLE001 - the edge: the caller gets the error, the log the traceback
        import traceback

        traceback.print_exc()
        wrapped: CorralError = DaemonUnreachable(
            "The daemon could not start.", cause=f"{type(error).__name__}: {error}"
        )
        if met_the_end(error):
            wrapped = no_room("The daemon could not start.")
        report(json.dumps(wrapped.to_wire()).encode())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
