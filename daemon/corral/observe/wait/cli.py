"""``corral wait``: wait until everything has landed or failed."""

from __future__ import annotations

import os
import re
import sys
import time
from typing import Annotated, Any

from corral.core.errors import InvalidInput
from corral.core.remedies import WHAT_TO_DO
from corral.core.visible import one_line, visible
from corral.faces.cli.asking import Field, Request, asks
from corral.faces.cli.parsing import Exit
from corral.faces.cli.terminal.options import client, option
from corral.faces.cli.terminal.output import echo, paint, printed, state
from corral.faces.cli.terminal.progress import progress
from corral.faces.cli.terminal.status_summary import show_need

ROUND_S = 20.0
FIRST_ROUND_S = 0.5
"""Length of the first long poll, seconds: short, to show something soon. Each poll is longer, up to ROUND_S."""
LONGER = 4


@asks("GET /wait", Field("task", "ID", of="open"), Field("all", "--all"), "timeout", prints="observe.wait.api.Waited")
def wait(
    request: Request,
    timeout: Annotated[
        float | None, option("--timeout", "Stop waiting after this time and exit with 1.", "SECONDS", min=0)
    ] = None,
) -> None:
    """Wait until tasks have landed or failed, or wait for you. Exits with 0 only if all succeeded."""
    if bool(request["task"]) == bool(request["all"]):
        raise InvalidInput("Nothing named to wait for.", remedy="Name tasks, or use --all.")
    deadline = None if timeout is None else time.monotonic() + timeout
    query: dict[str, Any] = request
    speaker, longest, shown = client(), FIRST_ROUND_S, set[tuple[str, str]]()
    with progress("waiting") as update:
        while True:
            remaining_s = longest if deadline is None else min(longest, max(0.0, deadline - time.monotonic()))
            longest = min(ROUND_S, LONGER * longest)
            answer = speaker.request(
                "GET", "/wait", query={**query, "timeout_s": remaining_s}, timeout_s=remaining_s + 15
            )
            query = {
                "task": [row["task_id"] for row in answer["tasks"]],
                "merge": [row["merge_id"] for row in answer["merges"]],
            }
            over = deadline is not None and time.monotonic() >= deadline
            if answer["settled"] or answer["waits_for_person"] or over or not (query["task"] or query["merge"]):
                break
            for need in answer["needs_you"]:
                if _key(need) not in shown:  # during a wait, the final rows are not on screen yet
                    shown.add(_key(need))
                    show_need(need, update.tell)
            paused = "".join(f"; {_pause(row)}" for row in answer["paused"])
            open_, total = _unsettled(answer), len(answer["tasks"]) + len(_without_task(answer))
            update(f"waiting for {open_} of {total}{_delay(answer)}{paused}", total - open_, total)
    _report(answer, shown if _is_one_screen() else set())
    if not answer["done"]:
        raise Exit(1)


def _is_one_screen() -> bool:
    """Whether stdout and stderr are the same terminal, file or pipe: what was told on one need not be repeated on the other."""
    try:
        return os.path.samestat(os.fstat(sys.stdout.fileno()), os.fstat(sys.stderr.fileno()))
    except (OSError, ValueError):  # one of them is no file
        return False


def _key(need: dict[str, Any]) -> tuple[str, str]:
    """What tells a need from others, and from itself for another reason; the numbers in its sentence may change."""
    return str(sorted(need["ids"].items())), re.sub(r"\d+", "#", f"{need['kind']} {need['what']}")


def _delay(answer: dict[str, Any]) -> str:
    """The reason of the first delayed task or merge request."""
    reasons = (row.get("delay") or row.get("reason") for row in (*answer["tasks"], *answer["merges"]))
    return next((f": {one_line(text)[:160]}" for text in reasons if text), "")


def _unsettled(answer: dict[str, Any]) -> int:
    busy = {"waiting", "pending", "running", "interrupted", "queued", "verifying", "held"}
    tasks = sum(row["status"] in busy or row["merge_state"] in busy for row in answer["tasks"])
    return tasks + sum(row["state"] in busy for row in _without_task(answer))


def _without_task(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Merge requests without a task; the others are shown and counted with their task."""
    shown = {row["merge_id"] for row in answer["tasks"]}
    return [row for row in answer["merges"] if row["merge_id"] not in shown]


def _pause(row: dict[str, str]) -> str:
    return one_line(f"{row['target']} is paused: {row['reason'].splitlines()[0].rstrip('.')}")


def _report(answer: dict[str, Any], shown: set[tuple[str, str]]) -> None:
    """Print how everything stands, and why.

    Args:
        shown: The needs that were shown on the same screen during the wait; they are not repeated.
    """
    if printed({key: answer[key] for key in ("tasks", "merges", "done", "waits_for_person", "paused", "needs_you")}):
        return
    rows = [(f"{row['number']:>5}", row) for row in answer["tasks"]]
    rows += [(row["merge_id"][:8], row) for row in _without_task(answer)]
    widest = max((len(row["outcome"]) for _, row in rows), default=0)
    for name, row in rows:
        echo(f"{name}  {state(row['outcome'])}{' ' * (widest - len(row['outcome']))}  {one_line(row['title'])}")
        ids = {row.get("task_id"), row["merge_id"]} - {None}
        needs = [need for need in answer["needs_you"] if not ids.isdisjoint(need["ids"].values())]
        for need in needs:
            if _key(need) not in shown:
                shown.add(_key(need))
                show_need(need)
        if not needs:
            _why(row.get("delay") or row.get("reason"))
    if needs := [need for need in answer["needs_you"] if _key(need) not in shown]:
        echo(paint("needs you", "bold"))
        for need in needs:
            show_need(need)
    if not answer["tasks"] and not answer["merges"]:
        echo("Nothing is open; `corral status` shows the results.")
    elif not answer["done"]:
        echo(_RESULTS[answer["settled"], answer["waits_for_person"]])


_RESULTS = {
    (True, False): "Not everything succeeded.",
    (False, True): "What is left waits for you.",
    (False, False): "Timed out; the work continues.",
}


def _why(text: str | None) -> None:
    """Print a reason below its row, indented, so that no line looks like a row; the remedy follows later."""
    for line in visible(text or "").splitlines():
        if not line.startswith(WHAT_TO_DO):
            echo(f"  {line}")
