"""``corral agent stats``: the results of agents' work. And ``corral task feedback``."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any

from corral.client.connection import segment
from corral.core.errors import InvalidInput
from corral.core.instants import span_s
from corral.core.visible import one_line
from corral.faces.cli.parsing import Group, Option
from corral.faces.cli.terminal.options import argument, client, option
from corral.faces.cli.terminal.output import echo, paint, printed, report
from corral.faces.cli.terminal.tables import Column, table

app = Group()
feedback_app = Group()


class By(str, Enum):
    """The groups to tell apart."""

    TASK_TYPE = "task_type"
    MODEL = "model"
    VERSION = "version"


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


@app.command(prints="work.agents.api.AgentRecord[]")
def stats(
    name: Annotated[str | None, argument("An agent's name (default: all).", "NAME", of="agent")] = None,
    since: Annotated[
        str | None, option("--since", "How far back, such as 12h, 7d or 4w (default: all).", "SPAN")
    ] = None,
    by: Annotated[By | None, option("--by", "Also tell these apart.", "GROUP")] = None,
) -> None:
    """Show what the work of agents came to: success, landing, time, tokens, cost, feedback.

    Each rate stands with the interval that holds the true one in 19 of 20 cases, each median with how many attempts it is of.
    """
    query: dict[str, Any] = {"agent": name, "by": by.value if by else None}
    if since is not None:
        try:
            query["since_s"] = span_s(since)
        except ValueError as error:
            raise InvalidInput(f"--since {since!r}: {error}.", remedy="Write 90m, 12h, 7d or 4w.") from error
    rows = client().request("GET", "/agent-record", query=query)
    if printed(rows):
        return
    columns: list[Column] = [("AGENT", lambda row: row["agent"] if row["group"] is None else "", 24)]
    if by is not None:
        columns.append((f"BY {by.value.upper()}", lambda row: row["group"] or "all", 20))
    table(rows, [*columns, *_COLUMNS], empty="No agent has worked on a task in that time.")
    for row in rows:
        if row["group"] is None:
            for comment in row["feedback"]["comments"]:
                echo(paint(one_line(f"{row['agent']}: {comment}"), "dim"))


@feedback_app.command(prints="work.tasks.api.Feedback")
def feedback(
    task_id: Annotated[str, argument("A task's number or id, or its first four or more characters.", "ID", of="task")],
    rating: Annotated[int | None, Option("--rating", min=1, max=5, help="1 (useless) to 5 (excellent).")] = None,
    comment: Annotated[str | None, option("--comment", "Praise or complaint.", "TEXT")] = None,
) -> None:
    """Say what you think of a task's work; it counts for the agent that did it. The last word replaces those before."""
    answer = client().request("POST", f"/tasks/{segment(task_id)}/feedback", {"rating": rating, "comment": comment})
    whose = f"the agent {one_line(answer['agent'])}" if answer["agent"] else "no agent: a command, or a session, did it"
    report(answer, f"{answer['task_id'][:8]}  noted, for {whose}")
