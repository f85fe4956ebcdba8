"""``corral doctor``: check this machine and this repository, and say how to fix each problem."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from corral import __version__
from corral.client.connection import Client
from corral.config.paths import Project, bundle_dir, find_project
from corral.config.worktree_root import CLEANER
from corral.core.errors import CorralError
from corral.core.instants import UTC
from corral.core.visible import one_line
from corral.faces.cli.parsing import Exit, Option
from corral.faces.cli.project import claude_settings, drift, init_record, verification
from corral.faces.cli.terminal.options import command, here
from corral.faces.cli.terminal.output import echo, paint, printed
from corral.faces.cli.terminal.progress import progress

if TYPE_CHECKING:
    from corral.faces.cli.api import DoctorCheck
import json
import subprocess
from pathlib import Path

_OF_THE_MACHINE = (
    "not_recovered", "failing_job", "paused_target", "remote_target", "outdated_daemon", "crashing_daemon",
    "unwatched_worktrees", "snapshot",
)  # fmt: skip
"""Kinds of problems that need a person and belong to no task or merge."""

_STYLE = {"ok": "green", "warning": "yellow", "error": "red"}


@command(prints="faces.cli.api.DoctorCheck[]")
def doctor(
    verify: Annotated[bool, Option("--verify", help="Also run the verification commands in a fresh worktree.")] = False,
) -> None:
    """Check the machine and the repository. Repairs nothing; exits with 1 on a problem."""
    checks: list[DoctorCheck] = []
    with progress("checking the machine") as update:
        for check in itertools.chain(_checks(), _dry_run() if verify else ()):
            checks.append(check)
            update(f"checked {check['check']}")
    if not printed(checks):
        for check in checks:
            echo(f"{paint(check['status'].ljust(7), _STYLE[check['status']])} {check['check']}: {check['message']}")
            if check["remedy"]:
                echo(f"        {check['remedy']}")
    if any(check["status"] == "error" for check in checks):
        raise Exit(1)


def _check(name: str, status: str, message: str, remedy: str = "") -> DoctorCheck:
    return {"check": name, "status": status, "message": message, "remedy": remedy}


def _checks() -> Iterator[DoctorCheck]:
    yield from _machine()
    try:
        project = find_project(here())
    except CorralError as error:
        yield _check("project", "error", error.message, error.remedy)
        return
    yield _check("project", "ok", str(project.root))
    yield from _repository(project)
    yield from _daemon(project)
    yield from _claude(project)
    yield from _drift(project)


def _drift(project: Project) -> Iterator[DoctorCheck]:
    of_project = () if project.bare else drift.of_project(project, init_record.copies(project))
    differences = [*drift.of_package(), *drift.of_plugin(), *of_project]
    for item in differences:
        yield _check("drift", "warning", item.what, item.remedy)
    if not differences:
        yield _check("drift", "ok", "Corral's installed files are unchanged")


def _machine() -> Iterator[DoctorCheck]:
    python = ".".join(str(part) for part in sys.version_info[:3])
    yield _check("python", "ok", python)
    claude = shutil.which("claude")
    if claude:
        yield _check("claude", "ok", claude)
    else:
        yield _check(
            "claude",
            "warning",
            "not on the PATH",
            "Install Claude Code, or use --runner anthropic for tasks with --prompt.",
        )


def _repository(project: Project) -> Iterator[DoctorCheck]:
    from corral.git import doctor as repository
    from corral.git.process.command import open_repository

    problems = repository.problems(open_repository(project.common_dir), datetime.now(UTC))
    if not problems:
        yield _check("git", "ok", "no problems")
    for problem in [*problems, *repository.holes()]:
        yield _check(f"git.{problem.code}", "warning", problem.message, problem.remedy)
    if not os.access(project.home, os.W_OK):
        yield _check("writable", "error", f"{project.home} is read-only", "Make it writable.")


def _daemon(project: Project) -> Iterator[DoctorCheck]:
    try:
        client = Client(project)
        if project.stopped_file.exists() and client.health() is None:
            yield _check("daemon", "warning", "stopped with `corral daemon stop`", "Run `corral daemon start`.")
            return
        health = client.ensure_daemon()
        is_ours = health["version"] == __version__
        version = f"pid {health['pid']}, version {health['version']}" + (
            "" if is_ours else f"; this command is {__version__}"
        )
        yield _check(
            "daemon", "ok" if is_ours else "warning", version, "" if is_ours else "Run `corral daemon restart`."
        )
        answer: dict[str, Any] = client.request("GET", "/status")
        settings = client.request("GET", "/config")["settings"]
    except CorralError as error:
        yield _check("daemon", "error", f"{error.message} {error.cause}", error.remedy)
        return
    yield from _database(client)
    yield from _remote(project, settings["landing"]["remote"])
    yield from _worktrees(client)
    yield from _workers(client)
    for need in answer["needs_you"]:
        if need["kind"] in ("retention", "saved_work"):
            yield _check("retention", "warning", need["what"], need["remedy"])
        if need["kind"] == "untrusted_commands":
            yield _check("trust", "warning", need["what"], need["remedy"])
    if answer["config_error"]:
        broken = answer["config_error"]
        yield _check("configuration", "error", f"{broken['message']} {broken['cause']}", broken["remedy"])
    for need in answer["needs_you"]:
        if need["kind"] in _OF_THE_MACHINE:
            yield _check(need["kind"].replace("_", " "), "error", need["what"], need["remedy"])
    for warning in answer["config_warnings"]:
        yield _check("configuration", "warning", str(warning))
    if not answer["verified"]:
        yield _check(
            "verification",
            "warning",
            "no landing.verify command: work lands unverified",
            "Set landing.verify in .corral/config.yaml.",
        )
    if settings["landing"]["approve"] == "never":
        problem = (
            "landing.approve is `never`: no person sees a merge that changes what agents obey, or what verifies it"
        )
        yield _check("approval", "warning", problem, "Set landing.approve to `paths`, unless this is what you want.")
    if settings["locks"]["on_daemon_down"] == "deny" and claude_settings.STRICT not in _claude_settings(project):
        yield _check(
            "denial",
            "warning",
            "locks.on_daemon_down is `deny`, but the hook that denies is missing",
            "Run `corral init` again.",
        )
    for need in answer["needs_you"]:
        if need["kind"] == "unguarded_session":
            yield _check("guard", "error", need["what"], need["remedy"].partition(" `corral doctor`")[0])
        if need["kind"] == "silent_mod":
            yield _check("mod", "warning", need["what"], need["remedy"])


def _remote(project: Project, name: str | None) -> Iterator[DoctorCheck]:
    """Whether the remote answers that finished work is pushed to."""
    from corral.git.land import upstream
    from corral.git.process.command import open_repository

    if name is None:
        return
    if (failure := upstream.probe(open_repository(project.common_dir), name)) is not None:
        yield _check("remote", "error", f"{name} cannot be reached: {failure.words}", failure.remedy)
        return
    yield _check("remote", "ok", f"{name} answers; pushes run no hook of this clone (pre-push)")


def _worktrees(client: Client) -> Iterator[DoctorCheck]:
    """Where worktrees stand, why there, and what tools find above them."""
    try:
        place = client.request("GET", "/worktrees/place")
    except CorralError as error:
        yield _check("worktrees", "error", f"{error.message} {error.cause}", error.remedy)
        return
    reasons = "; ".join(place["passed_over"])
    yield _check("worktrees", "ok", f"in {place['path']}" + (f" ({reasons})" if reasons else ""))
    if place["warning"]:
        yield _check("worktrees", "warning", place["warning"], CLEANER)


def _workers(client: Client) -> Iterator[DoctorCheck]:
    """Agents that cannot start here, once per reason; and the key of the Messages API, where something uses that."""
    try:
        agents, runners = client.request("GET", "/agents"), client.request("GET", "/runners")
        sources = client.request("GET", "/config")["sources"]
    except CorralError as error:
        yield _check("agents", "error", f"{error.message} {error.cause}", error.remedy)
        return
    problems: dict[str, list[dict[str, Any]]] = {}
    for agent in agents:
        if agent["problem"]:
            problems.setdefault(agent["problem"], []).append(agent)
    for problem, group in problems.items():
        is_broken = any("runner" not in agent for agent in group)  # its file is not valid
        names = ", ".join(one_line(agent["name"]) for agent in group)
        remedy = (
            "Correct its file; `corral agent list` shows all."
            if is_broken
            else "`corral agent show NAME` shows its runner."
        )
        finding = f"{names} cannot start here: {one_line(problem)}"
        yield _check("agents", "error" if is_broken else "warning", finding, remedy)
    if not problems:
        yield _check("agents", "ok", f"{len(agents)} can start")
    uses = [agent["name"] for agent in agents if agent.get("runner") == "anthropic"]
    uses += [name for name, file in sources.items() if name.startswith("runners.anthropic.") and file != "default"]
    (runner,) = (entry for entry in runners if entry["name"] == "anthropic")
    if uses:
        by = f"used by {one_line(', '.join(uses[:3]))}"
        if runner["problem"]:
            yield _check("anthropic", "error", f"{runner['problem']} It is {by}.", runner["remedy"])
        else:
            yield _check("anthropic", "ok", f"the daemon has a key; {by}")


def _dry_run() -> Iterator[DoctorCheck]:
    try:
        client = Client(find_project(here()))
        limit_s = client.request("GET", "/config")["settings"]["landing"]["timeout_s"]
        result = verification.dry_run(client, limit_s)
    except CorralError as error:
        yield _check("verification", "error", f"{error.message} {error.cause}", error.remedy)
        return
    if result["status"] == "passed" and not result["needed"]:
        yield _check("verification", "ok", "the commands pass in a fresh worktree")
        if result["note"]:
            yield _check("dependencies", "warning", f"it runs with {result['note']}", verification.DECLARED_ONLY)
        return
    finding = f"the commands fail in a fresh worktree, so nothing lands: {result['reason']}"
    yield _check("verification", "error", finding, verification.remedy(result))


def _database(client: Client) -> Iterator[DoctorCheck]:
    try:
        database = client.request("GET", "/database", timeout_s=120)
    except CorralError as error:
        yield _check("database", "error", f"{error.message} {error.cause}", error.remedy)
        return
    yield _check("database", "ok", f"integrity {database['integrity']}, schema {database['schema']}")
    library = database["library"]
    if library["wal_fault"]:
        note = "this SQLite has the WAL-reset bug; harmless while only the daemon opens the database"
        yield _check(
            "sqlite", "warning", f"{library['version']} {note}", "Never open .corral/corral.db with another program."
        )
    else:
        yield _check("sqlite", "ok", library["version"])


def _claude(project: Project) -> Iterator[DoctorCheck]:
    manifest = bundle_dir() / ".claude-plugin" / "plugin.json"
    if manifest.is_file():
        yield _check("plugin", *status_of(project.root))
    else:
        yield _check("plugin", "error", f"{manifest} is missing", "Install Corral again.")
    if not project.bare:
        if claude_settings.MARK in _claude_settings(project):
            yield _check("worktree hook", "ok", "claude --worktree gets its worktree from Corral")
        else:
            yield _check("worktree hook", "warning", "not in .claude/settings.json", "Run `corral init` again.")


def _claude_settings(project: Project) -> str:
    file = project.root / ".claude" / "settings.json"
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""


# -- Ask Claude Code whether it loads the plugin

ANSWER_S = 30.0
"""Time for the client's answer, seconds; usually it takes one."""


def status_of(cwd: Path) -> tuple[str, str, str]:
    """Ask the client on the PATH for its plugins in a folder.

    Returns:
        ``ok`` or ``warning``, the finding, and what to type (empty for ``ok``).
    """
    claude = shutil.which("claude")
    bundle = bundle_dir()
    if claude is None:
        return (
            "warning",
            "`claude` is not on the PATH: no session has the plugin",
            "Install Claude Code, then run ./install.sh",
        )
    try:
        process = subprocess.run(
            [claude, "plugin", "list", "--json"],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ANSWER_S,
            check=True,
        )
        listed: list[dict[str, Any]] = json.loads(process.stdout)
        copies = [plugin for plugin in listed if str(plugin["id"]).partition("@")[0] == "corral"]
        enabled = [plugin for plugin in copies if plugin.get("enabled")]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError, AttributeError) as error:
        return "warning", f"cannot list Claude Code's plugins: {error}", "Run: claude plugin list"
    if enabled:
        return _working(enabled[0])
    if copies:
        return (
            "warning",
            f"Claude Code has {copies[0]['id']}, but it is disabled",
            f"Run: claude plugin enable {copies[0]['id']}",
        )
    return (
        "warning",
        "Claude Code has no plugin `corral`: its sessions are not guarded",
        f"Run ./install.sh again, or start sessions with: claude --plugin-dir {bundle}",
    )


def _working(plugin: dict[str, Any]) -> tuple[str, str, str]:
    if errors := plugin.get("errors"):
        return "warning", f"Claude Code cannot load {plugin['id']}: {errors}", "Run ./install.sh again."
    return "ok", f"Claude Code loads {plugin['id']} {plugin.get('version', '')}".rstrip(), ""
