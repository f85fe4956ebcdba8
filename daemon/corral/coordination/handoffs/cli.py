"""``corral handoff``."""

from __future__ import annotations

import sys
from typing import Annotated, Any

from corral.client.connection import segment
from corral.core.visible import one_line
from corral.faces.cli.parsing import Group, Option
from corral.faces.cli.terminal.options import argument, client, option, session_id
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


def _items(what: str) -> Any:
    return Option(help=f"{what}; repeatable.", metavar="TEXT")


@app.command("list", prints="coordination.handoffs.api.Handoff[]")
def listing(
    agent: Annotated[str | None, option("--agent", "Only handoffs of this agent.", "NAME", of="session")] = None,
    limit: Annotated[int, Option("--limit", help="Maximum number of rows.", min=1, max=100)] = 20,
) -> None:
    """List handoffs, newest first."""
    rows = client().request("GET", "/handoffs", query={"agent_name": agent, "limit": limit})["handoffs"]
    columns: list[Column] = [
        ("ID", lambda row: row["handoff_id"][:8], 8),
        ("WHEN (UTC)", lambda row: moment(row["created_at"]), 19),
        ("OF", "agent_name", 24),
        ("BY", lambda row: "Corral" if row["automatic"] else "itself", 6),
        ("SUMMARY", "summary", 80),
    ]
    empty = "No handoffs. Corral writes one when a session that changed something ends."
    table(rows, columns, empty=empty)


@app.command(prints="coordination.handoffs.api.Handoff")
def show(handoff_id: Annotated[str, argument("A handoff's id, or its first characters.", "ID", of="handoff")]) -> None:
    """Show a handoff."""
    row = client().request("GET", f"/handoffs/{segment(handoff_id)}")
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


@app.command(prints="coordination.handoffs.api.Written")
def write(
    summary: Annotated[str, argument("State of the work; '-' reads it from standard input.", "TEXT")],
    done: Annotated[list[str] | None, _items("Completed work")] = None,
    doing: Annotated[list[str] | None, _items("Work in progress")] = None,
    decided: Annotated[list[str] | None, _items("A decision and its reason")] = None,
    next_step: Annotated[list[str] | None, Option("--next", help="The next step; repeatable.")] = None,
    file: Annotated[list[str] | None, _items("A relevant file")] = None,
) -> None:
    """Write a handoff for the next session."""
    body = {
        "summary": sys.stdin.read() if summary == "-" else summary,
        "completed_work": done,
        "in_progress": doing,
        "decisions": decided,
        "next_steps": next_step,
        "relevant_files": file,
        "session_id": session_id(),
    }
    answer = client().request("POST", "/handoffs", body)
    report(answer, f"{answer['handoff_id']}  written")
