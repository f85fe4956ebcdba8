"""``corral memory``."""

from __future__ import annotations

from corral.faces.cli.asking import Field, Request
from corral.faces.cli.parsing import Group
from corral.faces.cli.terminal.output import report
from corral.faces.cli.terminal.tables import Column, table

app = Group("Memory: facts that sessions recorded for later ones.")
_FILTERS = (Field("tag", "--tag", "WORD"), Field("event_type", "--type", "WORD"))


@app.ask(
    "POST /memory",
    Field("summary", "TEXT"),
    Field("event_type", "--type", "WORD"),
    Field("outcome", "--outcome", "TEXT"),
    Field("lessons", "--lesson", "TEXT"),
    Field("tags", "--tag", "WORD"),
    Field("details", "--details", "JSON"),
    by="session_id",
)
def add(request: Request) -> None:
    """Record a fact for later sessions."""
    answer = request.send()
    report(answer, f"{answer['memory_id']}  {answer['action']}")


@app.ask(
    "GET /memory",
    Field("query", "WORDS", required=True),
    *_FILTERS,
    Field("limit", "--limit"),
    Field("min_relevance", "--min-relevance"),
    prints="coordination.memory.api.Memory[]",
)
def search(request: Request) -> None:
    """Search the memories, most relevant first."""
    _show(request)


@app.ask(
    "GET /memory",
    *_FILTERS,
    Field("limit", "--limit", default=20),
    name="list",
    prints="coordination.memory.api.Memory[]",
)
def listing(request: Request) -> None:
    """List the memories, newest first."""
    _show(request)


def _show(request: Request) -> None:
    rows = request.send()["memories"]
    columns: list[Column] = [
        ("WHEN", lambda row: row["seen_at"][:10], 10),
        ("BY", "agent_name", 20),
        ("TYPE", "event_type", 12),
        ("SUMMARY", "summary", 80),
        ("LESSONS", lambda row: "; ".join(row["lessons"]), 60),
        ("TAGS", lambda row: ", ".join(row["tags"]), 30),
    ]
    table(rows, columns, empty="No matching memory. `corral memory add` records one.")
