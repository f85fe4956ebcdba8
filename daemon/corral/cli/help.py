"""Help pages: examples and related commands per command, and the commands by category."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

CATEGORIES = {
    "Begin": ("init", "trust", "doctor", "demo", "uninstall"),
    "Work": ("status", "task", "merge", "wait", "pause", "resume"),
    "Sessions and locks": ("session", "lock", "feature", "team", "agent", "worktree"),
    "Communication": ("message", "handoff", "memory"),
    "Corral itself": ("config", "daemon", "plugin", "mcp"),
}

PAGES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "init": (("init", "init ~/shop --target main --verify 'pytest -q'"), ("doctor", "config show", "uninstall")),
    "doctor": (("doctor", "doctor --verify", "doctor --json"), ("status", "config validate", "daemon logs")),
    "trust": (("trust", "trust --yes", "trust --revoke"), ("init", "config show", "status")),
    "demo": (("demo", "demo --keep", "demo --claude"), ("init",)),
    "uninstall": (("uninstall", "uninstall ~/shop --yes"), ("init", "worktree recover")),
    "status": (("status", "status --json"), ("task list", "merge list", "session list")),
    "wait": (("wait --all", "wait 3f2a 9c1e --timeout 600"), ("task detail", "merge detail")),
    "pause": (("pause", "pause --reason 'release today'"), ("resume", "daemon stop")),
    "resume": (("resume",), ("pause", "status")),
    "mcp": (("mcp", "mcp --profile mail"), ("plugin path", "session list")),
    "task": ((), ("wait", "merge", "status")),
    "task submit": (
        (
            "task submit --title 'Say hello' --command 'echo hello > hello.txt'",
            "task submit --title 'Fix the typo' --prompt 'Fix the typo in README.md.' --priority 8",
            "task submit --title 'Add the footer' --prompt 'Add a footer to each page.' --agent Boulder",
            "task submit --title 'Use it' --prompt - --wait-for 3f2a < prompt.txt",
            "task submit --title 'Review it' --description 'Look at feat/login.' --thread batch-7",
            "task submit --title 'Review it' --type review --input '{\"branch\": \"feat/login\"}'",
        ),
        ("wait", "task detail", "task batch-submit"),
    ),
    "task batch-submit": (("task batch-submit --file tasks.yaml",), ("task submit", "wait")),
    "task list": (("task list", "task list --status running --status pending"), ("task detail", "status")),
    "task detail": (("task detail 3f2a",), ("task logs", "merge detail")),
    "task cancel": (("task cancel 3f2a --reason 'not needed any more'",), ("task retry", "worktree recover")),
    "task retry": (("task retry 3f2a",), ("task detail", "merge retry")),
    "task reprioritize": (("task reprioritize 3f2a 9",), ("task list",)),
    "task claim": (("task claim", "task claim --type review"), ("task complete", "task list")),
    "task complete": (
        ("task complete 3f2a", "task complete 3f2a --failed --error 'no such API'"),
        ("task claim", "merge submit"),
    ),
    "task logs": (("task logs 3f2a", "task logs 3f2a --follow"), ("task detail", "merge log")),
    "merge": ((), ("task", "wait", "status")),
    "merge list": (("merge list", "merge list --state conflict --state failed"), ("merge detail",)),
    "merge detail": (("merge detail 7b0d",), ("merge log", "merge retry", "merge approve")),
    "merge submit": (
        ("merge submit", "merge submit my-branch --target main", "merge submit my-branch --task 3f2a"),
        ("merge detail", "wait"),
    ),
    "merge retry": (("merge retry 7b0d", "merge retry 7b0d --follow-branch"), ("merge detail",)),
    "merge cancel": (("merge cancel 7b0d",), ("merge list",)),
    "merge dismiss": (("merge dismiss 7b0d", "merge dismiss 3f2a"), ("merge retry", "status")),
    "merge approve": (("merge approve 7b0d", "merge approve 7b0d --yes"), ("merge detail", "status")),
    "merge log": (("merge log 7b0d", "merge log 7b0d --follow"), ("merge detail", "task logs")),
    "worktree": ((), ("task", "session")),
    "worktree list": (("worktree list",), ("worktree create", "worktree recover")),
    "worktree create": (("worktree create try-it", "worktree create hotfix --base v1.2"), ("worktree remove",)),
    "worktree remove": (("worktree remove try-it",), ("worktree recover",)),
    "worktree recover": (("worktree recover", "worktree recover try-it"), ("worktree list",)),
    "session": ((), ("lock", "status")),
    "session list": (
        ("session list", "session list --status active", "session list --capability python"),
        ("session show", "lock list", "status"),
    ),
    "session show": (("session show GreenLake",), ("session list", "handoff list")),
    "session register": (
        ("session register --name Sisyphus --capability python --task 'Fix the login'",),
        ("session heartbeat", "session show"),
    ),
    "session name": (
        ("session name GreenLake Boulder --program opencode-coder", "session name GreenLake --new"),
        ("session register", "session show"),
    ),
    "session end": (("session end", "session end GreenLake"), ("session cleanup", "session list")),
    "session heartbeat": (("session heartbeat",), ("session register", "session list")),
    "session cleanup": (("session cleanup", "session cleanup --silent-for 60"), ("session list",)),
    "lock": ((), ("session", "status")),
    "lock list": (("lock list",), ("lock check", "session list")),
    "lock check": (("lock check src/app.py", "lock check 'src/**/*.py'"), ("lock list", "lock acquire")),
    "lock renew": (("lock renew src/app.py --extend 3600", "lock renew --all"), ("lock list", "lock acquire")),
    "lock force-release": (
        ("lock force-release src/app.py --note 'its session is gone'",),
        ("lock list", "session cleanup"),
    ),
    "lock acquire": (
        ("lock acquire src/app.py --reason 'renaming'", "lock acquire 'db:users' --ttl 600 --shared"),
        ("lock release", "lock list"),
    ),
    "lock release": (("lock release src/app.py", "lock release --all"), ("lock list",)),
    "message": ((), ("session", "handoff")),
    "message send": (
        (
            "message send GreenLake 'May I have src/a.py?' 'I need it for two lines.'",
            "message send all 'Freeze' --importance urgent < note.txt",
            "message send GreenLake 'The plan' --bcc Boulder < plan.md",
        ),
        ("message inbox", "session list"),
    ),
    "message reply": (("message reply 12 'Yes, in a minute.'",), ("message show", "message thread")),
    "message inbox": (
        ("message inbox", "message inbox --all --follow", "message inbox --agent GreenLake --unread"),
        ("message show", "message search"),
    ),
    "message show": (("message show 12",), ("message thread", "message reply")),
    "message thread": (("message thread batch-7", "message thread 12"), ("message show",)),
    "message read": (("message read 12",), ("message ack", "message inbox")),
    "message ack": (("message ack 12",), ("message read", "message inbox")),
    "message contacts": (("message contacts", "message contacts --agent GreenLake"), ("message inbox", "session list")),
    "message search": (("message search users migration",), ("message thread",)),
    "feature": ((), ("lock", "task")),
    "feature register": (
        (
            "feature register FEAT-123 --claim 'src/api/**' --claim 'db:schema:users' --title 'User search'",
            "feature register FEAT-124 --claim docs/ --priority 1 --metadata '{\"issue\": 12}'",
        ),
        ("feature analyze", "feature deregister"),
    ),
    "feature list": (("feature list",), ("feature show", "feature analyze")),
    "feature show": (("feature show FEAT-123",), ("feature list",)),
    "feature analyze": (
        ("feature analyze FEAT-123", "feature analyze --claim 'src/api/**' --claim 'api:GET /v1/users'"),
        ("feature register", "feature list"),
    ),
    "feature deregister": (
        ("feature deregister FEAT-123", "feature deregister FEAT-123 --cancelled"),
        ("feature list",),
    ),
    "handoff": ((), ("session", "status")),
    "handoff list": (("handoff list", "handoff list --agent GreenLake"), ("handoff show",)),
    "handoff show": (("handoff show 5c1d",), ("handoff list",)),
    "handoff write": (
        ("handoff write 'The login works; the reset is half done.' --next 'Test the reset.' --file src/reset.py",),
        ("handoff list",),
    ),
    "memory": ((), ("handoff", "session")),
    "memory add": (
        ("memory add 'The tests need a running database.' --tag tests --lesson 'make db first'",),
        ("memory search", "memory list"),
    ),
    "memory search": (("memory search 'database tests'", "memory search database --tag tests"), ("memory list",)),
    "memory list": (("memory list", "memory list --type decision"), ("memory search",)),
    "team": ((), ("agent", "session", "feature")),
    "team validate": (("team validate", "team validate teams.yaml --json"), ("team list",)),
    "team list": (("team list",), ("team validate", "agent list", "session list")),
    "agent": ((), ("team", "task submit")),
    "agent list": (("agent list", "agent list --json"), ("agent show", "team list")),
    "agent show": (("agent show OpenCode-Builder",), ("agent list", "task submit")),
    "config": ((), ("doctor", "init")),
    "config show": (("config show", "config show landing"), ("config validate",)),
    "config validate": (("config validate", "config validate --json"), ("config show", "doctor")),
    "daemon": ((), ("status", "doctor")),
    "daemon start": (("daemon start",), ("daemon status", "daemon logs")),
    "daemon stop": (("daemon stop", "daemon stop --drain"), ("daemon start",)),
    "daemon restart": (("daemon restart",), ("daemon status",)),
    "daemon status": (("daemon status", "daemon status --json"), ("status",)),
    "daemon adopt": (("daemon adopt .corral/corral.db.of-1a2b3c4d",), ("daemon stop", "status")),
    "daemon logs": (("daemon logs", "daemon logs --lines 200 --follow"), ("doctor",)),
    "plugin": ((), ("mcp", "doctor")),
    "plugin path": (("plugin path",), ("doctor",)),
}
"""Per command: examples and related commands; both without the leading ``corral``."""


def epilog(command: str) -> str:
    """The end of a command's help page; a leading backspace makes the framework keep the line breaks of a paragraph."""
    examples, related = PAGES.get(command, ((), ()))
    parts = ["\b\nExamples:" + "".join(f"\n  corral {line}" for line in examples)] if examples else []
    parts += ["See also: " + ", ".join(f"corral {name}" for name in related)] if related else []
    return "\n\n".join(parts)


class Grouped(TyperGroup):
    """A group whose help lists its commands by category with their whole first sentence, and adds their examples."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command with its entry of :data:`PAGES`."""
        command = super().get_command(ctx, cmd_name)
        if command is not None and not command.epilog:
            command.epilog = epilog(" ".join([*_names(ctx), cmd_name]))
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one section per category; a noun has one section."""
        shown = self.summaries(ctx)
        sections = {"Commands": tuple(shown)} if _names(ctx) else CATEGORIES
        for heading, names in sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name, shown[name]) for name in names])

    def summaries(self, ctx: Any) -> dict[str, str]:
        """Return the commands with their first sentences."""
        return {name: first_sentence(self.get_command(ctx, name)) for name in self.list_commands(ctx)}


def _names(ctx: Any) -> list[str]:
    """The nouns that led here, without the program's name."""
    names: list[str] = []
    while ctx.parent is not None:
        names.insert(0, ctx.info_name)
        ctx = ctx.parent
    return names


def first_sentence(command: Any) -> str:
    """The first sentence of a command's help."""
    return str(command.help or "").strip().split(". ")[0].split("\n")[0].rstrip(".") + "."
