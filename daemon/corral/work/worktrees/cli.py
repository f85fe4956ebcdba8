"""``corral worktree``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any

from corral.client.connection import segment
from corral.core.errors import WorkAtRisk
from corral.core.marks import of_a_session
from corral.core.visible import one_line
from corral.faces.cli.asking import Field, Request
from corral.faces.cli.parsing import Group
from corral.faces.cli.terminal.options import argument, client
from corral.faces.cli.terminal.output import echo, for_programs, printed, report
from corral.faces.cli.terminal.person import refuse_agents
from corral.faces.cli.terminal.progress import progress
from corral.faces.cli.terminal.tables import Column, table

app = Group("Worktrees of tasks and sessions, and salvaged work.")


@app.ask("GET /worktrees", name="list")
def listing(request: Request) -> None:
    """List the worktrees that Corral created."""
    rows = request.listing()
    columns: list[Column] = [
        ("NAME", "name", 40),
        ("STATE", "state", 12),
        ("FOR", "purpose", 8),
        ("BRANCH", "branch", 40),
        ("PATH", "path", 80),
        ("NOTE", "note", 240),
    ]
    table(rows, columns, empty="No worktrees.")


@app.ask("POST /worktrees", Field("name", "NAME"), Field("base", "--base", "COMMIT", of="branch"), by="session_id")
def create(request: Request) -> None:
    """Create a worktree that is ready to use: dependencies, environment files, ports."""
    with progress(f"making {request['name']}"):
        answer = request.send(timeout_s=600)
    report(answer, answer["path"])


@app.ask("DELETE /worktrees/{name}")
def remove(
    request: Request,
    name: Annotated[str, argument("A worktree's name, as `corral worktree list` shows it.", "NAME", of="worktree")],
) -> None:
    """Remove a worktree. Its unlanded work is saved first; `recover` restores it."""
    with progress(f"removing {name}"):
        answer = request.send(name=name, timeout_s=300)
    if not answer["removed"]:
        why, _, what_to_do = (answer["note"] or "").partition("\n")
        raise WorkAtRisk(f"{name} was not removed.", cause=why, remedy=what_to_do, details={"worktree": answer})
    saved = f"; its state is saved as {answer['salvage_ref']}" if answer.get("salvage_ref") else ""
    lost = f"\n{one_line(answer['note'])}" if answer["note"] else ""
    report(answer, f"removed {answer['name']}{saved}{lost}")


@app.ask("GET /worktrees/pool")
def pool(request: Request) -> None:
    """Show the worktrees that are kept for the next tasks."""
    state = request.send()
    columns: list[Column] = [
        ("NAME", "name", 40),
        ("SIZE", lambda row: f"{row['size_bytes'] / 2**20:,.0f} MB", 12),
        ("SINCE (UTC)", "kept_at", 20),
        ("BASE", lambda row: row["base_sha"][:12], 12),
        ("PATH", "path", 80),
        ("NOTE", "note", 240),
    ]
    if printed(state):
        return
    table(state["worktrees"], columns, empty="No worktree is kept.")
    size = f"{state['size_bytes'] / 2**20:,.0f} of {state['most_mb']:,} MB"
    echo(f"\nbounds: {len(state['worktrees'])} of {state['most']} worktrees, {size}")
    echo(f"since the daemon's start: {state['kept']} kept, {state['used']} used")
    for title, reasons in (("removed instead", state["not_kept"]), ("not used", state["not_used"])):
        for row in reasons:
            echo(f"{title}: {row['count']} × {row['reason']}")


@app.command(prints="work.worktrees.api.Recovery")
def recover(
    name: Annotated[
        str | None, argument("A worktree's name or a salvage ref; without it: list.", "NAME", of="saved work")
    ] = None,
) -> None:
    """List saved work, or restore it into a new worktree.

    For a person also the files that git ignores; nothing is replaced. Agents neither see nor restore those.
    """
    is_agent = of_a_session(os.environ) is not None
    if name is not None:
        if name.startswith("refs/corral/private/"):
            refuse_agents("Restoring files that git ignores", f"corral worktree recover {name}")
        # Without the prefix: the audit, which agents can read, names what was asked for.
        known_as = name.removeprefix("refs/corral/private/")
        path = f"/worktrees/{segment(known_as)}/recover{'' if is_agent else '/all'}"
        with progress(f"recovering {name}"):
            answer = client().request("POST", path, timeout_s=300)
        report(answer, f"{answer['path']}  (branch {answer['branch']}, from {answer['ref']})")
        if not for_programs():
            _tell_of_ignored(answer)
        return
    rows = client().listing("/salvage")
    if not is_agent:
        rows = sorted([*rows, *client().listing("/salvage/private")], key=lambda row: row["at"], reverse=True)
    columns: list[Column] = [
        ("NAME", "name", 40),
        ("SAVED (UTC)", "at", 20),
        ("FILES", lambda row: f"{len(row['files'])}{' ignored' if row['private'] else ''}", 14),
        ("LEFT OUT", lambda row: str(len(row["left_out"]) or ""), 8),
        ("WHY", "reason", 50),
        ("REF", "ref", 90),
    ]
    table(rows, columns, empty="No saved work.")


def _tell_of_ignored(answer: Mapping[str, Any]) -> None:
    """Say which files that git ignores are back, where something stood in the way, and which were never saved."""
    if answer["ignored_files"]:
        echo(f"with {len(answer['ignored_files'])} file(s) that git ignores")
    for path, place in answer["aside"].items():
        echo(one_line(f"{path} has no place of its own there: the saved one is {place}"))
    for path, why in answer["left_out"].items():
        echo(one_line(f"not saved: {path} ({why})"))
