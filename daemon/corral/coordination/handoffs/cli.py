"""``corral handoff``."""

from __future__ import annotations

import sys
from typing import Annotated

from corral.core.visible import one_line
from corral.faces.cli.asking import Field, Request
from corral.faces.cli.parsing import Group
from corral.faces.cli.terminal.options import argument
from corral.faces.cli.terminal.output import echo, fact, moment, paint, printed, report
from corral.faces.cli.terminal.tables import Column, table

app = Group("Handoffs: notes that a session leaves for the next one.")
_PARTS = (
    ("done", "completed_work"),
    ("doing", "in_progress"),
    ("decided", "decisions"),
    ("next", "next_steps"),
    ("files", "relevant_files"),
)


@app.ask(
    "GET /handoffs",
    Field("agent_name", "--agent", "NAME", of="session"),
    Field("limit", "--limit"),
    name="list",
    prints="coordination.handoffs.api.Handoff[]",
)
def listing(request: Request) -> None:
    """List handoffs, newest first."""
    rows = request.send()["handoffs"]
    columns: list[Column] = [
        ("ID", lambda row: row["handoff_id"][:8], 8),
        ("WHEN (UTC)", lambda row: moment(row["created_at"]), 19),
        ("OF", "agent_name", 24),
        ("BY", lambda row: "Corral" if row["automatic"] else "itself", 6),
        ("SUMMARY", "summary", 80),
    ]
    empty = "No handoffs. Corral writes one when a session that changed something ends."
    table(rows, columns, empty=empty)


@app.ask("GET /handoffs/{handoff_id}")
def show(
    request: Request,
    handoff_id: Annotated[str, argument("A handoff's id, or its first characters.", "ID", of="handoff")],
) -> None:
    """Show a handoff."""
    row = request.send(handoff_id=handoff_id)
    if printed(row):
        return
    by = ", written by Corral when the session ended" if row["automatic"] else ""
    echo(f"{paint(one_line(row['agent_name']), 'bold')}  {moment(row['created_at'])} UTC{by}")
    where = " on ".join(part for part in (row["worktree"], row["branch"]) if part)
    if where:
        echo(f"  {'in':<8} {one_line(where)}")
    fact("", row["summary"], 0)
    for label, name in _PARTS:
        for item in row[name]:
            echo(f"  {label:<8} {one_line(item)}")


@app.ask(
    "POST /handoffs",
    Field("completed_work", "--done", "TEXT"),
    Field("in_progress", "--doing", "TEXT"),
    Field("decisions", "--decided", "TEXT"),
    Field("next_steps", "--next", "TEXT"),
    Field("relevant_files", "--file", "TEXT"),
    by="session_id",
)
def write(
    request: Request, summary: Annotated[str, argument("State of the work; '-' reads it from standard input.", "TEXT")]
) -> None:
    """Write a handoff for the next session."""
    request["summary"] = sys.stdin.read() if summary == "-" else summary
    answer = request.send()
    report(answer, f"{answer['handoff_id']}  written")
