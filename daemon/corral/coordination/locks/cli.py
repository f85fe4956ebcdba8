"""``corral lock``."""

from __future__ import annotations

from typing import Annotated, Any

from corral.core.errors import InvalidInput
from corral.core.visible import one_line
from corral.faces.cli.asking import Field, Request
from corral.faces.cli.parsing import Exit, Group, Option
from corral.faces.cli.terminal.options import to_lock_keys
from corral.faces.cli.terminal.output import echo, moment, printed, report
from corral.faces.cli.terminal.progress import progress
from corral.faces.cli.terminal.tables import Column, table

app = Group("Locks: who holds which files.")
_PATHS = Field("paths", "PATH", of="path", read=to_lock_keys, required=True)
_OWN = Field("paths", "PATH", of="lock", read=to_lock_keys)
HELD = 4
ANSWER_S = 30.0
"""Time for an answer beyond the requested wait, seconds."""


@app.ask("GET /locks", name="list")
def listing(request: Request) -> None:
    """List all locks."""
    rows = request.listing()
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


@app.ask("POST /locks/check", _PATHS, by="session_id")
def check(request: Request) -> None:
    """Show who holds paths; exits with 4 if another session holds one."""
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


@app.ask(
    "POST /locks/acquire",
    _PATHS,
    Field("ttl_s", "--ttl", "SECONDS"),
    Field("exclusive", "--shared", off="Let other sessions share the lock."),
    Field("reason", "--reason", "TEXT"),
    Field("wait_s", "--wait", "SECONDS"),
    Field("each", "--each"),
    by="session_id",
)
def acquire(request: Request) -> None:
    """Lock paths, all or none, for this session or for you; exits with 4 if another session holds one."""
    wait_s = request["wait_s"]
    with progress("waiting in the queue for the lock" if wait_s else None):
        answer = request.send(timeout_s=ANSWER_S + wait_s)
    if not printed(answer):
        for row in answer["locks"]:
            echo(one_line(f"{row['file_path']}: locked by {row['locked_by']} until {_until(row)} UTC"))
        for conflict in answer.get("conflicts", ()):
            echo(one_line(f"{conflict['requested']}: held by {conflict['holder']} until {_until(conflict)} UTC"))
    if not answer["success"]:
        raise Exit(HELD)


@app.ask("POST /locks/renew", _OWN, Field("extend_s", "--extend", "SECONDS"), by="session_id")
def renew(request: Request, everything: Annotated[bool, Option("--all", help="Renew all your locks.")] = False) -> None:
    """Extend your own locks, all or none."""
    _require_names(request, everything)
    answer = request.send()
    if printed(answer):
        return
    for row in answer["locks"]:
        echo(one_line(f"{row['file_path']}: locked until {_until(row)} UTC"))
    if not answer["locks"]:
        echo("You hold no locks.")


@app.ask(
    "POST /locks/force-release",
    _PATHS,
    Field("note", "--note", "TEXT"),
    Field("certain", "--yes"),
    by="session_id",
    name="force-release",
)
def force_release(request: Request) -> None:
    """Release locks of a dead session; refused while its session is alive."""
    answer = request.send(timeout_s=ANSWER_S * 4)
    if printed(answer):
        return
    for row in answer["released"]:
        why = "; ".join(row["stale_reasons"])
        echo(one_line(f"{row['file_path']}: released, was held by {row['locked_by']} ({why})"))
    if not answer["released"]:
        echo("Nobody else holds a lock on these paths.")


@app.ask("POST /locks/release", _OWN, by="session_id")
def release(
    request: Request, everything: Annotated[bool, Option("--all", help="Release all locks of this session.")] = False
) -> None:
    """Release your own locks."""
    _require_names(request, everything)
    answer = request.send()
    released = ", ".join(answer["released"])
    report(answer, f"released: {released}" if released else "You hold no lock on these paths.")


def _require_names(request: Request, everything: bool) -> None:
    """Refuse a request that names locks and all of them, or neither."""
    if bool(request["paths"]) == everything:
        raise InvalidInput("No locks named.", remedy="Name paths, or use --all, but not both.")
