"""``corral session``."""

from __future__ import annotations

from typing import Annotated, Any

from corral.client.connection import segment
from corral.core.errors import InvalidInput
from corral.core.visible import one_line
from corral.faces.cli.asking import Field, Request
from corral.faces.cli.parsing import Group
from corral.faces.cli.terminal.options import argument, client, guarded_project, option, session_id
from corral.faces.cli.terminal.output import echo, facts, paint, printed, report, state, waiting
from corral.faces.cli.terminal.tables import Column, age, table

app = Group("Sessions: the agents working on this repository.")


@app.ask(
    "GET /sessions", Field("status", "--status", "STATE"), Field("capability", "--capability", "WORD"), name="list"
)
def listing(request: Request) -> None:
    """List the sessions, including disconnected ones."""
    rows = request.listing()
    rows.sort(key=lambda row: str(row["last_heartbeat"]), reverse=True)
    columns: list[Column] = [
        ("NAME", "agent_name", 24),
        ("STATUS", "status", 12),
        ("SEEN", lambda row: age(row["last_heartbeat"]), 4),
        *([("TYPE", "agent_type", 12)] if any(row["agent_type"] != "claude" for row in rows) else []),
        ("PID", "pid", 7),
        ("TERMINAL", lambda row: row["terminal"] or "", 8),
        ("TASK", "current_task", 40),
        ("WORKTREE", lambda row: shortened(row["worktree"]), 40),
        *([("NOTES", _notes, 50)] if any(_notes(row) for row in rows) else []),
    ]
    empty = "No sessions yet. Start `claude` in this repository."
    table(rows, columns, empty=empty)


def shortened(worktree: str | None) -> str:
    """The folder of a worktree from the project's root on; one elsewhere in whole."""
    if worktree is None:
        return ""
    root = str(guarded_project().root)
    return "." if worktree == root else worktree.removeprefix(f"{root}/")


def _notes(row: dict[str, Any]) -> str:
    marks = [f"also {', '.join(row['names'])}"] if row["names"] else []
    marks += ["unguarded"] if row["unguarded"] else []
    marks += [waiting(row["waiting_for"])] if row["waiting_for"] else []
    return "; ".join(marks)


@app.ask("GET /sessions/{session_id}")
def show(request: Request, session: Annotated[str, argument("A session's name or id.", "NAME", of="session")]) -> None:
    """Show a session with its commits and merge requests."""
    row = request.send(session_id=session)
    if printed(row):
        return
    echo(f"{paint(one_line(row['agent_name']), 'bold')}  {state(row['status'])}")
    about = {
        "id": row["session_id"],
        "also": ", ".join(row["names"]),
        "runs": ", ".join(_runs(registration) for registration in row["registered"] if registration["program"]),
        "type": row["agent_type"],
        "task": row["current_task"],
        "can": ", ".join(row["capabilities"]),
        "process": " in ".join(str(part) for part in (row["pid"], row["terminal"]) if part),
        "in": " on ".join(part for part in (row["worktree"], row["branch"]) if part),
        "ended": row["end_reason"],
    }
    facts(about)
    for commit in row["changesets"]["commits"]:
        echo(f"  {'commit':<8} {commit['sha'][:12]} {one_line(commit['subject'])}")
    if "left_out" in row["changesets"]:
        echo(f"  {'':<8} and {row['changesets']['left_out']} older commits and merges")
    for merge in row["changesets"]["merges"]:
        where = f"{one_line(merge['branch'])} → {merge['target']}"
        echo(f"  {'merge':<8} {merge['merge_id']}  {state(merge['state'])}  {where}")


def _runs(registered: dict[str, Any]) -> str:
    """The program that a session runs under a name."""
    model = f" with {registered['model']}" if registered["model"] else ""
    return f"{registered['program']}{model} as {registered['name']}"


@app.ask(
    "POST /sessions",
    Field("agent_name", "--name", "NAME"),
    Field("capabilities", "--capability", "WORD"),
    Field("current_task", "--task", "TEXT"),
    "program",
    "model",
    by="session_id",
    prints="coordination.sessions.api.Registered",
)
def register(
    request: Request,
    program: Annotated[str | None, option("--program", "Program that the agent runs.", "NAME")] = None,
    model: Annotated[str | None, option("--model", "Model that the agent uses.", "NAME")] = None,
) -> None:
    """Register a session, or update its capabilities and current task."""
    mine = request["session_id"]
    request["agent_type"] = None if mine else "shell"
    row = request.send()
    about = {"program": program, "model": model, "task_description": request["current_task"]}
    if program is not None or model is not None:
        row = {**row, **client().request("POST", f"/sessions/{segment(row['session_id'])}/names", about)}
    if printed(row):
        return
    echo(f"{paint(one_line(row['agent_name']), 'bold')}  {state(row['status'])}")
    if mine is None:
        echo(f"To act as this session: export CORRAL_SESSION_ID={row['session_id']}")


@app.ask(
    "POST /sessions/{session_id}/names",
    Field("name", "NAME"),
    Field("new", "--new"),
    Field("program", "--program", "NAME"),
    Field("model", "--model", "NAME"),
    Field("task_description", "--task", "TEXT"),
)
def name(
    request: Request, session: Annotated[str, argument("A session's name or id.", "SESSION", of="session")]
) -> None:
    """Give a session a further name that mail can address, or update the details of a name."""
    answer = request.send(session_id=client().request("GET", f"/sessions/{segment(session)}")["session_id"])
    report(answer, f"{answer['session_id']} has the name {paint(one_line(answer['name']), 'bold')}")


@app.ask("POST /sessions/{session_id}/end", by="caller")
def end(
    request: Request,
    session: Annotated[
        str | None,
        argument("A session's name or id (default: this session).", "SESSION", show_default=False, of="session"),
    ] = None,
) -> None:
    """End a session and release its locks. A session can end only itself and its subagents; you can end any."""
    mine = request["caller"]
    if session is None and mine is None:
        raise InvalidInput("No session named.", remedy="Name a session; `corral session list` shows all.")
    full_id = mine if session is None else client().request("GET", f"/sessions/{segment(session)}")["session_id"]
    answer = request.send(session_id=full_id)
    report(answer, f"{answer['session_id']} {'has ended' if answer['ended'] else 'had ended before'}.")


@app.ask("POST /sessions/{session_id}/heartbeat")
def heartbeat(request: Request) -> None:
    """Send a heartbeat. Every other call of a session counts as one too."""
    mine = session_id()
    if mine is None:
        raise InvalidInput(
            "Unknown session: cannot send a heartbeat.",
            cause="Neither CORRAL_SESSION_ID nor CLAUDE_CODE_SESSION_ID is set.",
            remedy="Run `corral session register` and export the variable that it prints.",
        )
    answer = request.send(session_id=mine)
    report(answer, f"{answer['session_id']} is alive.")


@app.ask("POST /sessions/cleanup", Field("stale_threshold_minutes", "--silent-for", "MINUTES"))
def cleanup(request: Request) -> None:
    """End dead sessions and release their locks."""
    answer = request.send()
    report(answer, f"{answer['agents_cleaned']} session(s) ended, {answer['locks_released']} lock(s) released.")
