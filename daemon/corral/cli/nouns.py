"""The module of each command, loaded when the command is used.

Loading all modules takes longer than most commands, so the help page uses the sentences of this table.
"""

from __future__ import annotations

import importlib
from typing import Any

import typer

from corral.cli.help import Grouped

NOUNS = {
    "status": ("commands.status", "Show tasks, merges, sessions and recent events."),
    "init": (
        "project.initialise",
        "Prepare a repository: write .corral/ and, after showing it, hooks, an agent and a skill into .claude/.",
    ),
    "trust": ("project.trust", "Show what this project's files would run on this machine, and approve it."),
    "uninstall": ("project.uninstall", "Stop the daemon, remove .corral/ and restore .claude/."),
    "task": ("commands.tasks", "Tasks: submit, follow, cancel."),
    "merge": ("commands.merges", "Merge queue: merge, verify, land."),
    "worktree": ("commands.worktrees", "Worktrees of tasks and sessions, and salvaged work."),
    "session": ("commands.sessions", "Sessions: the agents working on this repository."),
    "lock": ("commands.locks", "Locks: who holds which files."),
    "message": ("commands.messages", "Mail between sessions, and with you."),
    "feature": ("commands.features", "Features: lines of work, their claims and conflicts."),
    "team": ("commands.teams", "The team: roles, capabilities and runners in .corral/teams.yaml."),
    "agent": ("commands.agents", "Agents: team members and agent definitions that do tasks."),
    "handoff": ("commands.handoffs", "Handoffs: notes that a session leaves for the next one."),
    "wait": ("commands.wait", "Wait until tasks have landed or failed."),
    "pause": ("commands.pause", "Pause claiming and landing until `corral resume`."),
    "resume": ("commands.pause", "Resume claiming and landing."),
    "memory": ("commands.memory", "Memory: facts that sessions recorded for later ones."),
    "daemon": ("program.daemon", "The background process that owns the database and the worktrees."),
    "config": ("program.config", "Settings: the values in force, and whether the files are valid."),
    "plugin": ("program.plugin", "The Claude Code plugin."),
    "doctor": ("project.doctor", "Check the machine and the repository."),
    "demo": (
        "project.demo",
        "Run a batch of tasks on a small project and show what lands, what comes back and why.",
    ),
    "mcp": ("program.mcp", "The stdio MCP bridge that Claude Code starts for each session."),
}
"""Per command: the module in ``corral.cli``, and the first sentence of the command's help.

A module has ``app`` (a noun with commands), or a function with the command's name.
"""


class Nouns(Grouped):
    """The program itself."""

    def list_commands(self, ctx: Any) -> list[str]:
        """List every command, loaded or not."""
        return list(NOUNS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load a command; None if the name is unknown: then all are loaded, to suggest a similar one."""
        for name in [cmd_name] if cmd_name in NOUNS else NOUNS:
            if name not in self.commands:
                self.commands.update(_load(name))
        return super().get_command(ctx, cmd_name)

    def summaries(self, ctx: Any) -> dict[str, str]:
        """Return the commands with their first sentences."""
        return {name: sentence for name, (_module, sentence) in NOUNS.items()}


def _load(name: str) -> dict[str, Any]:
    """Load the commands of a command's module."""
    module = importlib.import_module(f"corral.cli.{NOUNS[name][0]}")
    made = typer.Typer(rich_markup_mode=None)
    if hasattr(module, "app"):
        made.add_typer(module.app, name=name)
    else:
        made.command(name)(getattr(module, name))
    return dict(typer.main.get_group(made).commands)
