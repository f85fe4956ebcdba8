"""``corral lock``."""

from __future__ import annotations

from typing import Annotated, Any

from corral.core.errors import InvalidInput
from corral.core.visible import one_line
from corral.faces.cli.parsing import Exit, Group, Option
from corral.faces.cli.terminal.options import argument, client, option, session_id, to_lock_keys
from corral.faces.cli.terminal.output import echo, moment, printed, report
from corral.faces.cli.terminal.progress import progress
from corral.faces.cli.terminal.tables import Column, table

app = Group("Locks: who holds which files.")
Paths = Annotated[list[str], argument("Paths, globs, or logical keys such as 'api:GET /v1/users'.", "PATH", of="path")]
HELD = 4
ANSWER_S = 30.0
"""Time for an answer beyond the requested wait, seconds."""
EXTEND_S = 1800.0


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


@app.command(prints="coordination.locks.api.Checked[]")
def check(paths: Paths) -> None:
    """Show who holds paths; exits with 4 if another session holds one."""
    rows = client().request("POST", "/locks/check", {"paths": to_lock_keys(paths), "session_id": session_id()})
    if not printed(rows):
        for row in rows:
            for conflict in row["conflicts"]:
                why = f" ({conflict['reason']})" if conflict["reason"] else ""
                echo(one_line(f"{row['file_path']}: held by {conflict['holder']} until {_until(conflict)} UTC{why}"))
            if not row["locked"]:
                echo(f"{row['file_path']}: free")
    if any(row["locked"] for row in rows):
        raise Exit(HELD)


@app.command(prints="coordination.locks.api.Acquired")
def acquire(
    paths: Paths,
    ttl: Annotated[float | None, option("--ttl", "Lifetime of the lock (default: locks.ttl_s).", "SECONDS")] = None,
    shared: Annotated[bool, Option("--shared", help="Let other sessions share the lock.")] = False,
    reason: Annotated[str | None, option("--reason", "Reason, shown to others.", "TEXT")] = None,
    wait: Annotated[
        float, option("--wait", "Wait in the queue at most this long for all paths.", "SECONDS", min=0)
    ] = 0.0,
    each: Annotated[bool, Option("--each", help="Lock the free paths and list the rest.")] = False,
) -> None:
    """Lock paths, all or none, for this session or for you; exits with 4 if another session holds one."""
    body = {
        "paths": to_lock_keys(paths),
        "ttl_s": ttl,
        "exclusive": not shared,
        "reason": reason,
        "session_id": session_id(),
        **({"wait_s": wait} if wait else {}),
        **({"each": True} if each else {}),
    }
    with progress("waiting in the queue for the lock" if wait else None):
        answer = client().request("POST", "/locks/acquire", body, timeout_s=ANSWER_S + wait)
    if not printed(answer):
        for row in answer["locks"]:
            echo(one_line(f"{row['file_path']}: locked by {row['locked_by']} until {_until(row)} UTC"))
        for conflict in answer.get("conflicts", ()):
            echo(one_line(f"{conflict['requested']}: held by {conflict['holder']} until {_until(conflict)} UTC"))
    if not answer["success"]:
        raise Exit(HELD)


@app.command(prints="coordination.locks.api.Renewed")
def renew(
    paths: Annotated[list[str] | None, argument("Paths to renew.", "PATH", of="lock")] = None,
    everything: Annotated[bool, Option("--all", help="Renew all your locks.")] = False,
    extend: Annotated[float, option("--extend", "Time to add.", "SECONDS")] = EXTEND_S,
) -> None:
    """Extend your own locks, all or none."""
    answer = client().request("POST", "/locks/renew", {**_named(paths, everything), "extend_s": extend})
    if printed(answer):
        return
    for row in answer["locks"]:
        echo(one_line(f"{row['file_path']}: locked until {_until(row)} UTC"))
    if not answer["locks"]:
        echo("You hold no locks.")


@app.command("force-release", prints="coordination.locks.api.Forced")
def force_release(
    paths: Paths,
    note: Annotated[str, option("--note", "Message for the former holder.", "TEXT")] = "",
    yes: Annotated[bool, Option("--yes", help="Also release locks of a live session.")] = False,
) -> None:
    """Release locks of a dead session; refused while its session is alive."""
    body = {"paths": to_lock_keys(paths), "note": note, "session_id": session_id(), "certain": yes}
    answer = client().request("POST", "/locks/force-release", body, timeout_s=ANSWER_S * 4)
    if printed(answer):
        return
    for row in answer["released"]:
        why = "; ".join(row["stale_reasons"])
        echo(one_line(f"{row['file_path']}: released, was held by {row['locked_by']} ({why})"))
    if not answer["released"]:
        echo("Nobody else holds a lock on these paths.")


@app.command(prints="coordination.locks.api.Released")
def release(
    paths: Annotated[list[str] | None, argument("Paths to release.", "PATH", of="lock")] = None,
    everything: Annotated[bool, Option("--all", help="Release all locks of this session.")] = False,
) -> None:
    """Release your own locks."""
    answer = client().request("POST", "/locks/release", _named(paths, everything))
    released = ", ".join(answer["released"])
    report(answer, f"released: {released}" if released else "You hold no lock on these paths.")


def _named(paths: list[str] | None, everything: bool) -> dict[str, Any]:
    """The caller's own locks that a request is about; no paths: all of them."""
    if bool(paths) == everything:
        raise InvalidInput("No locks named.", remedy="Name paths, or use --all, but not both.")
    return {"paths": to_lock_keys(paths or []), "session_id": session_id()}
