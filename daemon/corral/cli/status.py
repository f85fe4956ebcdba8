"""``corral status``: what is going on, at a glance."""

from __future__ import annotations

from typing import Any

import typer

from corral.cli.options import Json, client
from corral.cli.output import emit, paint, say, state
from corral.models.visible import visible


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("status")(status)


def status(as_json: Json = False) -> None:
    """Show tasks, merges, sessions and what happened last."""
    answer = client().request("GET", "/status")
    if as_json:
        emit(answer)
        return
    show(answer)


def show(answer: dict[str, Any]) -> None:
    """Print a status for people."""
    say(f"{paint('project', 'bold')}   {answer['project']}")
    verified = "" if answer["verified"] else f"  ({state('unverified')}: no landing.verify command is configured)"
    say(f"{paint('target', 'bold')}    {answer['target']}{verified}")
    say(f"{paint('tasks', 'bold')}     {_counts(answer['tasks'])}")
    say(f"{paint('merges', 'bold')}    {_counts(answer['merges'])}")
    say(f"{paint('locks', 'bold')}     {answer['locks']}")
    say(f"{paint('sessions', 'bold')}  {len(answer['sessions']) or 'none'}")
    for row in answer["sessions"]:
        notes = [f"waits for: {row['waiting_for']}"] if row["waiting_for"] else []
        if row["unguarded"]:
            notes.append(paint("unguarded: its edits arrive unchecked", "red"))
        doing = f"  {visible(row['current_task'])[:60]}" if row["current_task"] else ""
        say(
            f"  {row['agent_name']:<20} {state(row['status'])}{doing}"
            + ("  [" + "; ".join(notes) + "]" if notes else "")
        )
    if answer["config_error"]:
        say(paint(f"configuration not taken over: {answer['config_error']['message']}", "red"))
    for warning in answer["config_warnings"]:
        say(paint(f"configuration: {warning}", "yellow"))
    if answer["recent"]:
        say(paint("recent", "bold"))
        for event in answer["recent"][:6]:
            about = event["task_id"] or event["merge_id"] or event["session_id"] or ""
            say(f"  {event['at'][11:19]}  {event['kind']:<22} {about[:36]}")


def _counts(counts: dict[str, int]) -> str:
    shown = [f"{number} {state(name)}" for name, number in counts.items() if number]
    return ", ".join(shown) or "none"
