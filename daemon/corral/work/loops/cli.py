"""``corral loop``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from corral.core.errors import InvalidInput
from corral.core.visible import one_line, visible
from corral.faces.cli.asking import Field, Request
from corral.faces.cli.parsing import Group, Option
from corral.faces.cli.terminal.diff_view import STAT, show_diff
from corral.faces.cli.terminal.options import argument, option
from corral.faces.cli.terminal.output import echo, fact, paint, printed, report, state
from corral.faces.cli.terminal.tables import Column, age, table
from corral.work.tasks.cli import submission as work
from corral.work.tasks.cli.submission import Values, key_of_one, make_whole

app = Group("Loops: repeat work until criteria say that it is good.")
Id = Annotated[
    str, argument("The loop's task: its number or id, or its first four or more characters.", "ID", of="task")
]
_ENDED = ("failed", "cancelled", "dead")
Most = Annotated[
    str | None, option("--max-iterations", "Most iterations (default: loops.max_iterations).", "N|unlimited")
]


@app.ask(
    "POST /tasks",
    work.COMMAND,
    work.PROMPT,
    work.AGENT,
    work.INPUT,
    work.TEMPLATE,
    "set_",
    Field("title", "--title", "-t", "TEXT", also=" (default: from what is done)", required=False),
    *("test", "junit", "threshold", "bound", "pattern", "json_path", "plateau", "condition"),
    *("judge", "votes", "judge_model"),
    Field("loop.any", "--any"),
    "max_iterations",
    Field("loop.timeout_s", "--timeout", "SECONDS"),
    Field("loop.land_best", "--land-best"),
    Field("target", "--onto", "BRANCH", of="branch"),
    work.PRIORITY,
    by="submitted_by",
)
def start(
    request: Request,
    set_: Values = None,
    test: Annotated[str | None, option("--test", "Good when this command exits with 0.", "CMD")] = None,
    junit: Annotated[
        str | None, option("--junit", "JUnit report that --test writes, below the worktree.", "PATH")
    ] = None,
    threshold: Annotated[
        str | None, option("--threshold", "Good when this command's number meets --target.", "CMD")
    ] = None,
    bound: Annotated[str | None, option("--target", "Target of --threshold, such as '>=0.9'.", "TARGET")] = None,
    pattern: Annotated[
        str | None, option("--pattern", "Regular expression that finds the number (default: the last one).", "REGEX")
    ] = None,
    json_path: Annotated[
        str | None, option("--json-path", "Place of the number in printed JSON, such as $.totals.coverage.", "PATH")
    ] = None,
    plateau: Annotated[
        int | None, Option("--plateau", min=1, help="Stop after as many iterations without a better number.")
    ] = None,
    condition: Annotated[
        str | None,
        option("--condition", "Command or FILE.py:FUNCTION that says 0 go on, 1 good, 2 failed.", "CMD"),
    ] = None,
    judge: Annotated[
        Path | None, option("--judge", "Good when Claude says that the work meets the rubric in this file.", "FILE")
    ] = None,
    votes: Annotated[int, Option("--votes", min=1, max=15, help="Votes of --judge.")] = 3,
    judge_model: Annotated[str | None, option("--judge-model", "Model of --judge.", "MODEL")] = None,
    max_iterations: Most = None,
) -> None:
    """Start a loop: each iteration goes on in one worktree and is told what the last evaluation said; a good one lands."""
    if not request.keys() & {"command", "prompt", "agent", "template"}:
        raise InvalidInput("A loop needs --command, --prompt, --agent or --template.", remedy="Add one of them.")
    measured = _threshold(threshold, bound, pattern, json_path, plateau)
    until = [*_tests(test, junit), *measured, *_condition(condition), *_judge(judge, votes, judge_model)]
    make_whole(request, set_)
    request["loop"] = {**request.get("loop", {}), **_limits(max_iterations), **({"until": until} if until else {})}
    request["idempotency_key"] = key_of_one()
    if not request["template"]:
        request["title"] = request["title"] or _title(request)
    if request["agent"] and not (request["prompt"] or request["command"]):
        request["description"] = _described(request["input_data"])
    if request["template"] is None and not until:
        raise InvalidInput(
            "A loop needs a criterion.",
            cause="Without one nothing could say that its work is good.",
            remedy="Add --test, --threshold with --target, --condition or --judge.",
        )
    answer = request.send()
    report(answer, f"{answer['task_id']}  {state(answer['status'])}  {one_line(answer['title'])}")


def _title(request: Request) -> str:
    fields = request["input_data"] or {}
    own = fields.get("title") or fields.get("task") or f"Loop of {request['agent']}"
    text = request["command"] or request["prompt"] or str(own)
    return (text.strip().splitlines() or ["Loop"])[0][:200]


def _described(input_object: dict[str, Any] | None) -> str | None:
    """The description for an agent that gets only an input."""
    import json

    return f"Your input:\n\n{json.dumps(input_object, indent=2)}" if input_object else None


def _tests(command: str | None, junit: str | None) -> list[dict[str, Any]]:
    if command is None:
        if junit is not None:
            raise InvalidInput("--junit needs --test.", remedy="Add the command that writes the report.")
        return []
    return [{"kind": "tests", "command": command, **({"junit": junit} if junit else {})}]


def _threshold(
    command: str | None, target: str | None, pattern: str | None, path: str | None, plateau: int | None
) -> list[dict[str, Any]]:
    options = {"target": target, "pattern": pattern, "path": path, "plateau": plateau}
    chosen = {name: value for name, value in options.items() if value is not None}
    if command is None and chosen:
        raise InvalidInput("--target, --pattern, --json-path and --plateau need --threshold.", remedy="Add it.")
    if command is not None and target is None:
        raise InvalidInput("--threshold needs --target.", remedy="Add, for example, --target '>=0.9'.")
    return [{"kind": "threshold", "command": command, **chosen}] if command is not None else []


def _condition(text: str | None) -> list[dict[str, Any]]:
    if text is None:
        return []
    file, colon, name = text.rpartition(":")
    is_function = bool(colon) and file.endswith(".py") and name.isidentifier() and not any(map(str.isspace, file))
    return [{"kind": "custom", "function" if is_function else "command": text}]


def _judge(file: Path | None, votes: int, model: str | None) -> list[dict[str, Any]]:
    if file is None:
        if model is not None:
            raise InvalidInput("--judge-model needs --judge.", remedy="Add a file with the rubric.")
        return []
    try:
        rubric = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InvalidInput(f"Cannot read the rubric {file}.", cause=str(error), remedy="Name a text file.") from error
    if not rubric.strip():
        raise InvalidInput(f"The rubric {file} is empty.", remedy="Write down what good work is.")
    return [{"kind": "judge", "rubric": rubric, "votes": votes, **({"model": model} if model else {})}]


def _limits(max_iterations: str | None) -> dict[str, Any]:
    if max_iterations in (None, "unlimited"):
        return {"max_iterations": max_iterations} if max_iterations else {}
    if not max_iterations.isascii() or not max_iterations.isdecimal() or int(max_iterations[:9]) < 1:
        raise InvalidInput(
            f"--max-iterations {max_iterations!r} is no number of iterations.",
            remedy="Give one from 1, or `unlimited`.",
        )
    return {"max_iterations": int(max_iterations)}


@app.ask("GET /loops/{loop_id}")
def status(request: Request, loop_id: Id) -> None:
    """Show where a loop stands: iterations, the last verdict, the best one."""
    loop = request.send(loop_id=loop_id)
    if printed(loop):
        return
    _show(loop)


def _show(loop: dict[str, Any]) -> None:
    most = loop["max_iterations"] or "unlimited"
    echo(f"{loop['task_id']}  {state(loop['status'])}  {one_line(loop['title'])}")
    counted = f"{loop['counted_iterations']} of {most}"
    is_first = loop["counted_iterations"] == loop["iterations"]
    fact("iterations", counted if is_first else f"{loop['iterations']}: {counted} since it was resumed")
    if loop["running_iteration"] is not None:
        fact("running", f"iteration {loop['running_iteration']}")
    fact("time", f"{loop['elapsed_s']:.1f} s of {loop['timeout_s']:g} s")
    if loop["verdict"] is not None:
        fact("verdict", loop["verdict"].replace("_", " "))
    if loop["best"] is not None:
        fact("best", f"iteration {loop['best']['iteration']}, {loop['best']['head_sha'][:12]}")
    if loop["error_code"] is not None:
        error = f"{loop['error_code']}: {one_line(loop['error_message'] or '')}"
        fact("ended", error) if loop["status"] in _ENDED else fact("cut short", f"{error} It continues automatically.")
    if loop.get("merge") is not None:
        fact("merge", f"{loop['merge']['merge_id'][:8]} {state(loop['merge']['state'])}")
    if command := _next(loop):
        fact("next", command)


def _next(loop: dict[str, Any]) -> str:
    """The commands that help a loop that has ended; empty: it needs none."""
    task, merge = loop["task_id"][:8], (loop.get("merge") or {}).get("state")
    if merge in ("conflict", "failed", "cancelled"):
        return f"corral loop resume {task} (goes on from what it has achieved)"
    if loop["status"] not in _ENDED or merge is not None:
        return ""
    landing = f", or corral loop land {task}" if loop["best"] is not None else ""
    return f"corral loop history {task}; then corral loop resume {task}{landing}"


@app.ask("GET /loops/{loop_id}/history")
def history(request: Request, loop_id: Id) -> None:
    """Show every iteration of a loop: commits, actions of its agent, evaluation; with --json all of it."""
    rows = request.send(loop_id=loop_id)
    if printed(rows):
        return
    if not rows:
        echo("No iteration has been completed yet.")
    for row in rows:
        mark = "  best" if row["best"] else ""
        head = f"iteration {row['iteration']}  {row['verdict'].replace('_', ' ')}  {row['duration_s']:.1f} s{mark}"
        echo(paint(head, "bold"))
        echo(paint(f"  from {row['base_sha'][:12]} to {row['head_sha'][:12]}", "dim"))
        if lost := (row.get("conversation") or {}).get("lost"):
            echo(paint(f"  a new conversation: {visible(lost)}", "dim"))
        for line in row["actions"][-8:]:
            echo(paint(f"    {visible(line)}", "dim"))
        for evaluation in row["evaluations"]:
            value = evaluation["value"]
            shown = "" if value is None or isinstance(value, dict) else f" {value}"
            echo(f"  {evaluation['kind']}: {evaluation['verdict'].replace('_', ' ')}{shown}")
            for line in (evaluation["evidence"] or "").splitlines()[:8]:
                echo(paint(f"    {visible(line)}", "dim"))


@app.ask("GET /loops", name="list")
def listing(request: Request) -> None:
    """List the loops, the newest first."""
    columns: list[Column] = [
        ("TASK", lambda row: row["task_id"][:8], 8),
        ("STATUS", "status", 11),
        ("DONE", lambda row: f"{row['counted_iterations']}/{row['max_iterations'] or '∞'}", 9),
        ("VERDICT", lambda row: (row["verdict"] or "").replace("_", " "), 13),
        ("AGE", lambda row: age(row["created_at"]), 5),
        ("TITLE", "title", 60),
    ]
    table(request.send(), columns, empty="There are no loops.")


@app.ask("POST /loops/{loop_id}/stop", Field("reason", "--reason", "TEXT"))
def stop(request: Request, loop_id: Id) -> None:
    """Stop a loop; its iterations stay, and `corral loop resume` goes on from them."""
    loop = request.send(loop_id=loop_id)
    report(loop, f"{loop['task_id']}  {state(loop['status'])}  {loop['iterations']} iterations")


@app.ask("POST /loops/{loop_id}/resume", Field("timeout_s", "--timeout", "SECONDS"))
def resume(request: Request, loop_id: Id, max_iterations: Most = None) -> None:
    """Let a loop that was stopped or ended at its limits go on from its last iteration."""
    request |= _limits(max_iterations)
    loop = request.send(loop_id=loop_id)
    report(loop, f"{loop['task_id']}  {state(loop['status'])}  {loop['iterations']} iterations")


@app.ask("POST /loops/{loop_id}/land", Field("iteration", "--iteration"), prints="work.merges.wire.Submitted")
def land(request: Request, loop_id: Id) -> None:
    """Queue what an iteration made for landing, although the loop has not converged."""
    merge = request.send(loop_id=loop_id)
    line = f"{merge['merge_id']}  {state(merge['state'])}" if merge["merge_id"] else "The target has all of it already."
    report(merge, line)


@app.ask("GET /loops/{loop_id}/diff", Field("before", "--from"), Field("after", "--to"), STAT)
def diff(request: Request, loop_id: Id) -> None:
    """Show the changes between two iterations of a loop; by default those of the last one."""
    show_diff(request, loop_id=loop_id)
