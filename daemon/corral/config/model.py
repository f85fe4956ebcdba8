"""The settings: one frozen class per section, and for every field its type, its range, its default and what it does.

This is the only place where a setting is declared. Loading, ``CORRAL_`` variables, the table in ``docs/configuration.md``
and the JSON schema (``Settings.model_json_schema()``) are all derived from it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

_DAY_S = 86_400
DEFAULT_RETRIES = 3
_BRANCH = re.compile(r"[^\x00-\x20\x7f~^:?*\[\\-][^\x00-\x20\x7f~^:?*\[\\]{0,199}")
"""What no option and no revision expression looks like; whether git takes the name is for git to say."""


@dataclass(frozen=True)
class Places:
    """What path-valued fields are resolved against; passed to validation as its context."""

    root: Path
    home: Path


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def _listed(value: Any) -> Any:
    """A lone command needs no list around it, and a list whose entries are all commented out is empty."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else value


def _spoken(command: str) -> str:
    if not command.strip() or "\0" in command:
        raise ValueError("a command must not be empty")
    return command


def _branch(name: str) -> str:
    if not _BRANCH.fullmatch(name):
        raise ValueError("this cannot be the name of a branch")
    return name


def _expanded(path: str, info: ValidationInfo) -> str:
    if info.context is not None and (path == "~" or path.startswith("~/")):
        return f"{info.context.home}{path[1:]}"
    return path


def _runnable(command: str, info: ValidationInfo) -> str:
    """A bare name is looked up when it is needed, on the PATH of that moment; a path names a file, which must be there."""
    command = _expanded(command, info)
    if info.context is None or "/" not in command:
        return command
    file = info.context.root / command
    if shutil.which(file) is None:
        raise ValueError("there is no such program" if not file.exists() else "the file is not executable")
    return str(file)


Command = Annotated[str, AfterValidator(_spoken)]
Commands = Annotated[list[Command], BeforeValidator(_listed)]
Globs = Annotated[list[Annotated[str, Field(min_length=1, max_length=512)]], BeforeValidator(_listed)]
Branch = Annotated[str, AfterValidator(_branch)]
Seconds = Annotated[float, Field(gt=0, le=30 * _DAY_S)]
Days = Annotated[int, Field(ge=1, le=36_500)] | None
Pause = Annotated[float, Field(ge=0, le=30 * _DAY_S)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)


class Landing(_Section):
    """How finished work reaches the target branch. The version committed on that branch counts, not a worktree's."""

    target: Branch | None = Field(
        default=None, description="Branch that finished work lands on; null: the one the main checkout has."
    )
    verify: Commands = Field(
        default=[], description="Commands that must pass on the merged tree, in order; none: lands as `unverified`."
    )
    approve_paths: Globs = Field(
        default=["**/CLAUDE.md", "**/CLAUDE.local.md", "**/.claude/**", "**/.mcp.json", "hooks/**", ".corral/**"],
        description="A merge that changes what matches, or a file that `verify` names, waits for `corral merge approve`.",
    )
    rest_s: Pause = Field(
        default=1,
        description="Time without a write by git in the target's checkout before it is moved; waited for 30 s at most.",
    )
    timeout_s: Seconds = Field(default=600, description="Longest time one verification may take.")
    on_conflict: Literal["return"] = Field(
        default="return", description="What happens on a conflict: it goes back to whoever made the branch."
    )
    reruns: int = Field(
        default=1, ge=0, le=10, description="Times a red verification is run again before it counts as red."
    )


class Supervisor(_Section):
    """How many workers run, and how they are stopped."""

    max_agents: int = Field(default=10, ge=0, le=1000, description="Workers at the same time; 0 starts none.")
    stop_grace_s: Pause = Field(default=5, description="Time between SIGTERM and SIGKILL when a worker is stopped.")


class Tasks(_Section):
    """The queue: retries, order, limits."""

    max_retries: int | None = Field(
        default=None,
        ge=0,
        le=100,
        description="Times a failed task is tried again before it is `dead`; null: 3, and never after a command's own exit code.",
    )
    max_crashes: int = Field(
        default=5,
        ge=0,
        le=100,
        description="Times in a row that the daemon died, or its worker was killed, while a task ran; one more and it is `dead`.",
    )
    backoff_initial_s: Pause = Field(default=10, description="Pause before the first retry; it doubles with each one.")
    backoff_max_s: Pause = Field(default=300, description="Longest pause between two tries.")
    ageing_s: Pause = Field(
        default=0, description="A waiting task gains one step of priority per this interval; 0: priority never changes."
    )
    unblock_on: Literal["landed", "completed"] = Field(
        default="landed", description="What a dependency must have reached before its dependents start."
    )
    max_queue: int = Field(default=1000, ge=1, le=1_000_000, description="Open tasks that are accepted at most.")

    @property
    def retries(self) -> int:
        """Times a task is tried again unless it says otherwise."""
        return DEFAULT_RETRIES if self.max_retries is None else self.max_retries


class Locks(_Section):
    """Who may edit what."""

    enforcement: Literal["enforce", "warn", "off"] = Field(
        default="enforce",
        description="What an edit of a file that someone else holds meets: a denial, a warning, nothing.",
    )
    ttl_s: Seconds = Field(default=3600, description="Life of a lock that is not used; every use renews it.")
    on_daemon_down: Literal["allow", "deny"] = Field(
        default="allow", description="What an edit meets while no daemon answers; `corral init` puts it in force."
    )


class Messages(_Section):
    """Mail between sessions."""

    wake: Literal["low", "normal", "high", "urgent", "off"] = Field(
        default="normal",
        description="Least importance of mail that wakes a session at rest in a terminal; `off`: none does.",
    )


class Sessions(_Section):
    """When a silent session counts as stalled, or gone."""

    stale_after_s: Seconds = Field(
        default=900,
        description="Time without a sign, in the middle of a turn, after which a session is `stalled`; after as long again it "
        "is disconnected.",
    )
    stall_after_s: Seconds = Field(default=300, description="Time without progress after which a worker is stalled.")
    lease_s: Seconds = Field(
        default=14_400,
        description="Time that a silent person keeps a task he claimed; a session keeps its own while it lives.",
    )


class Worktrees(_Section):
    """Where tasks work, and how a fresh worktree becomes usable."""

    root: Annotated[str, Field(min_length=1), AfterValidator(_expanded)] = Field(
        default=".corral/worktrees",
        description="Folder of the worktrees: below the project's root, absolute, or `~/…`.",
    )
    setup: Commands = Field(
        default=[], description="Commands run in each fresh worktree; `recipe` stands for those of its recipes."
    )
    recipes: list[Annotated[str, Field(min_length=1)]] | None = Field(
        default=None, description="Recipes to apply, by name; null: those whose files are found; []: none."
    )
    port_first: int = Field(default=20_000, ge=1024, le=60_000, description="First port that is given to worktrees.")
    ports_each: int = Field(default=10, ge=0, le=100, description="Ports of its own that each worktree gets.")


class ClaudeRunner(_Section):
    """Workers that are Claude Code sessions."""

    command: Annotated[Command, AfterValidator(_runnable)] = Field(
        default="claude", description="The program: a name on the PATH, or a path (then it must exist)."
    )
    model: str | None = Field(
        default=None, min_length=1, description="Model to ask for; null: Claude Code's own choice."
    )
    max_turns: int | None = Field(
        default=None, ge=1, description="Turns after which a task is stopped; null: no limit."
    )
    max_cost_usd: float | None = Field(
        default=None, gt=0, description="Cost after which a task is stopped; null: no limit."
    )
    memory_mb: int = Field(
        default=2048, ge=16, description="Memory of the whole process tree, in MB; also for programs of agents."
    )


class CommandRunner(_Section):
    """Workers that are shell commands."""

    memory_mb: int = Field(default=512, ge=16, description="Memory of the whole process tree, in MB.")


class Runners(_Section):
    """What executes tasks."""

    claude: ClaudeRunner = ClaudeRunner()
    command: CommandRunner = CommandRunner()


class Logs(_Section):
    """The daemon's log, `.corral/logs/corral.log`."""

    level: Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], BeforeValidator(_upper)] = Field(
        default="INFO", description="The least severe level that is written."
    )
    keep_days: int = Field(default=30, ge=1, le=3650, description="Days after which a day's log is deleted.")


class Retention(_Section):
    """How long what is over is kept. What is open, unread or the only copy of work stays; so do tasks, merges and handoffs."""

    events_days: Days = Field(default=30, description="Days after which an event is deleted; null: never.")
    notices_days: Days = Field(
        default=7, description="Days after which a notice that was handed over is deleted; null: never."
    )
    messages_days: Days = Field(
        default=90, description="Days after which mail that every recipient has is deleted; null: never."
    )
    sessions_days: Days = Field(
        default=30, description="Days after which an ended session without a handoff is deleted; null: never."
    )
    worktrees_days: Days = Field(
        default=30, description="Days after which the row of a removed worktree is deleted; null: never."
    )
    receipts_days: Days = Field(
        default=90,
        description="Days after which a receipt that proves no open or landed merge is deleted; null: never.",
    )
    logs_days: Days = Field(
        default=30, description="Days after which a log of a task, merge or worktree is deleted; null: never."
    )
    logs_mb: int = Field(
        default=1000, ge=1, description="Size of all those logs together, in MB; beyond it the oldest are deleted."
    )
    salvage_days: Days = Field(
        default=30, description="Days after which saved work that a branch or tag holds too is forgotten; null: never."
    )
    backups_days: Days = Field(
        default=30, description="Days after which the copy of the database before an upgrade is deleted; null: never."
    )


class Daemon(_Section):
    """The process itself."""

    tcp: bool | None = Field(
        default=None,
        description="Whether it listens on loopback TCP too; null: only where `daemon.tcp_port` names a port.",
    )
    tcp_port: int = Field(default=0, ge=0, le=65_535, description="Loopback TCP port; 0: any free one.")

    @property
    def port(self) -> int | None:
        """The loopback TCP port to listen on (0: any free one); None: no TCP."""
        wanted = self.tcp_port > 0 if self.tcp is None else self.tcp
        return self.tcp_port if wanted else None


class Settings(_Section):
    """Everything that can be set. ``Settings()`` is the defaults."""

    landing: Landing = Landing()
    supervisor: Supervisor = Supervisor()
    tasks: Tasks = Tasks()
    locks: Locks = Locks()
    messages: Messages = Messages()
    sessions: Sessions = Sessions()
    worktrees: Worktrees = Worktrees()
    runners: Runners = Runners()
    logs: Logs = Logs()
    retention: Retention = Retention()
    daemon: Daemon = Daemon()


@dataclass(frozen=True)
class Setting:
    """One leaf of the settings.

    Attributes:
        key: Dotted path, such as ``runners.claude.model``.
        variable: The environment variable that overrides it.
        section: Where it is declared.
    """

    key: str
    variable: str
    section: type[BaseModel]

    @property
    def schema(self) -> dict[str, Any]:
        """Its JSON schema: type, range, default, description. Made when asked for: those of all take as long as loading them."""
        made: dict[str, Any] = self.section.model_json_schema()["properties"][self.key.rpartition(".")[2]]
        return made

    @property
    def types(self) -> set[str]:
        """The JSON types that it accepts."""
        return {part["type"] for part in self.schema.get("anyOf", [self.schema])}


def all_settings(section: type[BaseModel] = Settings, prefix: str = "") -> Iterator[Setting]:
    """Every setting there is, in order of declaration."""
    for name, field in section.model_fields.items():
        key = f"{prefix}{name}"
        if isinstance(field.default, BaseModel):
            yield from all_settings(type(field.default), f"{key}.")
        else:
            yield Setting(key, "CORRAL_" + key.upper().replace(".", "_"), section)
