"""``corral feature``."""

from __future__ import annotations

import json
from typing import Annotated, Any

from corral.core.visible import one_line
from corral.faces.cli.asking import Field, Request
from corral.faces.cli.parsing import Exit, Group, Option
from corral.faces.cli.terminal.options import argument, to_lock_keys
from corral.faces.cli.terminal.output import echo, printed, report
from corral.faces.cli.terminal.tables import Column, table

app = Group("Features: lines of work, their claims and conflicts.")
SEQUENTIAL = 4
_SHOWN = (
    "feature_id", "title", "status", "registered_by", "branch_name", "merge_priority", "registered_at", "completed_at",
)  # fmt: skip
FeatureId = Annotated[str, argument("The feature's name, such as FEAT-123.", "ID", of="feature")]


@app.ask(
    "POST /features",
    Field("feature_id", "ID", of="feature"),
    Field("resource_claims", "--claim", "KEY", read=to_lock_keys),
    Field("title", "--title", "TEXT"),
    Field("branch_name", "--branch", "NAME", of="branch"),
    Field("merge_priority", "--priority"),
    Field("metadata", "--metadata", "JSON"),
    by="session_id",
)
def register(request: Request) -> None:
    """Register a feature, or replace the claims of an active one."""
    answer = request.send()
    report(answer, one_line(f"{answer['feature_id']}: {answer['action']}, {', '.join(answer['resource_claims'])}"))


@app.ask("GET /features", name="list")
def listing(request: Request) -> None:
    """List the active features."""
    rows = request.listing()
    columns: list[Column] = [
        ("FEATURE", "feature_id", 32),
        ("TITLE", "title", 40),
        ("BY", "registered_by", 24),
        ("CLAIMS", lambda row: ", ".join(row["resource_claims"]), 80),
    ]
    table(rows, columns, empty="No feature is registered.")


@app.ask("GET /features/{feature_id}")
def show(request: Request, feature_id: FeatureId) -> None:
    """Show one feature, active or ended."""
    row = request.send(feature_id=feature_id)
    if printed(row):
        return
    for name in _SHOWN:
        if row[name] is not None:
            echo(f"{name.replace('_', ' ')}: {one_line(str(row[name]))}")
    if row["metadata"]:
        echo(f"metadata: {one_line(json.dumps(row['metadata'], ensure_ascii=False))}")
    for claim in row["resource_claims"]:
        echo(f"claims: {one_line(claim)}")


@app.ask(
    "POST /features/analyze",
    Field("feature_id", "ID", of="feature"),
    Field("claims", "--claim", "KEY", read=to_lock_keys),
)
def analyze(request: Request) -> None:
    """Check claims against active features; exits with 4 if they must run one after the other."""
    answer = request.send()
    if not printed(answer):
        _explain(answer)
    if answer["feasibility"] == "SEQUENTIAL":
        raise Exit(SEQUENTIAL)


def _explain(answer: dict[str, Any]) -> None:
    contended, total = answer["total_conflicting_claims"], answer["total_candidate_claims"]
    echo(f"{answer['feasibility']}: {contended} of {total} claims overlap with active features.")
    for conflict in answer["conflicts"]:
        for mine, theirs in conflict["claims"]:
            same = mine if mine == theirs else f"{mine} meets {theirs}"
            echo(one_line(f"  {conflict['feature_id']} ({conflict['feasibility']}): {same}"))
        if "left_out" in conflict:
            echo(one_line(f"  {conflict['feature_id']}: and {conflict['left_out']} more"))
    if "left_out" in answer:
        echo(f"  and {answer['left_out']} more features")


@app.ask("POST /features/deregister", Field("feature_id", "ID", of="feature"), "cancelled", by="session_id")
def deregister(
    request: Request,
    cancelled: Annotated[bool, Option("--cancelled", help="The feature was abandoned, not completed.")] = False,
) -> None:
    """End a feature: its claims no longer count."""
    request["status"] = "cancelled" if cancelled else "completed"
    answer = request.send()
    report(answer, one_line(f"{answer['feature_id']}: {answer['status']}"))
