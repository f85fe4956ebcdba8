"""``corral alert``: list, ack, test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from corral.core.visible import one_line
from corral.faces.cli.asking import Field, Request
from corral.faces.cli.parsing import Argument, Exit, Group
from corral.faces.cli.terminal.options import client
from corral.faces.cli.terminal.output import echo, paint, printed, report
from corral.faces.cli.terminal.person import refuse_agents
from corral.faces.cli.terminal.tables import Column, table

app = Group("Alerts: rules that fired, and the test of notifications.")
_COLUMNS: list[Column] = [
    ("ID", lambda row: row["alert_id"][:8], 8),
    ("STATE", "state", 12),
    ("RULE", "rule", 18),
    ("SINCE (UTC)", lambda row: row["first_raised_at"][:16].replace("T", " "), 16),
    ("WHAT", lambda row: one_line(row["reason"]), 160),
]
_STATES = {
    "off": "off",
    "sent": "sent to the desktop",
    "failed": "failed",
    "delivered": "delivered",
    "waiting": "not delivered yet, and tried again",
    "not_approved": "its address in the project's files is not approved on this machine: corral trust",
    "dropped": "dropped: too many notifications wait",
}


@app.ask("GET /alerts", Field("resolved", "--all", "-a"), name="list")
def listing(request: Request) -> None:
    """Show the open alerts."""
    table(request.send(), _COLUMNS, empty="No alerts." if request["resolved"] else "No open alerts.")


@app.ask("POST /alerts/{alert_id}/acknowledge")
def ack(
    request: Request, alert_id: Annotated[str, Argument(metavar="ID", help="The alert, or the beginning of its id.")]
) -> None:
    """Acknowledge an alert: no reminder follows until its cause is gone and comes back."""
    refuse_agents("Acknowledging an alert", f"corral alert ack {alert_id}")
    row = request.send(alert_id=alert_id)
    report(row, f"acknowledged: {one_line(row['reason'])}")


@app.command(prints="observe.alerts.api.NotificationTested")
def test() -> None:
    """Send a test notification on every way that is on, and say what came of it."""
    answer = client().request("POST", "/alerts/test", {"wait_s": 20}, timeout_s=60)
    if not printed(answer):
        _print_outcome("desktop", answer["desktop"], answer["desktop"]["problem"])
        _print_outcome("webhook", answer["webhook"], answer["webhook"]["error"])
        echo(
            f"bell     {'on, in terminals that run `corral status --watch` or `corral interactive`' if answer['bell'] else 'off'}"
        )
    if answer["webhook"]["state"] not in ("off", "delivered") or answer["desktop"]["state"] == "failed":
        raise Exit(1)


def _print_outcome(way: str, result: Mapping[str, Any], problem: str | None) -> None:
    good = result["state"] in ("off", "sent", "delivered")
    text = f"{_STATES[result['state']]}{f' ({one_line(problem)})' if problem else ''}"
    echo(f"{way:<9}{text if good else paint(text, 'red')}")
