"""``corral wait``: until everything has landed, or something cannot."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer

from corral.cli.terminal.glance import show_need
from corral.cli.terminal.options import Json, client
from corral.cli.terminal.output import emit, paint, progress, say, state
from corral.errors import InvalidInput
from corral.models.remedies import WHAT_TO_DO
from corral.models.visible import one_line, visible

ROUND_S = 20.0
FIRST_ROUND_S = 0.5
"""So short that what is waited for is soon on the screen; each round is longer than the last, up to ROUND_S."""
LONGER = 4


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("wait")(wait)


def wait(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Tasks; with --all every open task and merge.", metavar="ID")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that is open now.")] = False,
    timeout: Annotated[
        float | None, typer.Option("--timeout", help="Then stop waiting and exit with 1.", min=0, metavar="SECONDS")
    ] = None,
    as_json: Json = False,
) -> None:
    """Wait until tasks are completed and landed, or have failed. Exits with 0 only if all of it is done."""
    if bool(ids) == everything:
        raise InvalidInput("Say what to wait for.", remedy="Name tasks, or say --all.")
    deadline = None if timeout is None else time.monotonic() + timeout
    query: dict[str, Any] = {"task": ids or [], "all": everything or None}
    speaker, longest, told = client(), FIRST_ROUND_S, set[str]()
    with progress("waiting") as update:
        while True:
            left = longest if deadline is None else min(longest, max(0.0, deadline - time.monotonic()))
            longest = min(ROUND_S, LONGER * longest)
            answer = speaker.request("GET", "/wait", query={**query, "timeout_s": left}, timeout_s=left + 15)
            query = {
                "task": [row["task_id"] for row in answer["tasks"]],
                "merge": [row["merge_id"] for row in answer["merges"]],
            }
            over = deadline is not None and time.monotonic() >= deadline
            if answer["settled"] or over or not (query["task"] or query["merge"]):
                break
            for need in answer["needs_you"]:
                if need["what"] not in told:  # while it waits, nobody sees what is printed at the end
                    told.add(need["what"])
                    show_need(need, update.tell)
            paused = "".join(f"; {_pause(row)}" for row in answer["paused"])
            waits = f"waiting for {_unsettled(answer)} of {len(answer['tasks']) + len(_of_no_task(answer))}"
            update(f"{waits}{_delay(answer)}{paused}")
    # What was told on the terminal while it waited still stands there.
    _report(answer, as_json, seen=told if sys.stderr.isatty() else set())
    if not answer["done"]:
        raise typer.Exit(1)


def _delay(answer: dict[str, Any]) -> str:
    """Why the first of those that are delayed does not start, or land."""
    reasons = (row.get("delay") or row.get("reason") for row in (*answer["tasks"], *answer["merges"]))
    return next((f": {one_line(text)[:160]}" for text in reasons if text), "")


def _unsettled(answer: dict[str, Any]) -> int:
    busy = {"waiting", "pending", "running", "interrupted", "queued", "verifying", "held"}
    tasks = sum(row["status"] in busy or row["merge_state"] in busy for row in answer["tasks"])
    return tasks + sum(row["state"] in busy for row in _of_no_task(answer))


def _of_no_task(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The merge requests that are not shown, and counted, with their task."""
    shown = {row["merge_id"] for row in answer["tasks"]}
    return [row for row in answer["merges"] if row["merge_id"] not in shown]


def _pause(row: dict[str, str]) -> str:
    return one_line(f"{row['target']} is paused: {row['reason'].splitlines()[0]}")


def _report(answer: dict[str, Any], as_json: bool, seen: set[str]) -> None:
    if as_json:
        emit({key: answer[key] for key in ("tasks", "merges", "done", "paused", "needs_you")})
        return
    for row in answer["tasks"]:
        say(f"{row['task_id']}  {state(row['outcome'])}")
        _why(row.get("delay") or row.get("reason"))
    for row in _of_no_task(answer):
        say(f"{row['merge_id']}  merge {state(row['state'])}")
        _why(row.get("reason"))
    if needs := [need for need in answer["needs_you"] if need["what"] not in seen]:
        say(paint("needs you", "bold"))
        for need in needs:
            show_need(need)
    for row in () if answer["settled"] else answer["paused"]:
        say(f"{_pause(row)}. Corral looks again at {row['look_at']}.")
    if not answer["tasks"] and not answer["merges"]:
        say("Nothing is open any more; `corral status` shows what became of it.")
    elif not answer["done"]:
        say("Not everything is done." if answer["settled"] else "The time is over.")


def _why(text: str | None) -> None:
    """A reason below its row, indented, so that none of its lines looks like a row; what to do about it follows later."""
    for line in visible(text or "").splitlines():
        if not line.startswith(WHAT_TO_DO):
            say(f"  {line}")
