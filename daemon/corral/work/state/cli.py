"""``corral state``."""

from __future__ import annotations

import json
from typing import Annotated, Any

from corral.client.connection import segment
from corral.core.visible import one_line
from corral.faces.cli.parsing import Argument, Group, Option
from corral.faces.cli.terminal.options import argument, client, session_id
from corral.faces.cli.terminal.output import emit, for_programs, report
from corral.faces.cli.terminal.tables import Column, table

app = Group("Shared state: values that the agents at one task share while it lasts.")
Task = Annotated[str, argument("A task id, or its first four or more characters.", "TASK", of="task")]
Key = Annotated[str, Argument(help="A key.", metavar="KEY")]
Version = Annotated[int | None, Option("--if-version", min=0, help="Only if the key has this version; 0: is new.")]


@app.command("get", prints="work.state.api.Value")
def get(task: Task, key: Key) -> None:
    """Print the value of a key, as JSON."""
    (value,) = client().request("GET", _path(task), query={"key": key})
    emit(value if for_programs() else value["value"])


@app.command("set", prints="work.state.api.Value")
def set_(
    task: Task,
    key: Key,
    value: Annotated[str, Argument(help="A JSON value; anything else is taken as a text.", metavar="VALUE")],
    if_version: Version = None,
) -> None:
    """Set a key; with --if-version only if nobody has changed it since you read it."""
    body = {"key": key, "value": _parsed(value), "if_version": if_version, "session_id": session_id()}
    stored = client().request("POST", _path(task), body)
    report(stored, f"{one_line(key)}  version {stored['version']}")


@app.command("delete", prints="work.state.api.Deleted")
def delete(task: Task, key: Key, if_version: Version = None) -> None:
    """Delete a key."""
    answer = client().request("POST", f"{_path(task)}/delete", {"key": key, "if_version": if_version})
    report(answer, f"{one_line(key)}  deleted")


@app.command("list", prints="work.state.api.Value[]")
def listing(task: Task) -> None:
    """List the keys of a task with their values."""
    columns: list[Column] = [
        ("KEY", "key", 40),
        ("VERSION", "version", 7),
        ("VALUE", lambda row: json.dumps(row["value"], ensure_ascii=False), 80),
    ]
    table(client().request("GET", _path(task)), columns, empty="No shared state.")


def _path(task: str) -> str:
    return f"/tasks/{segment(task)}/state"


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
