"""The changes of a task or a merge request, as text."""

from __future__ import annotations

from typing import Any

from corral.core.errors import CorralError
from corral.core.visible import one_line, visible
from corral.faces.cli.asking import Field, Request
from corral.faces.cli.terminal.options import client
from corral.faces.cli.terminal.output import echo, paint, printed
from corral.faces.cli.terminal.tables import Column, table

STAT = Field("patch", "--stat", off="Show only how many lines of each file changed.")
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def show_diff(request: Request, **in_path: Any) -> None:
    """Print the changes that a request whose path ends in ``/diff`` is about."""
    answer, stat = request.send(timeout_s=130, **in_path), not request["patch"]
    if printed(answer):
        return
    if not stat:
        show_patch(answer["patch"])
    else:
        _show_stat(answer)
    if answer["truncated"]:
        echo(paint("This is not all: the change is larger than shown here.", "yellow"))
    if any(file["added"] is None for file in answer["files"]):
        echo(paint("The lines of binary files, and of files over 1 MiB, are not shown or counted.", "dim"))
    if answer["note"] or not answer["files"]:
        echo(answer["note"] or "No changes.")
    elif answer["uncommitted"] and stat:
        echo(paint("The state of its worktree; not all of it is committed yet.", "dim"))


def show_patch(patch: str) -> None:
    """Print a patch; on a terminal, added and removed lines are coloured."""
    in_hunk = False
    for line in patch.removesuffix("\n").split("\n") if patch else ():
        in_hunk = (in_hunk or line.startswith("@@")) and not line.startswith("diff --git ")
        echo(paint(visible(line), _COLOURS.get(line[:1], "") if in_hunk else "bold"))


def stat_line(path: str) -> str | None:
    """How much changed, in one line; None if nothing did, or if the commits are gone."""
    try:
        answer = client().request("GET", path, query={"patch": "false"}, timeout_s=130)
    except CorralError:  # it is an extra: the command `diff` tells why
        return None
    return _totals(answer) if answer["files"] else None


def _totals(answer: dict[str, Any]) -> str:
    count = answer["files_changed"]
    files = f"{count} file{'' if count == 1 else 's'}"
    added = answer["lines_added"]
    return f"{files}, {added} line{'' if added == 1 else 's'} added, {answer['lines_removed']} removed"


def _show_stat(answer: dict[str, Any]) -> None:
    columns: list[Column] = [
        ("FILE", lambda row: one_line(row["path"]), 120),
        ("ADDED", lambda row: "binary" if row["added"] is None else str(row["added"]), 7),
        ("REMOVED", lambda row: "" if row["removed"] is None else str(row["removed"]), 7),
    ]
    if answer["files"]:
        table(answer["files"], columns, empty="")
        echo(_totals(answer))
