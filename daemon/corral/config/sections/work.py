"""Tasks, the workers that do them, their worktrees and their limits."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator

from corral.config.sections.values import Command, Commands, Pause, Seconds, Section, expanded, runnable
from corral.core.states import PHASES, read_phases

DEFAULT_RETRIES = 3


MOST_AT_ONCE = 64
"""Threads that start, and that end, workers at most."""


class Supervisor(Section):
    """How many workers run, how they are stopped, and where the supervisor's files are."""

    max_agents: int = Field(
        default=10,
        ge=0,
        le=1000,
        description="Workers at the same time, without those that lead others of them; 0 starts none.",
    )
    starts_at_once: int = Field(
        default=16, ge=1, le=MOST_AT_ONCE, description="Workers that start at the same time, their worktrees included."
    )
    ends_at_once: int = Field(
        default=8,
        ge=1,
        le=MOST_AT_ONCE,
        description="Ended workers whose work is collected at the same time; read when the daemon starts.",
    )
    stop_grace_s: Pause = Field(default=3, description="Time between SIGTERM and SIGKILL when a worker is stopped.")
    max_depth: int = Field(
        default=3, ge=1, le=10, description="Levels of agents that are led by others, the first leader included."
    )
    process: Annotated[list[str], BeforeValidator(read_phases)] = Field(
        default=list(PHASES),
        description="Phases that models are asked for in tasks of the roadmap, each with a file in the evidence; []: none.",
    )
    process_required: bool = Field(
        default=False, description="Whether a task of the roadmap fails if its agent left no file of a phase."
    )
    state_dir: Annotated[str, Field(min_length=1), AfterValidator(expanded)] = Field(
        default=".corral/state",
        description="Folder of the roadmap, the lifecycle files and the evidence: relative to the project's root, "
        "absolute, or `~/…`.",
    )


class Limits(Section):
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

    @field_validator("memory_mb_per_agent")
    @classmethod
    def _is_feasible(cls, each: int | None, info: ValidationInfo) -> int | None:
        together = info.data.get("memory_mb")
        if each is not None and together is not None and each > together:
            raise ValueError(f"should be at most `limits.memory_mb` ({together}), which all workers share")
        return each


class Queue(Section):
    """The size of the queue."""

    max_size: int = Field(
        default=1000, ge=1, le=1_000_000, description="Largest number of tasks that are `waiting` or `pending`."
    )


class Tasks(Section):
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
        default="landed",
        description="State that a dependency must reach before its dependents start; `completed`: they begin on its branch, "
        "and land behind it.",
    )
    on_interrupted: Literal["resume", "fail"] = Field(
        default="resume",
        description="Whether a task that was running when the daemon stopped or died runs again, or fails.",
    )

    @property
    def retries(self) -> int:
        """The number of retries of a task that sets none."""
        return DEFAULT_RETRIES if self.max_retries is None else self.max_retries


class Loops(Section):
    """Tasks that are repeated until criteria say that their work is good."""

    max_iterations: int = Field(default=10, ge=1, le=1_000_000, description="Iterations of a loop that sets no limit.")
    timeout_s: Seconds = Field(default=3600, description="Time of all iterations of a loop that sets none.")
    criterion_timeout_s: Seconds = Field(default=600, description="Time that a criterion's command may take.")
    judge_model: str | None = Field(
        default=None, min_length=1, description="Model that judges; null: a strong one that did not do the work."
    )


class Worktrees(Section):
    """Location and preparation of worktrees."""

    root: Annotated[str, Field(min_length=1), AfterValidator(expanded)] | None = Field(
        default=None,
        description="Folder of all worktrees: relative to the project's root, absolute, or `~/…`; null: "
        "`<repository>.worktrees` beside the repository, or one in `~/corral-worktrees`.",
    )
    sparse: bool = Field(
        default=False,
        description="Whether worktrees of tasks have only the files of the main checkout's sparse patterns; verification "
        "always has all.",
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
    pool_min_files: int = Field(
        default=1000,
        ge=0,
        description="Fewest files of a kept worktree: a new one of fewer is as fast.",
    )
    pool_disk_mb: int = Field(default=4096, ge=0, description="Disk space of the kept worktrees together, in MB.")


class ClaudeRunner(Section):
    """Workers that are Claude Code sessions."""

    command: Annotated[Command, AfterValidator(runnable)] = Field(
        default="claude", description="The program: a name on the PATH, or a path to an existing file."
    )
    model: str | None = Field(default=None, min_length=1, description="Model to use; null: Claude Code's default.")
    max_turns: int | None = Field(default=None, ge=1, description="Turn limit of a task; null: none.")
    max_cost_usd: float | None = Field(default=None, gt=0, description="Cost limit of a task in USD; null: none.")
    memory_mb: int = Field(
        default=2048, ge=16, description="Memory limit of the process tree, in MB; also for programs of agents."
    )


class AnthropicRunner(Section):
    """Workers that are conversations with the Messages API, by the key that `corral config key-status` names."""

    model: str = Field(default="claude-sonnet-5-5", min_length=1, description="Model to use.")
    max_turns: int | None = Field(default=None, ge=1, description="Turn limit of a task; null: none.")
    max_cost_usd: float | None = Field(default=None, gt=0, description="Cost limit of a task in USD; null: none.")
    max_tokens_per_answer: int = Field(
        default=16_000, ge=256, le=128_000, description="Most tokens that the model writes in one answer."
    )
    memory_mb: int = Field(default=2048, ge=16, description="Memory limit of the process tree, in MB.")


class CommandRunner(Section):
    """Workers that are shell commands."""

    memory_mb: int = Field(default=512, ge=16, description="Memory limit of the process tree, in MB.")


class Runners(Section):
    """Settings per runner."""

    claude: ClaudeRunner = ClaudeRunner()
    command: CommandRunner = CommandRunner()
    anthropic: AnthropicRunner = AnthropicRunner()


# -- Agents: workers while they run, and new versions of their definitions


class Rollout(Section):
    """When `corral agent rollout` finds a new version worse, and ends by itself."""

    min_tasks: int = Field(
        default=10, ge=3, le=100_000, description="Tasks that each version must have before they are first compared."
    )
    confidence: float = Field(
        default=0.95, ge=0.5, le=0.9999, description="Certainty of all comparisons together that a version is worse."
    )


class Improve(Section):
    """Bounds of `corral agent improve`."""

    max_cases: int = Field(default=3, ge=1, le=10, description="Test cases of an improvement.")
    max_cost_usd: float = Field(
        default=5,
        gt=0,
        description="Cost in USD of an improvement's proposal, and of all runs and judges of its cases together.",
    )
    rounds: int = Field(default=2, ge=1, le=20, description="Times that each version does each case.")


class Agents(Section):
    """Workers while they run, and new versions of agents' definitions."""

    stalled_after_s: Seconds = Field(default=300, description="Time without progress after which a worker is stalled.")
    rollout: Rollout = Rollout()
    improve: Improve = Improve()
