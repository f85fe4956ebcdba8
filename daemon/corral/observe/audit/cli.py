"""``corral audit``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from corral.core.visible import one_line
from corral.faces.cli.asking import Field, Request, asks
from corral.faces.cli.parsing import Exit, Option
from corral.faces.cli.terminal.options import client, option, span
from corral.faces.cli.terminal.output import echo, paint, printed
from corral.faces.cli.terminal.tables import Column, table

_SHOWN = 80


def _short(value: Mapping[str, Any]) -> str:
    return one_line(json.dumps(value, ensure_ascii=False)) if value else ""


def _outcome(row: Mapping[str, Any]) -> str:
    result = row["result"]
    error = result.get("error")
    message = error.get("message") or error.get("name") if isinstance(error, dict) else error
    return f"{result.get('status', '')}: {message}" if message else str(result.get("status", ""))


_COLUMNS: list[Column] = [
    ("TIME (UTC)", lambda row: row["timestamp"][:19].replace("T", " "), 19),
    ("AGENT", "agent_id", 16),
    ("TASK", lambda row: (row["task_id"] or "")[:8], 8),
    ("ACTION", "action", 24),
    ("PARAMETERS", lambda row: _short(row["parameters"]), _SHOWN),
    ("RESULT", _outcome, 40),
]


@asks(
    "GET /audit",
    Field("agent", "--agent", "A"),
    Field("task", "--task", "T"),
    Field("action", "--action", "X"),
    Field("since_s", "--since", "SPAN", also=", such as 90m, 12h, 1d or 4w", read=span),
    *("limit", "verify"),
    prints="observe.audit.api.AuditShown",
)
def audit(
    request: Request,
    limit: Annotated[int, option("--limit", "Maximum number of lines, the newest.", "N", min=1)] = 200,
    verify: Annotated[
        bool,
        Option("--verify", help="Check that no line was changed, removed or inserted; exit code 1 if one was."),
    ] = False,
) -> None:
    """Show who did what, with which parameters and result, the newest first; or check that the record is whole."""
    if verify:
        _verify()
        return
    request["limit"] = min(limit, 1000)
    rows = request.listing(limit)
    table(rows, _COLUMNS, empty="No matching lines.")


def _verify() -> None:
    verification = client().request("GET", "/audit/verification", timeout_s=600)
    if printed(verification):
        pass
    elif verification["valid"]:
        echo(
            f"The audit is whole: {verification['lines']} lines, {verification['first_seq']} to {verification['last_seq']}."
        )
        if verification["removed_until"]:
            echo(paint(f"Lines up to {verification['removed_until']} were removed by retention.", "dim"))
    else:
        echo(paint("The audit was tampered with, or its file was damaged:", "red"))
        for problem in verification["problems"]:
            echo(f"  line {problem['seq']}: {problem['problem']}")
    if not verification["valid"]:
        raise Exit(1)
