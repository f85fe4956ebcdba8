"""``corral lock``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from corral.cli.help import Grouped
from corral.cli.terminal.keys import from_the_top
from corral.cli.terminal.options import Json, client, session_id
from corral.cli.terminal.output import emit, say, table
from corral.errors import InvalidInput
from corral.models.visible import one_line

app = typer.Typer(cls=Grouped, help="Who may write what.", no_args_is_help=True)
Paths = Annotated[
    list[str], typer.Argument(help="Paths, globs, or logical keys such as 'api:GET /v1/users'.", metavar="PATH")
]
HELD = 4
ANSWER_S = 30.0
"""How long an answer may take beside what one asks to wait for, seconds."""
EXTEND_S = 1800.0


@app.command("list")
def listing(as_json: Json = False) -> None:
    """List all locks."""
    rows = client().listing("/locks")
    if as_json:
        emit(rows)
        return
    for row in rows:
        row["kind"] = ("reserved" if not row["automatic"] else "editing") + ("" if row["exclusive"] else " (shared)")
        row["until"] = _until(row)
    columns = [
        ("PATH", "file_path", 60),
        ("HELD BY", "locked_by", 24),
        ("KIND", "kind", 18),
        ("UNTIL (UTC)", "until", 19),
        ("REASON", "reason", 40),
    ]
    table(rows, columns, empty="Nothing is locked.")


def _until(row: dict[str, Any]) -> str:
    return str(row["expires_at"])[:19].replace("T", " ")


@app.command()
def check(paths: Paths, as_json: Json = False) -> None:
    """Tell whether paths are free; exits with 4 if somebody else holds one."""
    rows = client().request("POST", "/locks/check", {"paths": from_the_top(paths), "session_id": session_id()})
    if as_json:
        emit(rows)
    else:
        for row in rows:
            for found in row["conflicts"]:
                held = f"{found['holder']} until {_until(found)} UTC"
                say(
                    one_line(
                        f"{row['file_path']}: held by {held}" + (f" ({found['reason']})" if found["reason"] else "")
                    )
                )
            if not row["locked"]:
                say(f"{row['file_path']}: free")
    if any(row["locked"] for row in rows):
        raise typer.Exit(HELD)


@app.command()
def acquire(
    paths: Paths,
    ttl: Annotated[
        float | None, typer.Option("--ttl", help="Until it expires (default: locks.ttl_s).", metavar="SECONDS")
    ] = None,
    shared: Annotated[bool, typer.Option("--shared", help="Others may share it too.")] = False,
    reason: Annotated[str | None, typer.Option("--reason", help="What for; shown to others.", metavar="TEXT")] = None,
    wait: Annotated[
        float, typer.Option("--wait", help="Wait for all of it, in turn, at most so long.", min=0, metavar="SECONDS")
    ] = 0.0,
    each: Annotated[bool, typer.Option("--each", help="Take what is free and tell about the rest.")] = False,
    as_json: Json = False,
) -> None:
    """Reserve paths, all or none, for this session (or for you); exits with 4 if somebody else holds one."""
    body = {
        "paths": from_the_top(paths),
        "ttl_s": ttl,
        "exclusive": not shared,
        "reason": reason,
        "session_id": session_id(),
        **({"wait_s": wait} if wait else {}),
        **({"each": True} if each else {}),
    }
    answer = client().request("POST", "/locks/acquire", body, timeout_s=ANSWER_S + wait)
    if as_json:
        emit(answer)
    else:
        for row in answer["locks"]:
            say(one_line(f"{row['file_path']}: reserved by {row['locked_by']} until {_until(row)} UTC"))
        for found in answer.get("conflicts", ()):
            say(one_line(f"{found['requested']}: held by {found['holder']} until {_until(found)} UTC"))
    if not answer["success"]:
        raise typer.Exit(HELD)


@app.command()
def renew(
    paths: Annotated[list[str] | None, typer.Argument(help="What to keep longer.", metavar="PATH")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that is reserved.")] = False,
    extend: Annotated[float, typer.Option("--extend", help="So much longer than now.", metavar="SECONDS")] = EXTEND_S,
    as_json: Json = False,
) -> None:
    """Let your own reservations last longer, all or none."""
    if bool(paths) == everything:
        raise InvalidInput("Say what to renew.", remedy="Name paths, or say --all; not both.")
    body = {"paths": from_the_top(paths or []), "extend_s": extend, "session_id": session_id()}
    answer = client().request("POST", "/locks/renew", body)
    if as_json:
        emit(answer)
        return
    for row in answer["locks"]:
        say(one_line(f"{row['file_path']}: reserved until {_until(row)} UTC"))
    if not answer["locks"]:
        say("Nothing is reserved.")


@app.command("force-release")
def force_release(
    paths: Paths,
    note: Annotated[str, typer.Option("--note", help="Why, for the former holder.", metavar="TEXT")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="You are certain: take it from a holder at work too.")] = False,
    as_json: Json = False,
) -> None:
    """Take locks from somebody who is gone; refused as long as he shows a sign of life."""
    body = {"paths": from_the_top(paths), "note": note, "session_id": session_id(), "certain": yes}
    answer = client().request("POST", "/locks/force-release", body, timeout_s=ANSWER_S * 4)
    if as_json:
        emit(answer)
        return
    for row in answer["released"]:
        say(one_line(f"{row['file_path']}: taken from {row['locked_by']} ({'; '.join(row['stale_reasons'])})"))
    if not answer["released"]:
        say("Nobody else holds that.")


@app.command()
def release(
    paths: Annotated[list[str] | None, typer.Argument(help="What to give up.", metavar="PATH")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Everything this session holds.")] = False,
    as_json: Json = False,
) -> None:
    """Give up your own locks."""
    if bool(paths) == everything:
        raise InvalidInput("Say what to release.", remedy="Name paths, or say --all; not both.")
    answer = client().request(
        "POST", "/locks/release", {"paths": from_the_top(paths or []), "session_id": session_id()}
    )
    if as_json:
        emit(answer)
        return
    say("released: " + ", ".join(answer["released"]) if answer["released"] else "Nothing of that was yours.")
