"""``corral agent pin`` and ``corral agent rollout``: the version that an agent's tasks work by."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from corral.cli.terminal.options import Json, argument, client, option
from corral.cli.terminal.output import echo, emit, facts, paint, report
from corral.client.connection import segment
from corral.errors import InvalidInput
from corral.models.visible import one_line

app = typer.Typer()
_VERSION = "A version: 1.2.0, or the first six or more characters of its hash."
_TRUST = "It names commands that nobody approved: its tasks wait until you run corral trust."


@app.command()
def pin(
    name: Annotated[str, argument("An agent's name.", "NAME", of="agent")],
    version: Annotated[str | None, typer.Argument(help=_VERSION, metavar="[V]")] = None,
    unpin: Annotated[bool, typer.Option("--unpin", help="Work by what the file says again.")] = False,
    as_json: Json = False,
) -> None:
    """Pin an agent to a version of its definition.

    All of its tasks that start from now on work by that version, whatever the file says. A task's own --agent-version wins.
    """
    if (version is None) is not unpin:
        raise InvalidInput("Give a version, or --unpin.", remedy=f"corral agent versions {name}")
    path = f"/agents/{segment(name)}/pin"
    answer = client().request("DELETE", path) if unpin else client().request("POST", path, {"version": version})
    done = (
        f"{one_line(answer['agent'])} works by its file"
        if unpin
        else f"{answer['agent']} is pinned to {answer['version']}"
    )
    report(answer, f"{done}.", as_json=as_json)
    if answer.get("waits_for_trust") and not as_json:
        echo(paint(_TRUST, "yellow"))


@app.command()
def rollout(
    name: Annotated[
        str, typer.Argument(help="An agent's name; or `status` or `stop`, and then the name.", metavar="NAME")
    ],
    of: Annotated[
        str | None, typer.Argument(help="After `status` or `stop`: an agent's name.", metavar="[NAME]")
    ] = None,
    to: Annotated[str | None, option("--to", _VERSION, "V")] = None,
    share: Annotated[
        str | None, option("--share", "Share of the tasks that work by it, such as 20%.", "PERCENT")
    ] = None,
    as_json: Json = False,
) -> None:
    """Have a share of an agent's tasks work by a new version, and compare.

    It ends by itself if the new version is worse (settings `agents.rollout`), or if the definition's file is edited meanwhile.
    `corral agent rollout status NAME` shows how both do, `corral agent rollout stop NAME` ends it.
    """
    if of is not None:
        if name not in ("status", "stop") or to is not None or share is not None:
            raise InvalidInput("Write `corral agent rollout status NAME`, `stop NAME`, or `NAME --to V --share 20%`.")
        path = f"/agents/{segment(of)}/rollout"
        _show(client().request("GET", path) if name == "status" else client().request("DELETE", path), as_json=as_json)
        return
    if to is None or share is None:
        raise InvalidInput(
            "A rollout needs --to and --share.", remedy=f"corral agent rollout {name} --to V --share 20%"
        )
    body = {"version": to, "share": _part(share)}
    _show(client().request("POST", f"/agents/{segment(name)}/rollout", body), as_json=as_json)


@app.command()
def improve(
    name: Annotated[str, argument("An agent's name.", "NAME", of="agent")],
    feedback: Annotated[
        Path | None, typer.Option("--feedback", help="A file: praise and complaints.", metavar="FILE")
    ] = None,
    deploy_if_better: Annotated[
        bool, typer.Option("--deploy-if-better", help="Write a version that does better into the file.")
    ] = False,
    status: Annotated[bool, typer.Option("--status", help="Show the newest improvement instead.")] = False,
    as_json: Json = False,
) -> None:
    """Have a meta-agent propose a better version of an agent, and compare both.

    It gets the agent's record, the feedback and the ends of failed tasks' logs, without secrets, and writes new instructions and
    test cases. Both versions do the cases in worktrees whose work never lands; the test commands run as a worker's do.
    """
    path = f"/agents/{segment(name)}/improvement"
    if status:
        found = client().request("GET", path)
    else:
        text = feedback.read_text(encoding="utf-8", errors="replace") if feedback is not None else None
        found = client().request("POST", path, {"feedback": text, "deploy_if_better": deploy_if_better})
    if as_json:
        emit(found)
        return
    made, told = found["report"] or {}, found["reason"]
    facts({"agent": found["agent"], "state": found["state"], "version": found["version"], "reason": told}, 14)
    if made:
        facts({"recommended": made["recommendation"], "why": made["why"], "deployed": made["deployed"]}, 14)
        if made["recommendation"] == "deploy" and not made["deployed"]:
            echo(f"To deploy it: corral agent rollback {found['agent']} {found['version']}, or corral agent rollout.")
    elif not told:
        echo(paint(f"corral agent improve {found['agent']} --status shows how it goes.", "dim"))


def _part(said: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", said.strip())
    part = float(found[1]) / 100 if found else 0.0
    if not 0 < part < 1:
        raise InvalidInput(
            f"--share {said!r} is no share.", remedy="Write a percentage between 0% and 100%, such as 20%."
        )
    return part


def _show(found: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        emit(found)
        return
    head = (
        f"{found['agent']} {found['version']} instead of {found['from']}, for {100 * found['share']:g} % of the tasks"
    )
    echo(paint(one_line(head), "bold"))
    facts({"state": found["state"], "reason": found["reason"], "tasks": found["tasks"], "so far": found["summary"]}, 8)
    if found["finding"] == "better" and found["state"] == "running":
        echo(f"To use it for all tasks: corral agent rollout stop {found['agent']}, then corral agent rollback "
             f"{found['agent']} {found['version']}")  # fmt: skip
    if found.get("waits_for_trust"):
        echo(paint(_TRUST, "yellow"))
