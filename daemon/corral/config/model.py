"""The settings: one frozen class per section; each field has a type, a range, a default and a description.

This is the only declaration of settings. Loading, ``CORRAL_`` variables, the table in ``docs/configuration.md`` and the
JSON schema (``Settings.model_json_schema()``) are all derived from it.
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
"""Excludes options and revision expressions; git itself decides whether the name is valid."""


@dataclass(frozen=True)
class Places:
    """The folders that path settings are relative to; passed to validation as its context."""

    root: Path
    home: Path


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def _listed(value: Any) -> Any:
    """Accept a single command without a list, and treat a list whose entries are all commented out as empty."""
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
    """Validate a program: a bare name is looked up on the PATH when it is needed; a path must name an existing file."""
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
        default=None, description="Branch that finished work lands on; null: the current branch of the main checkout."
    )
    verify: Commands = Field(
        default=[],
        description="Commands that must pass on the merged tree, in order; none: work lands as `unverified`.",
    )
    approve_paths: Globs = Field(
        default=["**/CLAUDE.md", "**/CLAUDE.local.md", "**/.claude/**", "**/.mcp.json", "hooks/**", ".corral/**"],
        description="A merge that changes a matching path, or a file that `verify` names, needs `corral merge "
        "approve`.",
    )
    rest_s: Pause = Field(
        default=1,
        description="Idle time of git in the target's checkout before it is moved; waits at most 30 s.",
    )
    timeout_s: Seconds = Field(default=600, description="Time limit for one verification.")
    on_conflict: Literal["return"] = Field(
        default="return", description="Handling of a conflict: the branch goes back to its author."
    )
    reruns: int = Field(default=1, ge=0, le=10, description="Number of reruns before a red verification counts as red.")


class Supervisor(_Section):
    """How many workers run, how they are stopped, and where the supervisor's files are."""

    max_agents: int = Field(default=10, ge=0, le=1000, description="Workers at the same time; 0 starts none.")
    stop_grace_s: Pause = Field(default=5, description="Time between SIGTERM and SIGKILL when a worker is stopped.")
    max_depth: int = Field(
        default=3, ge=1, le=10, description="Levels of agents that are led by others, the first leader included."
    )
    state_dir: Annotated[str, Field(min_length=1), AfterValidator(_expanded)] = Field(
        default=".corral/state",
        description="Folder of the roadmap, the lifecycle files and the evidence: relative to the project's root, "
        "absolute, or `~/…`.",
    )


class Agents(_Section):
    """Workers while they run."""

    stalled_after_s: Seconds = Field(default=300, description="Time without progress after which a worker is stalled.")


class Limits(_Section):
    """Limits of all workers together. From 80 % of a limit on, no further worker starts until the use is below again."""

    memory_mb: int | None = Field(
        default=4096, ge=16, description="Memory of all workers together, in MB; null: no limit."
    )
    memory_mb_per_agent: int | None = Field(
        default=None, ge=16, description="Memory of each worker, in MB; null: that of its runner."
    )
    output_mb_per_agent: int | None = Field(default=1024, ge=1, description="Output per attempt, MB; null: no limit.")
    requests_per_minute: int | None = Field(
        default=None, ge=1, description="Answers of models per minute, over all workers; null: no limit."
    )
    tokens_per_day: int | None = Field(
        default=None, ge=1, description="Tokens of the last 24 hours, over all workers; null: no limit."
    )
    cost_usd_per_day: float | None = Field(
        default=None, gt=0, description="Cost of the last 24 hours in USD, over all workers; null: no limit."
    )


class Queue(_Section):
    """The size of the queue."""

    max_size: int = Field(
        default=1000, ge=1, le=1_000_000, description="Largest number of tasks that are `waiting` or `pending`."
    )


class Tasks(_Section):
    """The queue: retries and order."""

    max_retries: int | None = Field(
        default=None,
        ge=0,
        le=100,
        description="Retries of a failed task before it is `dead`; null: 3, and none after a command's own exit code.",
    )
    max_crashes: int = Field(
        default=5,
        ge=0,
        le=100,
        description="Times in a row that the daemon died, or the worker was killed, while a task ran; one more "
        "makes it `dead`.",
    )
    retry_initial_s: Pause = Field(default=10, description="Delay before the first retry; it doubles with each one.")
    retry_max_s: Pause = Field(default=300, description="Longest delay between two attempts.")
    ageing_s: Pause = Field(
        default=0, description="Interval after which a waiting task gains one step of priority; 0: never."
    )
    unblock_on: Literal["landed", "completed"] = Field(
        default="landed", description="State that a dependency must reach before its dependents start."
    )
    on_interrupted: Literal["resume", "fail"] = Field(
        default="resume",
        description="Whether a task that was running when the daemon stopped or died runs again, or fails.",
    )

    @property
    def retries(self) -> int:
        """The number of retries of a task that sets none."""
        return DEFAULT_RETRIES if self.max_retries is None else self.max_retries


class Locks(_Section):
    """Locks on files."""

    enforcement: Literal["enforce", "warn", "off"] = Field(
        default="enforce",
        description="Response to an edit of a file that another session holds: deny, warn, or nothing.",
    )
    ttl_s: Seconds = Field(default=3600, description="Lifetime of an unused lock; every use renews it.")
    on_daemon_down: Literal["allow", "deny"] = Field(
        default="allow", description="Whether edits pass while no daemon answers; `corral init` activates a change."
    )


class Messages(_Section):
    """Mail between sessions."""

    wake: Literal["low", "normal", "high", "urgent", "off"] = Field(
        default="normal",
        description="Lowest importance of mail that wakes an idle session in a terminal; `off`: none.",
    )


class Sessions(_Section):
    """When a silent session counts as stalled or disconnected."""

    stale_after_s: Seconds = Field(
        default=900,
        description="Time without a heartbeat, in the middle of a turn, after which a session is `stalled`; "
        "after twice that it is disconnected.",
    )
    lease_s: Seconds = Field(
        default=14_400,
        description="Time that a silent person keeps a claimed task; a session keeps its task while it is alive.",
    )


class Worktrees(_Section):
    """Location and preparation of worktrees."""

    root: Annotated[str, Field(min_length=1), AfterValidator(_expanded)] = Field(
        default=".corral/worktrees",
        description="Folder of the worktrees: relative to the project's root, absolute, or `~/…`.",
    )
    setup: Commands = Field(
        default=[], description="Setup commands for each new worktree; `recipe` stands for those of its recipes."
    )
    recipes: list[Annotated[str, Field(min_length=1)]] | None = Field(
        default=None, description="Recipes to apply, by name; null: those whose files exist; []: none."
    )
    port_first: int = Field(default=20_000, ge=1024, le=60_000, description="First port assigned to worktrees.")
    ports_each: int = Field(default=10, ge=0, le=100, description="Number of ports per worktree.")
    pool_size: int = Field(default=4, ge=0, le=100, description="Finished worktrees kept for later tasks; 0: none.")
    pool_disk_mb: int = Field(default=4096, ge=0, description="Disk space of the kept worktrees together, in MB.")


class ClaudeRunner(_Section):
    """Workers that are Claude Code sessions."""

    command: Annotated[Command, AfterValidator(_runnable)] = Field(
        default="claude", description="The program: a name on the PATH, or a path to an existing file."
    )
    model: str | None = Field(default=None, min_length=1, description="Model to use; null: Claude Code's default.")
    max_turns: int | None = Field(default=None, ge=1, description="Turn limit of a task; null: none.")
    max_cost_usd: float | None = Field(default=None, gt=0, description="Cost limit of a task in USD; null: none.")
    memory_mb: int = Field(
        default=2048, ge=16, description="Memory limit of the process tree, in MB; also for programs of agents."
    )


class AnthropicRunner(_Section):
    """Workers that are conversations with the Messages API, by the key in the daemon's ANTHROPIC_API_KEY."""

    model: str = Field(default="claude-sonnet-5-5", min_length=1, description="Model to use.")
    max_turns: int | None = Field(default=None, ge=1, description="Turn limit of a task; null: none.")
    max_cost_usd: float | None = Field(default=None, gt=0, description="Cost limit of a task in USD; null: none.")
    max_tokens_per_answer: int = Field(
        default=16_000, ge=256, le=128_000, description="Most tokens that the model writes in one answer."
    )
    memory_mb: int = Field(default=2048, ge=16, description="Memory limit of the process tree, in MB.")


class CommandRunner(_Section):
    """Workers that are shell commands."""

    memory_mb: int = Field(default=512, ge=16, description="Memory limit of the process tree, in MB.")


class Runners(_Section):
    """Settings per runner."""

    claude: ClaudeRunner = ClaudeRunner()
    command: CommandRunner = CommandRunner()
    anthropic: AnthropicRunner = AnthropicRunner()


class Logs(_Section):
    """The daemon's log, `.corral/logs/corral.log`."""

    level: Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], BeforeValidator(_upper)] = Field(
        default="INFO", description="Lowest level that is written."
    )
    keep_days: int = Field(default=30, ge=1, le=3650, description="Days after which a day's log is deleted.")


class Retention(_Section):
    """How long finished data is kept. Open or unread data, tasks, merges, handoffs and unlanded work always stay."""

    events_days: Days = Field(default=30, description="Days after which an event is deleted; null: never.")
    notices_days: Days = Field(default=7, description="Days after which a delivered notice is deleted; null: never.")
    messages_days: Days = Field(
        default=90, description="Days after which mail that every recipient has read is deleted; null: never."
    )
    sessions_days: Days = Field(
        default=30, description="Days after which an ended session without a handoff is deleted; null: never."
    )
    worktrees_days: Days = Field(
        default=30, description="Days after which the row of a removed worktree is deleted; null: never."
    )
    receipts_days: Days = Field(
        default=90,
        description="Days after which a receipt of no open or landed merge is deleted; null: never.",
    )
    logs_days: Days = Field(
        default=30, description="Days after which a log of a task, merge or worktree is deleted; null: never."
    )
    logs_mb: int = Field(
        default=1000, ge=1, description="Total size of those logs in MB; beyond it the oldest are deleted."
    )
    salvage_days: Days = Field(
        default=30, description="Days after which saved work that a branch or tag contains is deleted; null: never."
    )
    backups_days: Days = Field(
        default=30, description="Days after which the database copy from before an upgrade is deleted; null: never."
    )


class Daemon(_Section):
    """The daemon process."""

    tcp: bool | None = Field(
        default=None,
        description="Listen on loopback TCP too; null: only if `daemon.tcp_port` names a port.",
    )
    tcp_port: int = Field(default=0, ge=0, le=65_535, description="Loopback TCP port; 0: any free one.")

    @property
    def port(self) -> int | None:
        """The loopback TCP port to listen on (0: any free one); None: no TCP."""
        wanted = self.tcp_port > 0 if self.tcp is None else self.tcp
        return self.tcp_port if wanted else None


class Settings(_Section):
    """All settings. ``Settings()`` is the defaults."""

    landing: Landing = Landing()
    supervisor: Supervisor = Supervisor()
    agents: Agents = Agents()
    limits: Limits = Limits()
    queue: Queue = Queue()
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
        section: The class that declares it.
    """

    key: str
    variable: str
    section: type[BaseModel]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema: type, range, default, description. Computed on demand: all of them are slow."""
        made: dict[str, Any] = self.section.model_json_schema()["properties"][self.key.rpartition(".")[2]]
        return made

    @property
    def types(self) -> set[str]:
        """The JSON types that it accepts."""
        return {part["type"] for part in self.schema.get("anyOf", [self.schema])}


def all_settings(section: type[BaseModel] = Settings, prefix: str = "") -> Iterator[Setting]:
    """Every setting, in order of declaration."""
    for name, field in section.model_fields.items():
        key = f"{prefix}{name}"
        if isinstance(field.default, BaseModel):
            yield from all_settings(type(field.default), f"{key}.")
        else:
            yield Setting(key, "CORRAL_" + key.upper().replace(".", "_"), section)
