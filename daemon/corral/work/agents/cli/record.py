"""``corral agent stats``: the results of agents' work. And ``corral task feedback``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from corral.core.visible import one_line
from corral.faces.cli.asking import Field, Request
from corral.faces.cli.parsing import Group
from corral.faces.cli.terminal.options import argument, span
from corral.faces.cli.terminal.output import echo, paint, printed, report
from corral.faces.cli.terminal.tables import Column, table

app = Group()
feedback_app = Group()


def _rate(rate: Mapping[str, Any]) -> str:
    """A share with its interval: ``75 % (41-93)``."""
    if rate["rate"] is None:
        return ""
    return f"{100 * rate['rate']:.0f} % ({100 * rate['low']:.0f}-{100 * rate['high']:.0f})"


def _median(median: Mapping[str, Any], digits: int) -> str:
    return "" if median["median"] is None else f"{median['median']:.{digits}f} (n={median['of']})"


def _rating(row: Mapping[str, Any]) -> str:
    ratings = row["feedback"]
    return "" if ratings["mean"] is None else f"{ratings['mean']:.1f} (n={ratings['ratings']})"


_COLUMNS: list[Column] = [
    ("TASKS", "tasks", 6),
    ("TRIES", "attempts", 6),
    ("SUCCESS", lambda row: _rate(row["success"]), 16),
    ("LANDED AT ONCE", lambda row: _rate(row["first_try_landing"]), 16),
    ("MEDIAN S", lambda row: _median(row["duration_s"], 1), 14),
    ("TOKENS EACH", lambda row: _median(row["tokens_each"], 0), 16),
    ("USD", lambda row: f"{row['cost_usd']:.2f}", 9),
    ("EVICTED", "evictions", 7),
    ("CONFLICTS", "conflicts", 9),
    ("RATING", _rating, 11),
]


@app.ask(
    "GET /agent-record",
    Field("agent", "NAME", of="agent"),
    Field("since_s", "--since", "SPAN", also=", such as 12h, 7d or 4w (default: all)", read=span, show_default=False),
    Field("by", "--by", "GROUP"),
)
def stats(request: Request) -> None:
    """Show what the work of agents came to: success, landing, time, tokens, cost, feedback.

    Each rate stands with the interval that holds the true one in 19 of 20 cases, each median with how many attempts it is of.
    """
    rows = request.send()
    if printed(rows):
        return
    columns: list[Column] = [("AGENT", lambda row: row["agent"] if row["group"] is None else "", 24)]
    if by := request["by"]:
        columns.append((f"BY {by.upper()}", lambda row: row["group"] or "all", 20))
    table(rows, [*columns, *_COLUMNS], empty="No agent has worked on a task in that time.")
    for row in rows:
        if row["group"] is None:
            for comment in row["feedback"]["comments"]:
                echo(paint(one_line(f"{row['agent']}: {comment}"), "dim"))


@feedback_app.ask("POST /tasks/{task_id}/feedback", Field("rating", "--rating"), Field("comment", "--comment", "TEXT"))
def feedback(
    request: Request,
    task_id: Annotated[str, argument("A task's number or id, or its first four or more characters.", "ID", of="task")],
) -> None:
    """Say what you think of a task's work; it counts for the agent that did it. The last word replaces those before."""
    answer = request.send(task_id=task_id)
    whose = f"the agent {one_line(answer['agent'])}" if answer["agent"] else "no agent: a command, or a session, did it"
    report(answer, f"{answer['task_id'][:8]}  noted, for {whose}")
