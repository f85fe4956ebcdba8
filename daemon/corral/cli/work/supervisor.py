"""``corral supervisor``."""

from __future__ import annotations

from typing import Any

import typer

from corral.cli.help import Grouped
from corral.cli.terminal.options import Json, client
from corral.cli.terminal.output import echo, emit, facts, moment
from corral.models.visible import one_line

app = typer.Typer(
    cls=Grouped, help="The roadmap: work off the tasks of .corral/state/roadmap.yaml.", no_args_is_help=True
)


@app.command()
def start(as_json: Json = False) -> None:
    """Work on the roadmap from now on. It survives restarts; `corral supervisor stop` ends it."""
    _show(client().request("POST", "/supervisor/start"), as_json)


@app.command()
def once(as_json: Json = False) -> None:
    """Submit the tasks that are next, one time. It works while the supervisor is stopped."""
    _show(client().request("POST", "/supervisor/once"), as_json)


@app.command()
def status(as_json: Json = False) -> None:
    """Show how the roadmap stands: its tasks by status, the next ones, and errors in it."""
    _show(client().request("GET", "/supervisor"), as_json)


@app.command()
def stop(as_json: Json = False) -> None:
    """Pick no further tasks of the roadmap. Those in the queue go on."""
    _show(client().request("POST", "/supervisor/stop"), as_json)


def _show(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        emit(answer)
        return
    since = answer["since_at"]
    echo(f"started   since {moment(since)} UTC" if since else "stopped   start it with `corral supervisor start`")
    counts = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in answer["tasks"].items() if number)
    facts({"roadmap": answer["file"], "tasks": counts or "none", "queue": f"{answer['open']} open"})
    for task in answer["next"]:
        echo(f"  next     {one_line(task['id'])}  {one_line(task['title'])}")
    if answer["error"]:
        echo(f"  error    {one_line(answer['error']['message'])}")
    for problem in answer["problems"]:
        line = f"line {problem['line']}: " if problem["line"] else ""
        task = f"{problem['id']}: " if problem["id"] else ""
        echo(f"  error    {one_line(line + task + problem['message'])}")
