"""``corral task``."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

from corral.client.connection import segment
from corral.core.errors import InvalidInput
from corral.core.run_heading import run_heading
from corral.core.states import TaskSort, TaskStatus
from corral.core.visible import log_text, one_line
from corral.faces.cli.asking import Field, Request
from corral.faces.cli.parsing import Group, Option
from corral.faces.cli.terminal.diff_view import STAT, show_diff, stat_line
from corral.faces.cli.terminal.options import argument, author, client, session_id
from corral.faces.cli.terminal.output import coloured, echo, emit, fact, for_programs, paint, printed, report, state
from corral.faces.cli.terminal.tables import Column, age, table
from corral.work.agents.cli import record
from corral.work.dead_letters import cli as dead_letters
from corral.work.tasks.cli import submission as work
from corral.work.tasks.cli.submission import Values, key_of_one, make_whole
from corral.work.tasks.cli.task_view import follow_task, show_task

app = Group("Tasks: submit, follow, cancel.")
app.add(dead_letters.app, "dlq")
app.add(record.feedback_app)
_SOMETIMES = {"TEMPLATE": "template", "PROGRESS": "progress"}
"""Columns that a list has where any of its tasks has them."""
Id = Annotated[
    str, argument("A task's number or id, its first four or more characters, or its merge's id.", "ID", of="task")
]


@app.ask(
    "POST /tasks",
    Field("title", "--title", "-t", "TEXT", also=" (default: the template's)", required=False),
    work.COMMAND,
    Field("description", "--description", "-d", "TEXT"),
    work.PROMPT,
    work.AGENT,
    Field("agent_version", "--agent-version", "V"),
    Field("feedback", "--feedback", "TEXT"),
    Field("runner", "--runner"),
    Field("task_type", "--type", "TYPE", show_default=False),
    work.INPUT,
    Field("metadata", "--metadata", "JSON"),
    work.TEMPLATE,
    "set_",
    Field("agents", "--agents"),
    Field("combine", "--combine"),
    Field("parent_task_id", "--parent", "ID", of="task"),
    work.PRIORITY,
    Field("wait_for", "--wait-for", "ID", of="task"),
    Field("claims", "--claims", "KEY"),
    Field("agent_requirements.capabilities", "--requires", "WORD"),
    Field("timeout_s", "--timeout", "SECONDS"),
    Field("limits.max_turns", "--max-turns"),
    Field("limits.max_tokens", "--max-tokens"),
    Field("limits.max_cost_usd", "--max-cost-usd"),
    Field("thread_id", "--thread", "ID", of="thread"),
    Field("target", "--target", "BRANCH", of="branch"),
    Field("max_retries", "--retries"),
    Field("ignore_dependency_failure", "--ignore-dependency-failure"),
    Field("idempotency_key", "--idempotency-key", "KEY"),
    by="submitted_by",
)
def submit(request: Request, set_: Values = None) -> None:
    """Submit a task. It runs in its own worktree; its changes are merged and verified."""
    if not request.keys() & {"title", "template"}:
        raise InvalidInput("A task needs a --title.", remedy="Add one, or name a template that has one.")
    if not request.keys() & {"command", "prompt", "description", "agent", "input_data", "template"}:
        raise InvalidInput(
            "A task needs --command, --prompt, --agent or --template.",
            remedy="Add one of them; or --description or --input, for a task that a session claims.",
        )
    make_whole(request, set_)
    # With a generated idempotency key, the client can repeat the request after a lost answer.
    request["idempotency_key"] = request["idempotency_key"] or key_of_one()
    answer = request.send()
    line = f"{answer['number']:>5}  {state(answer['status'])}  {one_line(answer['title'])}  {answer['task_id'][:8]}"
    report(answer, line)


@app.command("batch-submit", prints="work.tasks.api.BatchSubmitted")
def batch_submit(
    file: Annotated[Path, Option("--file", "-f", help="YAML or JSON: a list of tasks, or {tasks: [...]}.")],
) -> None:
    """Submit the tasks of a file, all or none; they can depend on each other by `name`."""
    items = read_batch(file)
    common = {"submitted_by": session_id(), **author()}
    tasks = [{**common, "idempotency_key": key_of_one(), **item} if isinstance(item, dict) else item for item in items]
    answer = client().request("POST", "/tasks/batch", {"tasks": tasks})
    if printed(answer):
        return
    for number, task_id in zip(answer["numbers"], answer["task_ids"], strict=True):
        echo(f"{number:>5}  {task_id}")
    number = answer["queued"]
    echo(paint("1 task was submitted." if number == 1 else f"{number} tasks were submitted.", "dim"))


@app.ask(
    "GET /tasks",
    Field("status", "--status", "STATE"),
    Field("min_priority", "--priority"),
    Field("agent", "--agent", "NAME", of="agent"),
    Field("task_type", "--type", "TYPE"),
    Field("template", "--template", "NAME", of="template"),
    Field("thread_id", "--thread", "ID"),
    "sort",
    "limit",
    "compact",
    name="list",
)
def listing(
    request: Request,
    sort: Annotated[TaskSort, Option("--sort", help="Order: by priority and age, or by age.")] = TaskSort.PRIORITY,
    limit: Annotated[int | None, Option("--limit", min=1, help="Maximum number of tasks.")] = None,
    compact: Annotated[bool, Option("--compact", help="One short line per task, without a heading.")] = False,
) -> None:
    """List tasks, highest priority first."""
    is_filtered = any(request.values())
    request["sort"] = sort.value
    rows = request.listing(limit)
    if compact and not for_programs():
        for row in rows:
            title = one_line(row["title"])
            echo(f"{row['number']:>5} {row['task_id'][:8]} {row['outcome']:<11} {row['priority']:>2} {title}")
        return
    columns: list[Column] = [
        ("TASK", "number", 7),
        ("OUTCOME", "outcome", 15),
        ("PRIO", "priority", 4),
        ("AGE", lambda row: age(row["created_at"]), 4),
        ("TITLE", lambda row: f"└ {row['title']}" if row["step"] else row["title"], 70),
        *((name, field, 40) for name, field in _SOMETIMES.items() if any(row[field] for row in rows)),
        ("ID", lambda row: row["task_id"][:8], 8),
    ]
    empty = "No such task." if is_filtered else "No tasks. Submit one: corral task submit --title … --command …"
    table(rows, columns, empty=empty)


@app.ask("GET /tasks/{task_id}/detail")
def detail(
    request: Request,
    task_id: Id,
    follow: Annotated[
        bool, Option("--follow", "-f", help="Print its events and its worker's output until it has ended.")
    ] = False,
) -> None:
    """Show all about a task: input, attempts, usage, result, landing."""
    if follow:
        follow_task(client(), task_id)
        return
    task = request.send(task_id=task_id)
    if not printed(task):
        show_task(task, changed=stat_line(f"/tasks/{segment(task_id)}/diff"))


@app.ask("GET /tasks/{task_id}/diff", STAT)
def diff(request: Request, task_id: Id) -> None:
    """Show what a task has changed, also while it runs."""
    show_diff(request, task_id=task_id)


@app.ask("POST /tasks/claim", Field("task_types", "--type", "TYPE"), by="session_id")
def claim(request: Request) -> None:
    """Claim the next task that no worker executes; it stays yours until you complete it or your session ends."""
    request["idempotency_key"] = key_of_one()
    answer = request.send()
    if printed(answer):
        return
    if answer["success"]:
        echo(f"{answer['task_id']}  {one_line(answer['title'])}")
        fact("", answer["description"], 0)
        if answer["input_data"]:
            echo(f"input: {one_line(json.dumps(answer['input_data'], ensure_ascii=False))}")
    else:
        is_paused = answer["reason"] == "work_paused"
        echo("All work is paused, so no task is claimed: corral resume" if is_paused else "No task to claim.")
    for task in answer.get("also_held", ()):
        echo(paint(f"You already hold {task['task_id']}  {one_line(task['title'])}", "dim"))


@app.ask(
    "POST /tasks/{task_id}/complete",
    Field("success", "--failed", off="Report a failure; it is not retried."),
    Field("result", "--result", "JSON"),
    Field("error_message", "--error", "TEXT"),
    by="session_id",
)
def complete(request: Request, task_id: Id) -> None:
    """Complete a task that you claimed, or report its failure."""
    _show_state(request.send(task_id=task_id))


@app.ask("POST /tasks/{task_id}/cancel", Field("reason", "--reason"), Field("convention", "--convention"))
def cancel(request: Request, task_id: Id) -> None:
    """Cancel a task. A running task is stopped and its work saved."""
    _show_state(request.send(task_id=task_id), stops=True)


@app.ask("POST /tasks/{task_id}/retry")
def retry(request: Request, task_id: Id) -> None:
    """Retry a task on the target's current tip; tasks that failed because of it are retried too."""
    _show_state(request.send(task_id=task_id))


@app.ask("POST /tasks/{task_id}/reprioritize", Field("priority", "PRIORITY"))
def reprioritize(request: Request, task_id: Id) -> None:
    """Change the priority of a task that has not started."""
    answer = request.send(task_id=task_id)
    report(answer, f"{answer['task_id']}  priority {answer['priority']}")


def _show_state(answer: dict[str, Any], *, stops: bool = False) -> None:
    if not printed(answer):
        echo(f"{answer['task_id']}  {state(answer['status'])}")
        if stops and answer["status"] in (TaskStatus.RUNNING, TaskStatus.INTERRUPTED):
            echo(f"Its worker is being stopped, and its work saved: corral wait {answer['task_id'][:8]}")
        if failing := answer.get("dependents"):
            number = f"{len(failing)} tasks that wait for it fail" if failing[1:] else "1 task that waits for it fails"
            again = f"corral task retry {answer['task_id'][:8]}"
            echo(paint(f"{number} with it. To run it, and them, all the same: {again}", "yellow"))
        if answer.get("merge_id"):
            echo(f"Your branch was submitted as {answer['merge_id']}: corral wait {answer['task_id'][:8]}")
        if answer.get("uncommitted"):
            paths = ", ".join(one_line(path) for path in answer["uncommitted"])
            echo(paint(f"Not committed, so not submitted: {paths}. Commit it, then run: corral merge submit", "yellow"))


@app.ask(
    "GET /tasks/{task_id}/log",
    "follow",
    Field("attempt", "--attempt"),
    Field("readable", "--raw", off="Show a client's event stream as it is."),
    prints="work.tasks.api.LogText",
)
def logs(
    request: Request, task_id: Id, follow: Annotated[bool, Option("--follow", "-f", help="Follow the log.")] = False
) -> None:
    """Show the output of a task's worker; a client's as its texts and tool calls."""
    print_log(request, f"/tasks/{segment(task_id)}/log", follow=follow)


def print_log(query: dict[str, Any], path: str, *, follow: bool) -> None:
    """Print a log of the daemon, up to its current end or as it grows; as JSON in one piece: ``{text, complete}``.

    One of a verification has a heading, and as JSON a ``run``; where it is followed, the runs after it come too.
    """
    speaker, offset, heading = client(), 0, ""
    pieces: list[str] = []
    while True:
        query |= {"offset": offset, "wait_s": 20 if follow else 0}
        part = speaker.request("GET", path, query=query, timeout_s=40, is_poll=follow)
        run_title = run_heading(part["run"]) if part.get("run") else ""
        if for_programs():
            pieces.append(part["text"])
        else:
            print(
                log_text(part["text"] if run_title == heading else run_title + part["text"], colours=coloured()),
                end="",
                flush=True,
            )
        offset, heading = part["next_offset"], run_title
        if part.get("run") and part["run"]["number"] is not None:
            query["run"] = str(part["run"]["number"])
        if not part["text"] and (part["complete"] or not follow):
            break
    if for_programs():
        emit({"text": "".join(pieces), "complete": part["complete"], **({"run": part["run"]} if "run" in part else {})})


# -- A file of tasks: read as the JSON that it means, whatever else YAML can say, and however few lines can mean
# gigabytes

MOST_VALUES = 1_000_000
"""Values in a file, each alias counted with all that it stands for."""


_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_NOTHING_SUBMITTED = "Correct the file; nothing was submitted."


def read_batch(file: Path) -> list[Any]:
    """The entries of a file of tasks, not validated: its list, or the one below ``tasks``. A date is the text that it is.

    Raises:
        InvalidInput: It cannot be read, has no list of tasks, or has values that no JSON has.
    """
    try:
        content = _loaded(file)
        size = count_values(content)
        if size > MOST_VALUES:
            raise InvalidInput(
                f"{file} means more than {MOST_VALUES:,} values once its aliases are written out.",
                remedy="Use fewer aliases; nothing was submitted.",
            )
        items = content.get("tasks") if isinstance(content, dict) else content
        if not isinstance(items, list) or not items:
            raise InvalidInput(
                f"{file} contains no list of tasks.", remedy="Write a list of {title, command or prompt, …}."
            )
        json.dumps(items, allow_nan=False)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"Cannot read {file}.", cause=str(error), remedy="Name a readable file.") from error
    except RecursionError as error:
        raise InvalidInput(f"{file} is nested too deeply.", remedy=_NOTHING_SUBMITTED) from error
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{file} has a value that JSON cannot express.", cause=str(error), remedy=_NOTHING_SUBMITTED
        ) from error
    return items


def _loaded(file: Path) -> Any:
    import yaml  # few commands need it

    class Loader(yaml.SafeLoader):
        """Knows no dates: JSON has none."""

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in known if tag != _TIMESTAMP]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    try:
        return yaml.load(file.read_text(encoding="utf-8"), Loader)
    except yaml.YAMLError as error:
        raise InvalidInput(f"{file} is not YAML or JSON.", cause=str(error), remedy=_NOTHING_SUBMITTED) from error


def count_values(value: Any, known: dict[int, float] | None = None) -> float:
    """The number of values with all aliases written out; infinite where one contains itself. Takes time for the file alone."""
    known = {} if known is None else known
    if not isinstance(value, (dict, list)):
        return 1
    if id(value) not in known:
        known[id(value)] = math.inf  # as long as it is being counted: what contains itself has no end
        parts = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(count_values(part, known) for part in parts)
    return known[id(value)]
