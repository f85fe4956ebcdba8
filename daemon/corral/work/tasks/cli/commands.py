"""``corral task``."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Annotated, Any

from corral.client.connection import segment
from corral.core.errors import InvalidInput
from corral.core.outcomes import Outcome
from corral.core.run_heading import run_heading
from corral.core.states import Combine, RunnerName, TaskSort, TaskStatus
from corral.core.visible import log_text, one_line
from corral.faces.cli.parsing import Argument, Group, Option
from corral.faces.cli.terminal.diff_view import Stat, show_diff, stat_line
from corral.faces.cli.terminal.options import argument, author, client, json_object, option, session_id
from corral.faces.cli.terminal.output import coloured, echo, emit, fact, for_programs, paint, printed, report, state
from corral.faces.cli.terminal.tables import Column, age, table
from corral.work.agents.cli import record
from corral.work.dead_letters import cli as dead_letters
from corral.work.tasks.cli.submission import Agent, Command, Input, Priority, Prompt, Template, Values, read_prompt
from corral.work.tasks.cli.task_view import follow_task, show_task
from corral.work.templates.cli.parameters import with_parameters

app = Group("Tasks: submit, follow, cancel.")
app.add(dead_letters.app, "dlq")
app.add(record.feedback_app)
_STATES = (
    f"Only these statuses or outcomes; repeatable. One of: {', '.join((*TaskStatus.values(), *Outcome.values()))}."
)
_SOMETIMES = {"TEMPLATE": "template", "PROGRESS": "progress"}
"""Columns that a list has where any of its tasks has them."""
Id = Annotated[
    str, argument("A task's number or id, its first four or more characters, or its merge's id.", "ID", of="task")
]


@app.command(prints="work.tasks.api.Submitted")
def submit(
    title: Annotated[
        str | None,
        option("--title", "Title; also the commit's subject (default: the template's).", "TEXT", short="-t"),
    ] = None,
    command: Command = None,
    description: Annotated[
        str | None,
        option(
            "--description",
            "Description; without a command or prompt, a session must claim the task (`corral task claim`).",
            "TEXT",
            short="-d",
        ),
    ] = None,
    prompt: Prompt = None,
    agent: Agent = None,
    agent_version: Annotated[
        str | None,
        option("--agent-version", "Version of its agent's definition: 1.2.0, or the begin of its hash.", "V"),
    ] = None,
    feedback: Annotated[
        str | None, option("--feedback", "Comment for the record of its agent, as by `task feedback`.", "TEXT")
    ] = None,
    runner: Annotated[
        RunnerName | None, Option("--runner", help="Runner (default: its agent's; else claude for a prompt).")
    ] = None,
    task_type: Annotated[str | None, option("--type", "Type, for sessions that claim tasks.", "TYPE")] = None,
    input_data: Input = None,
    metadata: Annotated[str | None, option("--metadata", "Kept with it and shown: a JSON object.", "JSON")] = None,
    template: Template = None,
    set_: Values = None,
    agents: Annotated[
        int | None, Option("--agents", min=1, max=50, help="Number of agents that do it, each by itself.")
    ] = None,
    combine: Annotated[Combine | None, Option("--combine", help="How their results become one (default: all).")] = None,
    parent: Annotated[
        str | None, option("--parent", "Task whose agent leads this one's; it ends with it.", "ID", of="task")
    ] = None,
    priority: Priority = None,
    wait_for: Annotated[
        list[str] | None, option("--wait-for", "A task that must land first; repeatable.", "ID", of="task")
    ] = None,
    claims: Annotated[
        list[str] | None, option("--claims", "A path or lock key that the task will change; repeatable.", "KEY")
    ] = None,
    requires: Annotated[
        list[str] | None, option("--requires", "A capability that its agent needs; repeatable.", "WORD")
    ] = None,
    timeout: Annotated[float | None, option("--timeout", "Time limit per attempt.", "SECONDS")] = None,
    max_turns: Annotated[int | None, Option("--max-turns", min=1, help="Turn limit of a task with a prompt.")] = None,
    max_tokens: Annotated[
        int | None, Option("--max-tokens", min=1, help="Token limit of a task with a prompt.")
    ] = None,
    max_cost_usd: Annotated[
        float | None, Option("--max-cost-usd", help="Cost limit in USD of a task with a prompt.")
    ] = None,
    thread: Annotated[str | None, option("--thread", "Message thread of its batch.", "ID", of="thread")] = None,
    target: Annotated[str | None, option("--target", "Land on this branch.", "BRANCH", of="branch")] = None,
    retries: Annotated[
        int | None, Option("--retries", min=0, help="Number of retries (default: tasks.max_retries).")
    ] = None,
    ignore_dependency_failure: Annotated[
        bool, Option("--ignore-dependency-failure", help="Start even if a dependency fails.")
    ] = False,
    key: Annotated[
        str | None, option("--idempotency-key", "Idempotency key: the same key returns the same task.", "KEY")
    ] = None,
) -> None:
    """Submit a task. It runs in its own worktree; its changes are merged and verified."""
    prompt = read_prompt(prompt)
    if title is template is None:
        raise InvalidInput("A task needs a --title.", remedy="Add one, or name a template that has one.")
    if command is prompt is description is agent is input_data is template is None:
        raise InvalidInput(
            "A task needs --command, --prompt, --agent or --template.",
            remedy="Add one of them; or --description or --input, for a task that a session claims.",
        )
    body = {
        "title": title,
        "description": description,
        "thread_id": thread,
        "command": command,
        "prompt": prompt,
        "agent": agent,
        "agent_version": agent_version,
        "feedback": feedback,
        "runner": runner,
        "input_data": with_parameters(json_object("--input", input_data, or_file=True), set_ or (), template),
        "metadata": json_object("--metadata", metadata),
        "template": template,
        "parent_task_id": parent,
        "agents": agents,
        "combine": combine,
        "wait_for": wait_for or [],
        "claims": claims or [],
        "agent_requirements": {"capabilities": requires} if requires else None,
        "timeout_s": timeout,
        "limits": {"max_turns": max_turns, "max_tokens": max_tokens, "max_cost_usd": max_cost_usd},
        "target": target,
        "max_retries": retries,
        "ignore_dependency_failure": ignore_dependency_failure,
        # With a generated idempotency key, the client can repeat the request after a lost answer.
        "idempotency_key": key or _key(),
        "submitted_by": session_id(),
        **({"task_type": task_type} if task_type is not None else {}),
        **({"priority": priority} if priority is not None else {}),
        **author(),
    }
    answer = client().request("POST", "/tasks", body)
    line = f"{answer['number']:>5}  {state(answer['status'])}  {one_line(answer['title'])}  {answer['task_id'][:8]}"
    report(answer, line)


@app.command("batch-submit", prints="work.tasks.api.BatchSubmitted")
def batch_submit(
    file: Annotated[Path, Option("--file", "-f", help="YAML or JSON: a list of tasks, or {tasks: [...]}.")],
) -> None:
    """Submit the tasks of a file, all or none; they can depend on each other by `name`."""
    items = read_batch(file)
    common = {"submitted_by": session_id(), **author()}
    tasks = [{**common, "idempotency_key": _key(), **item} if isinstance(item, dict) else item for item in items]
    answer = client().request("POST", "/tasks/batch", {"tasks": tasks})
    if printed(answer):
        return
    for number, task_id in zip(answer["numbers"], answer["task_ids"], strict=True):
        echo(f"{number:>5}  {task_id}")
    number = answer["queued"]
    echo(paint("1 task was submitted." if number == 1 else f"{number} tasks were submitted.", "dim"))


@app.command("list", prints="work.tasks.api.Task[]")
def listing(
    status: Annotated[list[TaskStatus | Outcome] | None, option("--status", _STATES, "STATE")] = None,
    priority: Annotated[int, Option("--priority", min=0, max=10, help="Only this priority and above.")] = 0,
    agent: Annotated[str | None, option("--agent", "Only tasks for this agent.", "NAME", of="agent")] = None,
    task_type: Annotated[str | None, option("--type", "Only tasks of this type.", "TYPE")] = None,
    template: Annotated[str | None, option("--template", "Only of this template.", "NAME", of="template")] = None,
    thread: Annotated[str | None, option("--thread", "Only tasks of this batch.", "ID")] = None,
    sort: Annotated[TaskSort, Option("--sort", help="Order: by priority and age, or by age.")] = TaskSort.PRIORITY,
    limit: Annotated[int | None, Option("--limit", min=1, help="Maximum number of tasks.")] = None,
    compact: Annotated[bool, Option("--compact", help="One short line per task, without a heading.")] = False,
) -> None:
    """List tasks, highest priority first."""
    only = {"agent": agent, "task_type": task_type, "template": template, "thread_id": thread, "sort": sort.value}
    rows = client().listing("/tasks", {"status": status or [], "min_priority": priority, **only}, limit)
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
    is_filtered = any((status, priority, agent, task_type, template, thread))
    empty = "No such task." if is_filtered else "No tasks. Submit one: corral task submit --title … --command …"
    table(rows, columns, empty=empty)


@app.command(prints="work.tasks.api.TaskDetail")
def detail(
    task_id: Id,
    follow: Annotated[
        bool, Option("--follow", "-f", help="Print its events and its worker's output until it has ended.")
    ] = False,
) -> None:
    """Show all about a task: input, attempts, usage, result, landing."""
    if follow:
        follow_task(client(), task_id)
        return
    task = client().request("GET", f"/tasks/{segment(task_id)}/detail")
    if not printed(task):
        show_task(task, changed=stat_line(f"/tasks/{segment(task_id)}/diff"))


@app.command(prints="work.merges.api.Changes")
def diff(task_id: Id, stat: Stat = False) -> None:
    """Show what a task has changed, also while it runs."""
    show_diff(f"/tasks/{segment(task_id)}/diff", stat=stat)


@app.command(prints="work.tasks.api.Claimed")
def claim(
    task_types: Annotated[list[str] | None, option("--type", "Only tasks of this type; repeatable.", "TYPE")] = None,
) -> None:
    """Claim the next task that no worker executes; it stays yours until you complete it or your session ends."""
    body = {"task_types": task_types or [], "session_id": session_id(), "idempotency_key": _key()}
    answer = client().request("POST", "/tasks/claim", body)
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


@app.command(prints="work.tasks.api.Completed")
def complete(
    task_id: Id,
    failed: Annotated[bool, Option("--failed", help="Report a failure; it is not retried.")] = False,
    result: Annotated[str | None, option("--result", "Result: a JSON object.", "JSON")] = None,
    error: Annotated[str | None, option("--error", "Reason of the failure.", "TEXT")] = None,
) -> None:
    """Complete a task that you claimed, or report its failure."""
    value = json_object("--result", result)
    body = {"success": not failed, "result": value, "error_message": error, "session_id": session_id()}
    _acted("complete", task_id, body)


@app.command(prints="work.tasks.api.TaskState")
def cancel(
    task_id: Id,
    reason: Annotated[str, Option("--reason", help="Reason, stored with the task.")] = "Cancelled.",
    convention: Annotated[
        bool, Option("--convention", help="End it as failed, with error_code cancelled_by_orchestrator.")
    ] = False,
) -> None:
    """Cancel a task. A running task is stopped and its work saved."""
    _acted("cancel", task_id, {"reason": reason, "convention": convention})


@app.command(prints="work.tasks.api.TaskState")
def retry(task_id: Id) -> None:
    """Retry a task on the target's current tip; tasks that failed because of it are retried too."""
    _acted("retry", task_id, None)


@app.command(prints="work.tasks.api.Reprioritized")
def reprioritize(
    task_id: Id, priority: Annotated[int, Argument(min=0, max=10, help="10 first.", metavar="PRIORITY")]
) -> None:
    """Change the priority of a task that has not started."""
    answer = client().request("POST", f"/tasks/{segment(task_id)}/reprioritize", {"priority": priority})
    report(answer, f"{answer['task_id']}  priority {answer['priority']}")


def _acted(verb: str, task_id: str, body: dict[str, Any] | None) -> None:
    answer = client().request("POST", f"/tasks/{segment(task_id)}/{verb}", body)
    if not printed(answer):
        echo(f"{answer['task_id']}  {state(answer['status'])}")
        if verb == "cancel" and answer["status"] in (TaskStatus.RUNNING, TaskStatus.INTERRUPTED):
            echo(f"Its worker is being stopped, and its work saved: corral wait {answer['task_id'][:8]}")
        if answer.get("merge_id"):
            echo(f"Your branch was submitted as {answer['merge_id']}: corral wait {answer['task_id'][:8]}")
        if answer.get("uncommitted"):
            paths = ", ".join(one_line(path) for path in answer["uncommitted"])
            echo(paint(f"Not committed, so not submitted: {paths}. Commit it, then run: corral merge submit", "yellow"))


@app.command(prints="work.tasks.api.LogText")
def logs(
    task_id: Id,
    follow: Annotated[bool, Option("--follow", "-f", help="Follow the log.")] = False,
    attempt: Annotated[int | None, Option("--attempt", min=1, help="Attempt number (default: the last).")] = None,
    raw: Annotated[bool, Option("--raw", help="Show a client's event stream as it is.")] = False,
) -> None:
    """Show the output of a task's worker; a client's as its texts and tool calls."""
    print_log(f"/tasks/{segment(task_id)}/log", follow=follow, attempt=attempt, readable=not raw)


def print_log(
    path: str,
    *,
    follow: bool,
    attempt: int | None = None,
    readable: bool = False,
    run: str | None = None,
) -> None:
    """Print a log of the daemon, up to its current end or as it grows; as JSON in one piece: ``{text, complete}``.

    One of a verification has a heading, and as JSON a ``run``; where it is followed, the runs after it come too.
    """
    speaker, offset, heading = client(), 0, ""
    pieces: list[str] = []
    while True:
        query: dict[str, Any] = {"offset": offset, "wait_s": 20 if follow else 0, "attempt": attempt, "run": run}
        query["readable"] = "true" if readable else None
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
            run = str(part["run"]["number"])
        if not part["text"] and (part["complete"] or not follow):
            break
    if for_programs():
        emit({"text": "".join(pieces), "complete": part["complete"], **({"run": part["run"]} if "run" in part else {})})


def _key() -> str:
    """A key of its own for one submission or claim."""
    return os.urandom(16).hex()  # the module uuid asks for the platform, which takes as long as a list of tasks


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
