"""Agents and the team: what is asked for, and what is answered."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field
from typing_extensions import NotRequired, TypedDict

from corral.core.answers import Error, FieldError, Instant
from corral.core.states import RunnerName
from corral.work.tasks.api import Short, Text

A_VERSION = "A version: 1.2.0, or the first six or more characters of its hash."


class ChosenVersion(BaseModel):
    """A version of an agent's definition."""

    version: Short = Field(description=A_VERSION, examples=["1.0.0"])


class NewRollout(ChosenVersion):
    """A version, and the share of the tasks that work by it."""

    share: float = Field(gt=0, lt=1, description="Share of the tasks that work by it.", examples=[0.2])


class NewImprovement(BaseModel):
    """The feedback on an agent."""

    feedback: Annotated[Text, Field(max_length=100_000)] | None = Field(
        default=None, description="Praise and complaints.", examples=["It forgets to run the tests."]
    )
    deploy_if_better: bool = Field(
        default=False, description="Write a version that does better into the file.", examples=[False]
    )


class AgentLimits(TypedDict, total=False):
    """The limits that a definition sets for each attempt; one that it does not set is absent."""

    timeout_s: float
    max_turns: int
    max_tokens: int
    max_cost_usd: float
    memory_mb: int


class _Startable(TypedDict, total=False):
    """How an agent is started; absent where its file has errors."""

    source: Literal["team", "project", "plugin"]
    file: str
    command: list[str]
    tools: list[str] | None
    disallowed_tools: list[str]
    limits: AgentLimits


class Agent(_Startable):
    """An agent that a task can name. One whose file has errors has a name and a problem alone.

    ``problem``: why it cannot start here; ``tools`` null: all of its runner; ``model`` null: that of the settings;
    ``command``: its own program with the arguments, empty without one.
    """

    name: str
    description: NotRequired[str]
    runner: NotRequired[str]
    model: NotRequired[str | None]
    capabilities: NotRequired[list[str]]
    problem: str | None


class TeamMember(_Startable):
    """An agent of the team; ``runner`` null: a person's session may have the name."""

    name: str
    role: str
    capabilities: list[str]
    description: str
    model: str | None
    runner: str | None
    instructions: str | None
    problem: str | None


class Team(TypedDict):
    """The team in force; ``error``: why a newer file could not be taken over."""

    agents: list[TeamMember]
    error: Error | None


class TeamValidation(TypedDict):
    """Whether the team's file is valid, and each error in it."""

    valid: bool
    errors: list[FieldError]


class TeamChecked(TeamValidation):
    """The same with the members that cannot start here."""

    warnings: list[FieldError]


class Runner(TypedDict):
    """A runner; ``problem``: why it can execute nothing here."""

    name: RunnerName
    problem: str | None
    remedy: str | None


class AgentVersion(TypedDict):
    """A version of a definition; ``current``: the file says so now; ``used``: an attempt has begun with it.

    ``author`` and ``reason`` are those of the commit that brought it.
    """

    version: str
    content_hash: str
    created_at: Instant
    changelog: str | None
    author: str | None
    reason: str | None
    current: bool
    used: bool


class AgentVersionText(AgentVersion):
    """A version with its text, without secrets."""

    agent: str
    content: str


AgentShown = Agent | AgentVersionText
"""An agent, or one version of its definition."""


class VersionDiff(TypedDict):
    """The difference between two versions, as a unified diff."""

    agent: str
    before: str
    after: str
    patch: str


class Deployed(TypedDict):
    """The version that an agent's file says now; ``changed``: it said something else before."""

    agent: str
    version: str
    file: str
    changed: bool


class Pinned(TypedDict):
    """The version that all tasks of an agent work by; ``waits_for_trust``: nobody approved the commands in it."""

    agent: str
    version: str
    pinned: Literal[True]
    waits_for_trust: bool


class Unpinned(TypedDict):
    """An agent whose tasks work by its file; ``was``: the version that it was pinned to."""

    agent: str
    was: str | None
    pinned: Literal[False]


PinChange = Pinned | Unpinned
"""A pin that was made or ended."""


class AgentChoice(TypedDict):
    """A pin or a rollout in force; ``share`` null: a pin; ``version`` null: it is stored no more."""

    choice_id: str
    agent: str
    version: str | None
    content_hash: str
    share: float | None


class Rate(TypedDict):
    """A share, and the interval that holds the true one in 19 of 20 cases; null where ``of`` is 0."""

    rate: float | None
    low: float | None
    high: float | None
    hits: int
    of: int


class Median(TypedDict):
    """A median, and how many values it is of."""

    median: float | None
    of: int


class RolloutFigures(TypedDict):
    """Both versions of a rollout by their good tasks.

    ``chance``: how likely so large a difference is if both are equally good, null before the first test; ``needed``: the
    ``chance`` below which they count as different; ``next_test_tasks``: tasks that each must have for the next test.
    """

    finding: Literal["too_few", "no_difference", "worse", "better"]
    old: Rate
    new: Rate
    chance: float | None
    needed: float | None
    next_test_tasks: int


_From = TypedDict("_From", {"from": str | None})


class Rollout(_From, RolloutFigures):
    """A rollout of ``version`` instead of ``from``; ``summary``: the comparison in words."""

    agent: str
    version: str
    state: Literal["running", "stopped", "rolled_back"]
    share: float
    reason: str | None
    created_at: Instant
    ended_at: Instant | None
    tasks: int
    summary: str


class StartedRollout(Rollout):
    """A rollout that begins; ``waits_for_trust``: nobody approved the commands in its version."""

    waits_for_trust: bool


RolloutShown = StartedRollout | Rollout
"""A rollout that begins, goes on or has ended."""


class ComparedSide(TypedDict):
    """The runs of the cases by one version; ``preferred``: pairs in which the judge preferred its work."""

    passed: Rate
    preferred: int
    duration_s: Median
    tokens: Median
    cost_usd: float


class ComparedCase(TypedDict):
    """How many runs of a case passed with each version, such as ``2 of 3``."""

    name: str
    old: str
    new: str


class JudgedCases(TypedDict):
    """Pairs of works by whose is better; ``unjudged``: an answer is missing; ``model`` null: nobody judged.

    ``chance``: how likely one is preferred so often if both are equally good.
    """

    old: int
    new: int
    ties: int
    unjudged: int
    model: str | None
    tokens: int
    chance: float
    cost_usd: float


class CasesCompared(TypedDict):
    """Both versions compared over the same cases; ``chance``: how likely so large a difference is without a true one."""

    recommendation: Literal["deploy", "iterate", "drop"]
    why: str
    chance: float
    old: ComparedSide
    new: ComparedSide
    judged: JudgedCases
    cases: list[ComparedCase]


class Report(CasesCompared):
    """The result of an improvement; ``cost_usd`` is that of all of it, ``deployed`` the file that has the new version now."""

    cost_usd: float
    deployed: str | None


class Improvement(TypedDict):
    """An improvement; ``version``: the proposed one; ``deploys``: it is written into the file if it does better.

    ``reason``: why it waits or failed.
    """

    improvement_id: str
    agent: str
    state: Literal["proposing", "testing", "done", "failed"]
    report: Report | None
    reason: str | None
    deploys: bool
    created_at: Instant
    ended_at: Instant | None
    version: str | None
    cases: list[str]


class Opinions(TypedDict):
    """What people said of an agent's tasks; ``mean`` of 1 to 5; ``comments``: the newest."""

    ratings: int
    mean: float | None
    comments: list[str]


class Landings(TypedDict):
    """How the changes of tasks came to their target; at the first try: one attempt, and one merge request."""

    landed: int
    first_try_landing: Rate
    evictions: int
    conflicts: int


class WorkFigures(Landings):
    """What attempts came to: ``outcomes`` counts them by how they ended, ``success`` is the rate of the completed ones.

    ``tokens`` and ``cost_usd`` are sums, ``tokens_each`` and ``duration_s`` of completed attempts.
    """

    tasks: int
    attempts: int
    running: int
    outcomes: dict[str, int]
    retries: int
    success: Rate
    duration_s: Median
    tokens_each: Median
    tokens: int
    cost_usd: float
    feedback: Opinions


class AgentRecord(WorkFigures):
    """The work of an agent, or of a group of its attempts; ``group`` null: all of it."""

    agent: str
    group: str | None
