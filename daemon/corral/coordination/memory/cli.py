"""``corral memory``."""

from __future__ import annotations

from typing import Annotated, Any

from corral.faces.cli.parsing import Group, Option
from corral.faces.cli.terminal.options import argument, client, json_object, option, session_id
from corral.faces.cli.terminal.output import report
from corral.faces.cli.terminal.tables import Column, table

app = Group("Memory: facts that sessions recorded for later ones.")
Tags = Annotated[list[str] | None, option("--tag", "A tag; repeatable.", "WORD")]
Type = Annotated[str | None, option("--type", "Only this kind, such as discovery or error.", "WORD")]
Limit = Annotated[int, Option("--limit", help="Maximum number of rows.", min=1, max=100)]


@app.command(prints="coordination.memory.api.Remembered")
def add(
    summary: Annotated[str, argument("The fact, in one sentence.", "TEXT")],
    kind: Annotated[str, option("--type", "Kind of memory.", "WORD")] = "discovery",
    outcome: Annotated[str | None, option("--outcome", "The outcome.", "TEXT")] = None,
    lesson: Annotated[list[str] | None, option("--lesson", "Advice for next time; repeatable.", "TEXT")] = None,
    tag: Tags = None,
    details: Annotated[str | None, option("--details", "Further data: a JSON object.", "JSON")] = None,
) -> None:
    """Record a fact for later sessions."""
    body = {
        "summary": summary,
        "event_type": kind,
        "outcome": outcome,
        "lessons": lesson or [],
        "tags": tag or [],
        "details": json_object("--details", details),
        "session_id": session_id(),
    }
    answer = client().request("POST", "/memory", body)
    report(answer, f"{answer['memory_id']}  {answer['action']}")


@app.command(prints="coordination.memory.api.Memory[]")
def search(
    query: Annotated[str, argument("Words to search for.", "WORDS")],
    tag: Tags = None,
    kind: Type = None,
    limit: Limit = 10,
    min_relevance: Annotated[float, Option("--min-relevance", help="Minimum relevance, 0 to 1.", min=0, max=1)] = 0,
) -> None:
    """Search the memories, most relevant first."""
    _show({"query": query, "tag": tag, "event_type": kind, "limit": limit, "min_relevance": min_relevance})


@app.command("list", prints="coordination.memory.api.Memory[]")
def listing(tag: Tags = None, kind: Type = None, limit: Limit = 20) -> None:
    """List the memories, newest first."""
    _show({"tag": tag, "event_type": kind, "limit": limit})


def _show(query: dict[str, Any]) -> None:
    rows = client().request("GET", "/memory", query=query)["memories"]
    columns: list[Column] = [
        ("WHEN", lambda row: row["seen_at"][:10], 10),
        ("BY", "agent_name", 20),
        ("TYPE", "event_type", 12),
        ("SUMMARY", "summary", 80),
        ("LESSONS", lambda row: "; ".join(row["lessons"]), 60),
        ("TAGS", lambda row: ", ".join(row["tags"]), 30),
    ]
    table(rows, columns, empty="No matching memory. `corral memory add` records one.")
