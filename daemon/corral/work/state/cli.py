"""``corral state``."""

from __future__ import annotations

import json
from typing import Annotated, Any

from corral.core.visible import one_line
from corral.faces.cli.asking import Field, Request
from corral.faces.cli.parsing import Argument, Group
from corral.faces.cli.terminal.options import argument
from corral.faces.cli.terminal.output import emit, for_programs, report
from corral.faces.cli.terminal.tables import Column, table

app = Group("Shared state: values that the agents at one task share while it lasts.")
Task = Annotated[str, argument("A task id, or its first four or more characters.", "TASK", of="task")]
_KEY, _VERSION = Field("key", "KEY", required=True), Field("if_version", "--if-version")


@app.ask("GET /tasks/{task_id}/state", _KEY, name="get", prints="work.state.api.Value")
def get(request: Request, task: Task) -> None:
    """Print the value of a key, as JSON."""
    (value,) = request.send(task_id=task)
    emit(value if for_programs() else value["value"])


@app.ask("POST /tasks/{task_id}/state", _KEY, "value", _VERSION, by="session_id", name="set")
def set_(
    request: Request,
    task: Task,
    value: Annotated[str, Argument(help="A JSON value; anything else is taken as a text.", metavar="VALUE")],
) -> None:
    """Set a key; with --if-version only if nobody has changed it since you read it."""
    request["value"] = _parsed(value)
    stored = request.send(task_id=task)
    report(stored, f"{one_line(request['key'])}  version {stored['version']}")


@app.ask("POST /tasks/{task_id}/state/delete", _KEY, _VERSION, name="delete")
def delete(request: Request, task: Task) -> None:
    """Delete a key."""
    report(request.send(task_id=task), f"{one_line(request['key'])}  deleted")


@app.ask("GET /tasks/{task_id}/state", name="list")
def listing(request: Request, task: Task) -> None:
    """List the keys of a task with their values."""
    columns: list[Column] = [
        ("KEY", "key", 40),
        ("VERSION", "version", 7),
        ("VALUE", lambda row: json.dumps(row["value"], ensure_ascii=False), 80),
    ]
    table(request.send(task_id=task), columns, empty="No shared state.")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
