"""``corral task dlq``."""

from __future__ import annotations

from typing import Annotated

from corral.core.visible import log_text
from corral.faces.cli.asking import Field, Request
from corral.faces.cli.parsing import Exit, Group, Option
from corral.faces.cli.terminal.options import argument, client
from corral.faces.cli.terminal.output import coloured, echo, moment, printed
from corral.faces.cli.terminal.person import confirm
from corral.faces.cli.terminal.tables import Column, table
from corral.work.tasks.cli.task_view import show_task

app = Group("The dead-letter queue: tasks that are out of retries.")
_IDS = Field("task_ids", "ID", of="task")


@app.command("list", prints="work.dead_letters.api.DeadTask[]")
def listing(limit: Annotated[int | None, Option("--limit", min=1, help="Maximum number of tasks.")] = None) -> None:
    """List the tasks that are out of retries, the oldest first."""
    rows = client().listing("/dead-letters", {}, limit)
    columns: list[Column] = [
        ("ID", "task_id", 36),
        ("TRIES", "attempts", 5),
        ("SINCE (UTC)", lambda row: moment(row["completed_at"]), 19),
        ("TITLE", "title", 40),
        ("ERROR", lambda row: f"{row['error_code']}: {row['error_message']}", 80),
    ]
    table(rows, columns, empty="The dead-letter queue is empty.")


@app.ask("GET /dead-letters/{task_id}")
def show(
    request: Request, task_id: Annotated[str, argument("A task id, or its first characters.", "ID", of="task")]
) -> None:
    """Show why a task is dead: each attempt, and the end of the last one's output."""
    task = request.send(task_id=task_id)
    if printed(task):
        return
    show_task(task)
    if task["log_tail"]:
        echo("  output")
        print(log_text(task["log_tail"], colours=coloured()), end="", flush=True)


@app.ask("POST /dead-letters/retry", _IDS, Field("all", "--all"))
def retry(request: Request) -> None:
    """Run dead tasks again, with all their retries."""
    _act(request, "pending")


@app.ask("POST /dead-letters/clear", _IDS, "yes")
def clear(request: Request, yes: Annotated[bool, Option("--yes", "-y", help="Do not prompt.")] = False) -> None:
    """Take tasks out of the queue; without an id, all of them after a question. They stay in `corral task list`."""
    if "task_ids" not in request and not yes:
        number = len(client().listing("/dead-letters", {}, None))
        if number and not confirm(f"Clear all {number} tasks of the dead-letter queue?", default=False):
            raise Exit(1)
    request["all"] = "task_ids" not in request
    _act(request, "cleared")


def _act(request: Request, done: str) -> None:
    answer = request.send()
    if printed(answer):
        return
    for task_id in answer["task_ids"]:
        echo(f"{task_id}  {done}")
    if not answer["task_ids"]:
        echo("The dead-letter queue is empty.")
