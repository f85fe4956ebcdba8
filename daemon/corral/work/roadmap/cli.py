"""``corral supervisor``."""

from __future__ import annotations

from typing import Any

from corral.client.connection import Client
from corral.config.trust import Claim
from corral.core.errors import NotPermitted
from corral.core.visible import one_line
from corral.faces.cli.asking import Request
from corral.faces.cli.parsing import Group
from corral.faces.cli.terminal.options import client
from corral.faces.cli.terminal.output import echo, facts, moment, printed
from corral.faces.cli.terminal.person import refuse_agents

app = Group("The roadmap: work off the tasks of .corral/state/roadmap.yaml.")


@app.command(prints="work.roadmap.api.Supervision")
def start() -> None:
    """Work on the roadmap from now on. It survives restarts; `corral supervisor stop` ends it.

    It approves the commands and prompts of the roadmap as they are now; later changes wait for `corral trust`.
    """
    daemon = client()
    _approve(daemon)
    _show(daemon.request("POST", "/supervisor/start"))


@app.command(prints="work.roadmap.api.Supervision")
def once() -> None:
    """Submit the tasks that are next, one time. It works while the supervisor is stopped.

    It approves the commands and prompts of the roadmap as they are now.
    """
    daemon = client()
    _approve(daemon)
    _show(daemon.request("POST", "/supervisor/once"))


@app.ask("GET /supervisor")
def status(request: Request) -> None:
    """Show how the roadmap stands: its tasks by status, the next ones, and errors in it."""
    _show(request.send())


@app.ask("POST /supervisor/stop")
def stop(request: Request) -> None:
    """Pick no further tasks of the roadmap. Those in the queue go on."""
    _show(request.send())


def _approve(daemon: Client) -> None:
    """Approve what the tasks of the roadmap execute, as it is now; an agent approves nothing, and its tasks wait."""
    from corral.faces.cli.project import trust  # it needs git

    try:
        refuse_agents("Approving the roadmap", "corral trust")
    except NotPermitted:
        return
    unapproved = daemon.request("GET", "/supervisor")["unapproved"]
    claims = [Claim(command["key"], command["value"], command["source"]) for command in unapproved]
    if claims:
        trust.store().approve(daemon.project.common_dir, claims)


def _show(answer: dict[str, Any]) -> None:
    if printed(answer):
        return
    since = answer["since_at"]
    echo(f"started   since {moment(since)} UTC" if since else "stopped   start it with `corral supervisor start`")
    counts = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in answer["tasks"].items() if number)
    facts({"roadmap": answer["file"], "tasks": counts or "none", "queue": f"{answer['open']} open"})
    for task in answer["next"]:
        echo(f"  next     {one_line(task['id'])}  {one_line(task['title'])}")
    if since and answer["next"] and not answer["room"]:
        echo("  waits    the next ones: at most twice `supervisor.max_agents` are in the queue at once")
    for note in answer["notes"]:
        echo(f"  waits    {one_line(note['id'])} {one_line(note['message'])}")
    if error := answer["error"]:
        echo(f"  error    {one_line(error['message'])}")
        _show_remedy(error)
    for problem in answer["problems"]:
        line = f"line {problem['line']}: " if problem["line"] else ""
        task = f"{problem['id']}: " if problem["id"] else ""
        echo(f"  error    {one_line(line + task + problem['message'])}")
        _show_remedy(problem)


def _show_remedy(problem: dict[str, Any]) -> None:
    """Show the remedy, where that is not to correct the file."""
    if problem["remedy"]:
        echo(f"  remedy   {one_line(problem['remedy'])}")
