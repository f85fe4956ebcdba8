"""The implementation of ``corral status``: shell prompts run it, so it loads no framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from corral import __version__
from corral.cli.terminal.context import client
from corral.cli.terminal.output import echo, emit, paint, state, waiting
from corral.models.visible import one_line


def show_status(*, as_json: bool = False) -> int:
    """Ask the daemon for the status and print it."""
    answer = client().request("GET", "/status")
    if as_json:
        emit(answer)
    else:
        show(answer)
    return 0


def show_need(need: dict[str, Any], tell: Callable[[str], None] = echo) -> None:
    """Print an item that needs a person: the reason, and what to type."""
    tell(f"  {paint(one_line(need['what']), 'red')}")
    tell(f"      {one_line(need['remedy'])}")


def show(answer: dict[str, Any]) -> None:
    """Print the status; items that need a person come first."""
    if answer["needs_you"]:
        echo(paint("needs you", "bold"))
        for need in answer["needs_you"]:
            show_need(need)
    echo(f"{paint('project', 'bold')}   {answer['project']}")
    verified = "" if answer["verified"] else f"  ({state('unverified')}: no landing.verify command is configured)"
    echo(f"{paint('target', 'bold')}    {answer['target']}{verified}")
    if answer["paused"]:
        echo(f"{paint('paused', 'bold')}    since {answer['paused']['since_at']}: nothing is claimed or landed")
    echo(f"{paint('open', 'bold')}      {_counts(answer['open'])}")
    for row in answer["delayed"]:
        echo(f"  {one_line(row['title'])[:40]}: {one_line(row['delay'])}")
    echo(f"{paint('locks', 'bold')}     {answer['locks']}")
    echo(f"{paint('sessions', 'bold')}  {len(answer['sessions']) + answer['sessions_left_out'] or 'none'}")
    for row in answer["sessions"]:
        notes = [waiting(row["waiting_for"])] if row["waiting_for"] else []
        if row["unguarded"]:
            notes.append(paint("unguarded: its edits are not checked", "red"))
        doing = f"  {one_line(row['current_task'])[:60]}" if row["current_task"] else ""
        echo(
            f"  {row['agent_name']:<20} {state(row['status'])}{doing}"
            + ("  [" + "; ".join(notes) + "]" if notes else "")
        )
    if answer["sessions_left_out"]:
        echo(f"  and {answer['sessions_left_out']} more (`corral session list`)")
    if answer["daemon"]["version"] != __version__:
        said = f"the daemon is version {answer['daemon']['version']}, this command {__version__}: corral daemon restart"
        echo(paint(said, "yellow"))
    if answer["config_error"]:
        echo(paint(f"configuration not loaded: {answer['config_error']['message']}", "red"))
    for warning in answer["config_warnings"]:
        echo(paint(f"configuration: {warning}", "yellow"))
    if answer["recent"]:
        echo(paint("recent", "bold"))
        for event in answer["recent"][:6]:
            about = event["task_id"] or event["merge_id"] or event["session_id"] or ""
            echo(f"  {event['at'][11:19]}  {event['kind']:<22} {about[:36]}")


def _counts(counts: dict[str, int]) -> str:
    shown = [f"{number} {state(name)}" for name, number in counts.items() if number]
    return ", ".join(shown) or "none"
