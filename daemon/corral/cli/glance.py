"""What ``corral status`` does: it runs in prompts and status lines, so it needs no framework."""

from __future__ import annotations

from typing import Any

from corral.cli.output import emit, paint, say, state
from corral.cli.place import client
from corral.models.visible import visible


def glance(*, as_json: bool = False) -> int:
    """Ask the daemon, and print what is going on."""
    answer = client().request("GET", "/status")
    if as_json:
        emit(answer)
    else:
        show(answer)
    return 0


def show(answer: dict[str, Any]) -> None:
    """Print a status for people."""
    say(f"{paint('project', 'bold')}   {answer['project']}")
    verified = "" if answer["verified"] else f"  ({state('unverified')}: no landing.verify command is configured)"
    say(f"{paint('target', 'bold')}    {answer['target']}{verified}")
    say(f"{paint('tasks', 'bold')}     {_counts(answer['tasks'])}")
    say(f"{paint('merges', 'bold')}    {_counts(answer['merges'])}")
    say(f"{paint('locks', 'bold')}     {answer['locks']}")
    say(f"{paint('sessions', 'bold')}  {len(answer['sessions']) + answer['sessions_left_out'] or 'none'}")
    for row in answer["sessions"]:
        notes = [f"waits for: {row['waiting_for']}"] if row["waiting_for"] else []
        if row["unguarded"]:
            notes.append(paint("unguarded: its edits arrive unchecked", "red"))
        doing = f"  {visible(row['current_task'])[:60]}" if row["current_task"] else ""
        say(
            f"  {row['agent_name']:<20} {state(row['status'])}{doing}"
            + ("  [" + "; ".join(notes) + "]" if notes else "")
        )
    if answer["sessions_left_out"]:
        say(f"  and {answer['sessions_left_out']} more (`corral session list`)")
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
