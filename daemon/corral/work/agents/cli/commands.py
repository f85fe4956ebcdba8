"""``corral agent``: the agents that a task can name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from corral.client.connection import segment
from corral.core.errors import InvalidInput
from corral.core.visible import one_line, visible
from corral.faces.cli.asking import Field, Request
from corral.faces.cli.parsing import Argument, Exit, Group, Option
from corral.faces.cli.program.settings_file import load_settings
from corral.faces.cli.terminal.context import project
from corral.faces.cli.terminal.diff_view import show_patch
from corral.faces.cli.terminal.options import argument, client, content, option
from corral.faces.cli.terminal.output import echo, facts, for_programs, paint, printed, report
from corral.faces.cli.terminal.person import confirm, is_terminal, refuse_agents
from corral.faces.cli.terminal.tables import Column, age, table
from corral.work.agents.cli import record

app = Group("Agents: team members and agent definitions that do tasks.")
app.add(record.app)


@app.ask("GET /agents", name="list")
def listing(request: Request) -> None:
    """List the agents that `corral task submit --agent` accepts."""
    rows = request.send()
    if not printed(rows):
        show_table(rows, ("FROM", "source", 8))


def show_table(rows: list[dict[str, Any]], more: Column, *, empty: str = "") -> None:
    """Print the agents, and below them the problems of those that cannot start here."""
    columns: list[Column] = [("NAME", "name", 24), more, ("RUNNER", "runner", 16), ("MODEL", "model", 28)]
    table(rows, [*columns, ("CAPABILITIES", _able, 40), ("FOR", "description", 60)], empty=empty)
    for row in rows:
        if row["problem"]:
            echo(paint(one_line(f"{row['name']} cannot start here: {row['problem']}"), "yellow"))


@app.ask("POST /swarm/agents/{agent_id}/kill")
def kill(
    request: Request,
    agent: Annotated[
        str, argument("A running agent, as `corral swarm status` shows it, or its task.", "AGENT", of="running agent")
    ],
) -> None:
    """Stop an agent's worker; its task is tried again, as after any failure."""
    answer = request.send(agent_id=agent)
    report(answer, f"{one_line(agent)} is being stopped; task {answer['task_id'][:8]} is tried again.")


@app.ask("GET /agents/{name}", prints="work.agents.api.AgentShown")
def show(
    request: Request,
    name: Name,
    version: Annotated[
        str | None, option("--version", "Show the text of a version, as `corral agent versions` lists it.", "V")
    ] = None,
) -> None:
    """Show the runner, model, tools, limits and capabilities of an agent; or one version of its definition."""
    if version is not None:
        show_version(name, version)
        return
    agent = request.send(name=name)
    if printed(agent):
        return
    echo(paint(one_line(agent["name"]), "bold"))
    plain = ("description", "runner", "model", "source", "file", "problem")
    shown = {"able": _able(agent), "command": shlex.join(agent.get("command") or ())}
    shown["tools"] = ", ".join(agent.get("tools") or ()) or (
        "all of its runner" if agent.get("tools") is None else "none"
    )
    shown["not"] = ", ".join(agent.get("disallowed_tools") or ())
    shown["limits"] = ", ".join(f"{name} {value:g}" for name, value in (agent.get("limits") or {}).items())
    facts({field: agent.get(field) for field in plain} | shown, 11)


def _able(agent: dict[str, Any]) -> str:
    return ", ".join(agent.get("capabilities") or ())


# -- ``corral agent versions``, ``diff``, ``rollback``: the texts that an agent's definition has worked with

Name = Annotated[str, argument("An agent's name, as `corral agent list` shows it.", "NAME", of="agent")]


@app.ask("GET /agents/{name}/versions")
def versions(request: Request, name: Name) -> None:
    """List the versions of an agent's definition, the newest first."""
    columns: list[Column] = [
        ("VERSION", lambda row: f"{row['version']}{' *' if row['current'] else ''}", 12),
        ("HASH", lambda row: row["content_hash"][:12], 12),
        ("USED", lambda row: age(row["created_at"]) if row["used"] else "not yet", 8),
        ("BY", "author", 30),
        ("REASON", "reason", 50),
        ("CHANGE", "changelog", 50),
    ]
    rows = request.send(name=name)
    table(rows, columns, empty=f"{one_line(name)} has no definition, and so no versions.")
    if not for_programs() and any(row["current"] for row in rows):
        echo(paint("* what its file says now", "dim"))


@app.ask("GET /agents/{name}/diff", Field("before", "V1"), Field("after", "V2"))
def diff(request: Request, name: Name) -> None:
    """Show what differs between two versions of an agent's definition."""
    answer = request.send(name=name)
    if printed(answer):
        return
    if answer["patch"]:
        show_patch(answer["patch"])
    else:
        echo("No difference.")


@app.ask("POST /agents/{name}/rollback", Field("version", "V"))
def rollback(request: Request, name: Name) -> None:
    """Write a version of an agent's definition back into its file, for you to look at and commit.

    Refused while the file has text that is in no commit and in no version. A running attempt goes on with the version that it
    began with.
    """
    refuse_agents(
        "Deploying a version of an agent", shlex.join(["corral", "agent", "rollback", name, request["version"]])
    )
    answer = request.send(name=name)
    file = one_line(answer["file"])
    line = f"{file} is version {answer['version']} again; look at it with git diff, and commit it."
    report(answer, line if answer["changed"] else f"{file} is version {answer['version']} already.")


def show_version(name: str, version: str) -> None:
    """Print one version with its text."""
    shown: dict[str, Any] = client().request("GET", f"/agents/{segment(name)}/versions/{segment(version)}")
    if printed(shown):
        return
    echo(paint(one_line(f"{shown['agent']} {shown['version']}"), "bold"))
    plain = ("content_hash", "created_at", "author", "reason", "changelog")
    facts({field: shown[field] for field in plain}, 13)
    echo("")
    echo(visible(shown["content"]))


# -- ``corral agent pin`` and ``corral agent rollout``: the version that an agent's tasks work by

_TRUST = "It names commands that nobody approved: its tasks wait until you run corral trust."


@app.ask(
    "POST /agents/{name}/pin", Field("version", "[V]", required=False), "unpin", prints="work.agents.api.PinChange"
)
def pin(
    request: Request,
    name: Annotated[str, argument("An agent's name.", "NAME", of="agent")],
    unpin: Annotated[bool, Option("--unpin", help="Work by what the file says again.")] = False,
) -> None:
    """Pin an agent to a version of its definition.

    All of its tasks that start from now on work by that version, whatever the file says. A task's own --agent-version wins.
    """
    version = request["version"]
    if (version is None) is not unpin:
        raise InvalidInput("Give a version, or --unpin.", remedy=f"corral agent versions {name}")
    refuse_agents("Choosing the version of an agent", f"corral agent pin {shlex.quote(name)} {version or '--unpin'}")
    answer = client().request("DELETE", f"/agents/{segment(name)}/pin") if unpin else request.send(name=name)
    line = (
        f"{one_line(answer['agent'])} works by its file"
        if unpin
        else f"{answer['agent']} is pinned to {answer['version']}"
    )
    report(answer, f"{line}.")
    if answer.get("waits_for_trust") and not for_programs():
        echo(paint(_TRUST, "yellow"))


@app.ask(
    "POST /agents/{name}/rollout",
    Field("version", "--to", "V", required=False),
    "share",
    prints="work.agents.api.RolloutShown",
)
def rollout(
    request: Request,
    name: Annotated[str, Argument(help="An agent's name; or `status` or `stop`, and then the name.", metavar="NAME")],
    of: Annotated[str | None, Argument(help="After `status` or `stop`: an agent's name.", metavar="[NAME]")] = None,
    share: Annotated[
        str | None, option("--share", "Share of the tasks that work by it, such as 20%.", "PERCENT")
    ] = None,
) -> None:
    """Have a share of an agent's tasks work by a new version, and compare.

    It ends by itself if the new version is worse (settings `agents.rollout`), or if the definition's file is edited meanwhile.
    `corral agent rollout status NAME` shows how both do, `corral agent rollout stop NAME` ends it.
    """
    to = request["version"]
    if of is not None:
        if name not in ("status", "stop") or to is not None or share is not None:
            raise InvalidInput("Write `corral agent rollout status NAME`, `stop NAME`, or `NAME --to V --share 20%`.")
        path = f"/agents/{segment(of)}/rollout"
        _show(client().request("GET", path) if name == "status" else client().request("DELETE", path))
        return
    if to is None or share is None:
        raise InvalidInput(
            "A rollout needs --to and --share.", remedy=f"corral agent rollout {name} --to V --share 20%"
        )
    request["share"] = _share(share)
    typed = shlex.join(["corral", "agent", "rollout", name, "--to", to, "--share", share])
    refuse_agents("Rolling out a version of an agent", typed)
    _show(request.send(name=name))


@app.ask(
    "POST /agents/{name}/improvement",
    "feedback",
    Field("deploy_if_better", "--deploy-if-better"),
    *("status", "resume", "deploy", "yes"),
)
def improve(
    request: Request,
    name: Annotated[str, argument("An agent's name.", "NAME", of="agent")],
    feedback: Annotated[
        Path | None, Option("--feedback", help="A file: praise and complaints.", metavar="FILE")
    ] = None,
    status: Annotated[bool, Option("--status", help="Show the newest improvement instead.")] = False,
    resume: Annotated[bool, Option("--resume", help="Go on with one whose tasks failed.")] = False,
    deploy: Annotated[bool, Option("--deploy", help="Write its new version into the agent's file.")] = False,
    yes: Annotated[bool, Option("--yes", "-y", help="Do not prompt.")] = False,
) -> None:
    """Have a meta-agent propose a better version of an agent, and compare both.

    It gets the agent's record, the feedback and the ends of failed tasks' logs, without secrets, and writes a new definition and
    test cases. Both versions do the cases in worktrees whose work never lands; the test commands run as a worker's do. On a
    terminal it asks before it begins; --deploy asks before it writes, and needs --yes without a terminal.
    """
    deploy_if_better = request["deploy_if_better"]
    if sum((status, resume, deploy)) > 1 or ((status or resume or deploy) and (feedback or deploy_if_better)):
        raise InvalidInput("Give one of --status, --resume and --deploy, or --feedback and --deploy-if-better.")
    if deploy or deploy_if_better:
        flag = "--deploy" if deploy else "--deploy-if-better"
        refuse_agents("Deploying a version of an agent", f"corral agent improve {shlex.quote(name)} {flag}")
    path = f"/agents/{segment(name)}/improvement"
    if deploy:
        _deploy(client().request("GET", path), yes=yes)
        return
    if status:
        improvement = client().request("GET", path)
    else:
        if feedback is not None:
            request["feedback"] = content("--feedback", str(feedback))
        asks = is_terminal() and not yes and not for_programs()
        if asks and not confirm(_question(name, deploys=deploy_if_better), default=False):
            raise Exit(1)
        improvement = client().request("POST", f"{path}/resume") if resume else request.send(name=name)
    if printed(improvement):
        return
    _show_improvement(improvement)
    if (improvement["report"] or {}).get("recommendation") == "deploy" and not improvement["report"]["deployed"]:
        agent = improvement["agent"]
        echo(f"To deploy it: corral agent improve {agent} --deploy; to try it on some tasks: corral agent rollout {agent} "
             f"--to {improvement['version']} --share 20%")  # fmt: skip
    elif improvement["state"] == "failed":
        echo(f"To go on with it: corral agent improve {improvement['agent']} --resume")
    elif not improvement["ended_at"]:
        echo(paint(f"corral agent improve {improvement['agent']} --status shows how it goes.", "dim"))


def _question(name: str, *, deploys: bool) -> str:
    most = 2 * load_settings(project()).settings.agents.improve.max_cost_usd  # of the proposal, and of the cases
    then = ", and have a version that does better written into its file" if deploys else ""
    return f"Spend up to {most:g} USD on an improvement of {name}{then}?"


def _deploy(improvement: Mapping[str, Any], *, yes: bool) -> None:
    """Write the version that an improvement has made into the agent's file, once somebody agrees."""
    agent, version, comparison = improvement["agent"], improvement["version"], improvement["report"]
    if not comparison:
        raise InvalidInput(
            f"The improvement of {agent} has no report yet.", remedy=f"corral agent improve {agent} --status"
        )
    if not for_programs():
        _show_improvement(improvement)
    warning = (
        "" if comparison["recommendation"] == "deploy" else f" The report recommends {comparison['recommendation']}."
    )
    if not yes and not confirm(f"Write version {version} into the file of {agent}?{warning}", default=False):
        raise Exit(1)
    answer = client().request("POST", f"/agents/{segment(agent)}/rollback", {"version": version})
    file = one_line(answer["file"])
    deployed = {**improvement, "report": {**comparison, "deployed": answer["file"]}}
    report(deployed, f"{file} is version {version}; look at it with git diff, and commit it.")


def _show_improvement(improvement: Mapping[str, Any]) -> None:
    comparison = improvement["report"] or {}
    facts({name: improvement[name] for name in ("agent", "state", "version", "reason")}, 14)
    if comparison:
        cost = f"{comparison['cost_usd']:.2f} USD in all, {comparison['judged']['cost_usd']:.2f} of it for judges"
        recommended, why, deployed = (comparison[field] for field in ("recommendation", "why", "deployed"))
        facts({"recommended": recommended, "why": why, "cost": cost, "deployed": deployed}, 14)
        sides: list[Column] = [
            ("VERSION", "side", 8),
            ("PASSED", lambda row: f"{row['passed']['hits']} of {row['passed']['of']}", 12),
            ("PREFERRED", "preferred", 9),
            ("MEDIAN S", lambda row: row["duration_s"]["median"], 10),
            ("TOKENS EACH", lambda row: row["tokens"]["median"], 12),
            ("USD", lambda row: f"{row['cost_usd']:.2f}", 9),
        ]
        table([{"side": side, **comparison[side]} for side in ("old", "new")], sides, empty="")


def _share(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(%?)", text.strip())
    share = float(match[1]) / 100 if match else 0.0
    if match and not match[2] and share < 0.01:  # 0.2 could be meant as 20 %
        share = 0.0
    if not 0 < share < 1:
        raise InvalidInput(
            f"--share {text!r} is no share.", remedy="Write a percentage between 0% and 100%, such as 20%."
        )
    return share


def _show(answer: Mapping[str, Any]) -> None:
    if printed(answer):
        return
    head = f"{answer['agent']} {answer['version']} instead of {answer['from']}, for {100 * answer['share']:g} % of the tasks"
    echo(paint(one_line(head), "bold"))
    facts(
        {"state": answer["state"], "reason": answer["reason"], "tasks": answer["tasks"], "so far": answer["summary"]}, 8
    )
    if answer["finding"] == "better" and answer["state"] == "running":
        echo(f"To use it for all tasks: corral agent rollout stop {answer['agent']}, then corral agent rollback "
             f"{answer['agent']} {answer['version']}")  # fmt: skip
    if answer.get("waits_for_trust"):
        echo(paint(_TRUST, "yellow"))
