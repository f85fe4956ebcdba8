"""``corral session``."""

from __future__ import annotations

from typing import Annotated

import typer

from corral.cli.help import Grouped
from corral.cli.options import Json, client
from corral.cli.output import emit, paint, say, state, table
from corral.client import segment
from corral.models.states import SessionStatus
from corral.models.visible import visible

app = typer.Typer(cls=Grouped, help="Who is at work.", no_args_is_help=True)
_STATES = f"Only these; repeatable. One of: {', '.join(SessionStatus.values())}."


@app.command("list")
def listing(
    status: Annotated[list[SessionStatus] | None, typer.Option("--status", help=_STATES, metavar="STATE")] = None,
    capability: Annotated[
        str | None, typer.Option("--capability", help="Only those that can do this.", metavar="WORD")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the sessions, disconnected ones included."""
    rows = client().request("GET", "/sessions", query={"status": status or [], "capability": capability})
    if as_json:
        emit(rows)
        return
    for row in rows:
        marks = [f"also {', '.join(row['names'])}"] if row["names"] else []
        marks += ["unguarded"] if row["unguarded"] else []
        marks += [f"waits for {row['waiting_for']}"] if row["waiting_for"] else []
        row["notes"] = "; ".join(marks)
        row["seen"] = row["last_heartbeat"][:19].replace("T", " ")
    columns = [
        ("NAME", "agent_name", 24),
        ("STATUS", "status", 12),
        ("TYPE", "agent_type", 12),
        ("TASK", "current_task", 40),
        ("LAST SEEN (UTC)", "seen", 19),
        ("NOTES", "notes", 50),
    ]
    table(rows, columns, empty="No session has been here yet. Start `claude` in this repository.")


@app.command()
def show(
    session: Annotated[str, typer.Argument(help="A session's name, or its id.", metavar="NAME")],
    as_json: Json = False,
) -> None:
    """Show a session, with the commits and merge requests it made."""
    row = client().request("GET", f"/sessions/{segment(session)}")
    if as_json:
        emit(row)
        return
    say(f"{paint(visible(row['agent_name']), 'bold')}  {state(row['status'])}")
    facts = [
        ("id", row["session_id"]),
        ("also", ", ".join(row["names"])),
        ("type", row["agent_type"]),
        ("task", row["current_task"]),
        ("can", ", ".join(row["capabilities"])),
        ("in", " on ".join(part for part in (row["worktree"], row["branch"]) if part)),
        ("ended", row["end_reason"]),
    ]
    for name, value in facts:
        if value:
            say(f"  {name:<8} {visible(str(value))}")
    for commit in row["changesets"]["commits"]:
        say(f"  {'commit':<8} {commit['sha'][:12]} {visible(commit['subject'])}")
    for merge in row["changesets"]["merges"]:
        say(
            f"  {'merge':<8} {merge['merge_id']}  {state(merge['state'])}  {visible(merge['branch'])} → {merge['target']}"
        )


@app.command()
def cleanup(
    threshold: Annotated[
        float, typer.Option("--silent-for", help="Who was silent for so long is given up.", metavar="MINUTES", min=1)
    ] = 15,
    as_json: Json = False,
) -> None:
    """End the sessions that are dead: what they hold comes free."""
    answer = client().request("POST", "/sessions/cleanup", {"stale_threshold_minutes": threshold})
    if as_json:
        emit(answer)
    else:
        say(f"{answer['agents_cleaned']} session(s) ended, {answer['locks_released']} lock(s) came free.")
