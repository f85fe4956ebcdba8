"""``corral doctor``: what is in order on this machine and in this repository, and what to do about the rest."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from typing import Any

import typer

from corral.cli import claude_settings
from corral.cli.options import Json, here
from corral.cli.output import emit, paint, say
from corral.client import Client
from corral.config.paths import Project, bundle_dir, find_project
from corral.errors import CorralError

SAFE_SQLITE = (3, 51, 3)
"""The first version without the WAL-reset fault (which one writing process, as here, does not meet)."""

Check = dict[str, str]
_STYLE = {"ok": "green", "warning": "yellow", "error": "red"}


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("doctor")(doctor)


def doctor(as_json: Json = False) -> None:
    """Check the machine and the repository. Repairs nothing; exits with 1 if something is wrong."""
    checks = list(_all())
    if as_json:
        emit(checks)
    else:
        for check in checks:
            say(f"{paint(check['status'].ljust(7), _STYLE[check['status']])} {check['check']}: {check['message']}")
            if check["remedy"]:
                say(f"        {check['remedy']}")
    if any(check["status"] == "error" for check in checks):
        raise typer.Exit(1)


def _check(name: str, status: str, message: str, remedy: str = "") -> Check:
    return {"check": name, "status": status, "message": message, "remedy": remedy}


def _all() -> Iterator[Check]:
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


def _machine() -> Iterator[Check]:
    python = ".".join(str(part) for part in sys.version_info[:3])
    yield _check("python", "ok", python)
    sqlite = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < SAFE_SQLITE:
        note = "has the WAL-reset fault; harmless as long as only the daemon opens the database"
        yield _check("sqlite", "warning", f"{sqlite} {note}", "Never open .corral/corral.db with another program.")
    else:
        yield _check("sqlite", "ok", sqlite)
    claude = shutil.which("claude")
    if claude:
        yield _check("claude", "ok", claude)
    else:
        yield _check("claude", "warning", "not on the PATH", "Install Claude Code for tasks with --prompt.")


def _repository(project: Project) -> Iterator[Check]:
    from corral.git import doctor as repository
    from corral.git.command import open_repository

    problems = repository.problems(open_repository(project.common_dir))
    if not problems:
        yield _check("git", "ok", "nothing unusual")
    for problem in problems:
        yield _check(f"git.{problem.code}", "warning", problem.message, problem.remedy)
    if not os.access(project.home, os.W_OK):
        yield _check("writable", "error", f"{project.home} is read-only", "Make it writable for you.")


def _daemon(project: Project) -> Iterator[Check]:
    try:
        client = Client(project)
        health = client.ensure_daemon()
        yield _check("daemon", "ok", f"pid {health['pid']}, version {health['version']}")
        answer: dict[str, Any] = client.request("GET", "/status")
        settings = client.request("GET", "/config")["settings"]
        database = client.request("GET", "/database", timeout_s=120)
    except CorralError as error:
        yield _check("daemon", "error", f"{error.message} {error.cause}", error.remedy)
        return
    status = "ok" if database["integrity"] == "ok" else "error"
    yield _check("database", status, f"integrity {database['integrity']}, schema {database['schema']}")
    if answer["config_error"]:
        yield _check("configuration", "error", answer["config_error"]["message"], answer["config_error"]["remedy"])
    for warning in answer["config_warnings"]:
        yield _check("configuration", "warning", str(warning))
    if not answer["verified"]:
        yield _check(
            "verification",
            "warning",
            "no landing.verify command: work lands unverified",
            "Name one in .corral/config.yaml.",
        )
    if settings["locks"]["on_daemon_down"] == "deny" and claude_settings.STRICT not in _claude_settings(project):
        yield _check(
            "denial",
            "warning",
            "locks.on_daemon_down is `deny`, and no hook denies anything",
            "Run `corral init` again.",
        )
    for row in answer["sessions"]:
        if row["unguarded"]:
            yield _check(
                "guard",
                "error",
                f"{row['agent_name']}'s edits arrive unchecked: its bridge is gone",
                "In that session: /mcp reconnect plugin:corral:corral, or start it anew.",
            )


def _claude(project: Project) -> Iterator[Check]:
    manifest = bundle_dir() / ".claude-plugin" / "plugin.json"
    if manifest.is_file():
        yield _check("plugin", "ok", str(bundle_dir()))
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
