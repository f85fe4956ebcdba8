"""``corral wait``: until everything has landed, or something cannot."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from corral.cli.options import Json, client
from corral.cli.output import emit, progress, say, state
from corral.errors import InvalidInput

ROUND_S = 20.0
FIRST_ROUND_S = 0.5
"""So short that what is waited for is soon on the screen."""


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
    speaker, longest = client(), FIRST_ROUND_S
    with progress("waiting") as update:
        while True:
            left = longest if deadline is None else min(longest, max(0.0, deadline - time.monotonic()))
            longest = ROUND_S
            answer = speaker.request("GET", "/wait", query={**query, "timeout_s": left}, timeout_s=left + 15)
            query = {
                "task": [row["task_id"] for row in answer["tasks"]],
                "merge": [row["merge_id"] for row in answer["merges"]],
            }
            over = deadline is not None and time.monotonic() >= deadline
            if answer["settled"] or over or not (query["task"] or query["merge"]):
                break
            update(f"waiting for {_unsettled(answer)} of {len(answer['tasks']) + len(answer['merges'])}")
    _report(answer, as_json)
    if not answer["done"]:
        raise typer.Exit(1)


def _unsettled(answer: dict[str, Any]) -> int:
    busy = {"waiting", "pending", "running", "interrupted", "queued", "verifying", "held"}
    tasks = sum(row["status"] in busy or row["merge_state"] in busy for row in answer["tasks"])
    return tasks + sum(row["state"] in busy for row in answer["merges"])


def _report(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        emit({key: answer[key] for key in ("tasks", "merges", "done")})
        return
    for row in answer["tasks"]:
        merge = f", merge {state(row['merge_state'])}" if row["merge_state"] else ""
        say(f"{row['task_id']}  {state(row['status'])}{merge}")
    for row in answer["merges"]:
        say(f"{row['merge_id']}  merge {state(row['state'])}")
    if not answer["tasks"] and not answer["merges"]:
        say("Nothing is open any more; `corral status` shows what became of it.")
    elif not answer["done"]:
        say("Not everything is done; `corral task detail ID` says why." if answer["settled"] else "The time is over.")
