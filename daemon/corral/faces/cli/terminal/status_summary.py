"""The implementation of ``corral status``: shell prompts run it, so it loads little."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from corral import __version__
from corral.core.instants import in_words, parse, when_landed
from corral.core.visible import one_line
from corral.faces.cli.terminal.context import client
from corral.faces.cli.terminal.output import echo, paint, printed, state, waiting
from corral.faces.cli.terminal.tables import shortened

CLAIMED = "session"
"""The kind of a running task that no worker executes."""
MOST_LINES = 8
"""Rows of a list; it says how many more there are."""


def show_status() -> int:
    """Ask the daemon for the status and print it."""
    answer = client().request("GET", "/status")
    if not printed(answer):
        show(answer)
    return 0


def show_need(need: dict[str, Any], tell: Callable[[str], None] = echo) -> None:
    """Print an item that needs a person: the reason, and what to type."""
    tell(f"  {paint(one_line(need['what']), 'red')}")
    tell(f"      {one_line(need['remedy'])}")


def show(answer: dict[str, Any]) -> None:
    """Print the status; items that need a person come first."""
    if answer["needs_you"]:
        echo(f"{paint('needs you', 'bold')} {answer['needs_you_number']}")
        for need in answer["needs_you"]:
            show_need(need)
            since = f", since {_age(need['since'], answer)}" if need["since"] else ""
            echo(paint(f"      {need['name']}{since}", "dim"))
    echo(f"{paint('project', 'bold')}   {answer['project']}")
    verified = "" if answer["verified"] else f"  ({state('unverified')}: no landing.verify command is configured)"
    echo(f"{paint('target', 'bold')}    {answer['target']}{verified}")
    if answer["paused"]:
        echo(f"{paint('paused', 'bold')}    since {answer['paused']['since_at']}: nothing is claimed or landed")
    echo(f"{paint('open', 'bold')}      {_counts(answer['open'])}")
    if answer["tasks"]:
        echo(f"{paint('tasks', 'bold')}     {_counts(answer['tasks'])}")
    for row in answer["delayed"]:
        echo(f"  {shortened(one_line(row['title']), 40)}: {one_line(row['delay'])}")
    _running(answer)
    _queue(answer)
    echo(f"{paint('locks', 'bold')}     {answer['locks']}")
    echo(f"{paint('sessions', 'bold')}  {len(answer['sessions']) + answer['sessions_left_out'] or 'none'}")
    for row in answer["sessions"]:
        notes = [waiting(row["waiting_for"])] if row["waiting_for"] else []
        if row["unguarded"]:
            notes.append(paint("unguarded: its edits are not checked", "red"))
        doing = f"  {shortened(one_line(row['current_task']), 60)}" if row["current_task"] else ""
        echo(
            f"  {row['agent_name']:<20} {state(row['status'])}{doing}"
            + ("  [" + "; ".join(notes) + "]" if notes else "")
        )
    if answer["sessions_left_out"]:
        echo(f"  and {answer['sessions_left_out']} more (`corral session list`)")
    echo(f"{paint('used', 'bold')}      {used(answer['resources'])}")
    if answer["daemon"]["version"] != __version__:
        warning_text = (
            f"the daemon is version {answer['daemon']['version']}, this command {__version__}: corral daemon restart"
        )
        echo(paint(warning_text, "yellow"))
    if answer["config_error"]:
        echo(paint(f"configuration not loaded: {answer['config_error']['message']}", "red"))
    for warning in answer["config_warnings"]:
        echo(paint(f"configuration: {warning}", "yellow"))
    if answer["recent"]:
        echo(paint("recent", "bold"))
        for event in answer["recent"][:6]:
            ids = event["task_id"] or event["merge_id"] or event["session_id"] or ""
            title = shortened(one_line(event["title"] or ids[:8]), 60)
            about = f"{event['number']} {title}" if event["number"] is not None else title
            echo(f"  {event['at'][11:19]}  {event['kind']:<22} {about}")


def _age(instant: str, answer: dict[str, Any]) -> str:
    return in_words((parse(answer["composed_at"]) - parse(instant)).total_seconds())


def _running(answer: dict[str, Any]) -> None:
    rows, more = answer["at_work"], answer["at_work_left_out"]
    if rows:
        kinds, agents = Counter(row["kind"] for row in rows), answer["resources"]["agents"]
        claims = kinds.pop(CLAIMED, 0)
        leaders = 0 if more else len(rows) - claims - agents["used"]
        parts = [
            f"{agents['used']} of {agents['allowed']} agents" if kinds or more else "",
            f"{leaders} that lead them" if leaders > 0 else "",
            f"{claims} that sessions claimed" if claims else "",
        ]
        counted = ", ".join(f"{number} {one_line(kind)}" for kind, number in kinds.most_common(MOST_LINES))
        text = ", ".join(filter(None, parts)) + (f": {counted}" if counted else "")
        echo(f"{paint('running', 'bold')}   {text}")
    for row in rows[:MOST_LINES]:
        spent = f"{row['tokens']:,} tokens, ${row['cost_usd']:.2f}, " if row["tokens"] else ""
        step = f"  {shortened(one_line(row['step']), 60)}" if row["step"] else ""
        task = f"{row['number']} {shortened(one_line(row['title']), 40)}"
        echo(f"  {shortened(row['agent'], 20):<20} {task}  [{spent}{in_words(row['age_s'])}]{step}")
    _more(len(rows) + more - MOST_LINES, "corral swarm status")


def _queue(answer: dict[str, Any]) -> None:
    rows, more = answer["queue"], answer["queue_left_out"]
    if rows:
        echo(f"{paint('queue', 'bold')}     {len(rows) + more}")
    for row in rows[:MOST_LINES]:
        why = shortened(one_line(row["waits_for"]), 100)
        if lands := when_landed(row["expected_s"]):
            why += f"; {lands}"
        echo(
            f"  {row['position']}. {shortened(one_line(row['title']), 40)} -> {row['target']}  {state(row['state'])}: {why}"
        )
    _more(len(rows) + more - MOST_LINES, "corral merge list")


def _more(number: int, command: str) -> None:
    if number > 0:
        echo(f"  and {number} more (`{command}`)")


def used(resources: dict[str, Any]) -> str:
    """The resources in one line."""
    memory, tokens, cost = (resources[name] for name in ("memory_mb", "tokens_per_day", "cost_usd_per_day"))
    parts = [f"{memory['used']:,.0f}{_of_limit(memory)} MiB of memory ({resources['free_memory_mb']:,.0f} free)"]
    if resources["free_disk_mb"] is not None:
        parts.append(f"{resources['free_disk_mb'] / 1024:,.1f} GiB of disk free")
    parts.append(f"in 24 h {tokens['used']:,.0f}{_of_limit(tokens)} tokens, ${cost['used']:.2f}{_of_limit(cost)}")
    return "; ".join(parts)


def _of_limit(limit: dict[str, Any]) -> str:
    return "" if limit["allowed"] is None else f" of {limit['allowed']:,.10g}"


def _counts(counts: dict[str, int]) -> str:
    shown = [f"{number} {state(name)}" for name, number in counts.items() if number]
    return ", ".join(shown) or "none"
