"""``corral lock``."""

from __future__ import annotations

from typing import Annotated, Any

from corral.core.errors import InvalidInput
from corral.core.visible import one_line
from corral.faces.cli.asking import Asks, Field, Request
from corral.faces.cli.parsing import Exit, Group, Option
from corral.faces.cli.terminal.options import argument, client, to_lock_keys
from corral.faces.cli.terminal.output import echo, moment, printed, report
from corral.faces.cli.terminal.progress import progress
from corral.faces.cli.terminal.tables import Column, table

app = Group("Locks: who holds which files.")
Paths = Annotated[list[str], argument("Paths, globs, or logical keys such as 'api:GET /v1/users'.", "PATH", of="path")]
HELD = 4
ANSWER_S = 30.0
"""Time for an answer beyond the requested wait, seconds."""


@app.command("list", prints="coordination.locks.api.Lock[]")
def listing() -> None:
    """List all locks."""
    rows = client().listing("/locks")
    columns: list[Column] = [
        ("PATH", "file_path", 60),
        ("HELD BY", "locked_by", 24),
        ("KIND", _kind, 18),
        ("UNTIL (UTC)", _until, 19),
        ("REASON", "reason", 40),
    ]
    table(rows, columns, empty="No locks.")


def _kind(row: dict[str, Any]) -> str:
    return ("editing" if row["automatic"] else "reserved") + ("" if row["exclusive"] else " (shared)")


def _until(row: dict[str, Any]) -> str:
    return moment(str(row["expires_at"]))


@app.command(asks=Asks("POST /locks/check", by="session_id"), prints="coordination.locks.api.Checked[]")
def check(request: Request, paths: Paths) -> None:
    """Show who holds paths; exits with 4 if another session holds one."""
    request["paths"] = to_lock_keys(paths)
    rows = request.send()
    if not printed(rows):
        for row in rows:
            for conflict in row["conflicts"]:
                why = f" ({conflict['reason']})" if conflict["reason"] else ""
                echo(one_line(f"{row['file_path']}: held by {conflict['holder']} until {_until(conflict)} UTC{why}"))
            if not row["locked"]:
                echo(f"{row['file_path']}: free")
    if any(row["locked"] for row in rows):
        raise Exit(HELD)


@app.command(
    asks=Asks(
        "POST /locks/acquire",
        Field("ttl_s", "--ttl", "SECONDS"),
        Field("exclusive", "--shared", off=True, help="Let other sessions share the lock."),
        Field("reason", "--reason", "TEXT"),
        Field("wait_s", "--wait", "SECONDS"),
        Field("each", "--each"),
        by="session_id",
    ),
    prints="coordination.locks.api.Acquired",
)
def acquire(request: Request, paths: Paths) -> None:
    """Lock paths, all or none, for this session or for you; exits with 4 if another session holds one."""
    request["paths"], wait_s = to_lock_keys(paths), request["wait_s"]
    with progress("waiting in the queue for the lock" if wait_s else None):
        answer = request.send(timeout_s=ANSWER_S + wait_s)
    if not printed(answer):
        for row in answer["locks"]:
            echo(one_line(f"{row['file_path']}: locked by {row['locked_by']} until {_until(row)} UTC"))
        for conflict in answer.get("conflicts", ()):
            echo(one_line(f"{conflict['requested']}: held by {conflict['holder']} until {_until(conflict)} UTC"))
    if not answer["success"]:
        raise Exit(HELD)


@app.command(
    asks=Asks("POST /locks/renew", Field("extend_s", "--extend", "SECONDS"), by="session_id"),
    prints="coordination.locks.api.Renewed",
)
def renew(
    request: Request,
    paths: Annotated[list[str] | None, argument("Paths to renew.", "PATH", of="lock")] = None,
    everything: Annotated[bool, Option("--all", help="Renew all your locks.")] = False,
) -> None:
    """Extend your own locks, all or none."""
    request["paths"] = _named(paths, everything)
    answer = request.send()
    if printed(answer):
        return
    for row in answer["locks"]:
        echo(one_line(f"{row['file_path']}: locked until {_until(row)} UTC"))
    if not answer["locks"]:
        echo("You hold no locks.")


@app.command(
    "force-release",
    asks=Asks("POST /locks/force-release", Field("note", "--note", "TEXT"), Field("certain", "--yes"), by="session_id"),
    prints="coordination.locks.api.Forced",
)
def force_release(request: Request, paths: Paths) -> None:
    """Release locks of a dead session; refused while its session is alive."""
    request["paths"] = to_lock_keys(paths)
    answer = request.send(timeout_s=ANSWER_S * 4)
    if printed(answer):
        return
    for row in answer["released"]:
        why = "; ".join(row["stale_reasons"])
        echo(one_line(f"{row['file_path']}: released, was held by {row['locked_by']} ({why})"))
    if not answer["released"]:
        echo("Nobody else holds a lock on these paths.")


@app.command(asks=Asks("POST /locks/release", by="session_id"), prints="coordination.locks.api.Released")
def release(
    request: Request,
    paths: Annotated[list[str] | None, argument("Paths to release.", "PATH", of="lock")] = None,
    everything: Annotated[bool, Option("--all", help="Release all locks of this session.")] = False,
) -> None:
    """Release your own locks."""
    request["paths"] = _named(paths, everything)
    answer = request.send()
    released = ", ".join(answer["released"])
    report(answer, f"released: {released}" if released else "You hold no lock on these paths.")


def _named(paths: list[str] | None, everything: bool) -> list[str]:
    """The caller's own locks that a request is about; no paths: all of them."""
    if bool(paths) == everything:
        raise InvalidInput("No locks named.", remedy="Name paths, or use --all, but not both.")
    return to_lock_keys(paths or [])
