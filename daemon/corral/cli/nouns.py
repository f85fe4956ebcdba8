"""Which command stands in which module: it is loaded when the command is asked for.

To load all of them takes longer than most commands do, so the page of help is made of what stands here.
"""

from __future__ import annotations

import importlib
from typing import Any

import typer

from corral.cli.help import Grouped

NOUNS = {
    "status": ("commands.status", "Show tasks, merges, sessions and what happened last."),
    "init": (
        "project.initialise",
        "Prepare a repository: write .corral/, and after showing it, hooks, an agent and a skill into .claude/.",
    ),
    "trust": ("project.trust", "Show what this project's files would run on this machine, and approve it."),
    "uninstall": ("project.uninstall", "Stop the daemon, take .corral/ away and give .claude/ back as it was."),
    "task": ("commands.tasks", "Work to be done: submit it, follow it, take it back."),
    "merge": ("commands.merges", "The way of a branch onto its target: merged, verified, landed."),
    "worktree": ("commands.worktrees", "Worktrees of tasks and sessions, and the work that was saved from them."),
    "session": ("commands.sessions", "Who is at work."),
    "lock": ("commands.locks", "Who may write what."),
    "message": ("commands.messages", "Mail between sessions, and with you."),
    "feature": ("commands.features", "Lines of work, what they claim, and which go side by side."),
    "team": ("commands.teams", "The team: roles, capabilities and runners in .corral/teams.yaml."),
    "agent": ("commands.agents", "Who does tasks: the team, and agent definitions."),
    "handoff": ("commands.handoffs", "What one session leaves for the next."),
    "wait": ("commands.wait", "Wait until tasks are completed and landed, or have failed."),
    "pause": ("commands.pause", "Claim and land nothing until `corral resume`."),
    "resume": ("commands.pause", "Continue to claim and land."),
    "memory": ("commands.memory", "What sessions found out, for those who come later."),
    "daemon": ("program.daemon", "The process that owns the database and the worktrees."),
    "config": ("program.config", "The settings: what is in force, and whether the files are valid."),
    "plugin": ("program.plugin", "The Claude Code plugin."),
    "doctor": ("project.doctor", "Check the machine and the repository."),
    "demo": (
        "project.demo",
        "Hand over a batch of tasks on a small project and show what lands, what comes back and why.",
    ),
    "mcp": ("program.mcp", "The stdio MCP bridge that Claude Code starts for each session."),
}
"""By command: the module in ``corral.cli``, and the first sentence of the command's help.

A module has ``app``, a noun with commands of its own, or ``add_to``, which registers commands.
"""


class Nouns(Grouped):
    """The program itself."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Every command, loaded or not."""
        return list(NOUNS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load a command; None if there is none of that name: then all are, for one that it may have meant."""
        for name in [cmd_name] if cmd_name in NOUNS else NOUNS:
            if name not in self.commands:
                self.commands.update(_load(name))
        return super().get_command(ctx, cmd_name)

    def summaries(self, ctx: Any) -> dict[str, str]:
        """The commands with their first sentences."""
        return {name: sentence for name, (_module, sentence) in NOUNS.items()}


def _load(name: str) -> dict[str, Any]:
    """The commands of the module that a command stands in."""
    module = importlib.import_module(f"corral.cli.{NOUNS[name][0]}")
    made = typer.Typer(rich_markup_mode=None)
    if hasattr(module, "app"):
        made.add_typer(module.app, name=name)
    else:
        module.add_to(made)
    return dict(typer.main.get_group(made).commands)
