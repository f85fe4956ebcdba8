"""The wire format of tasks, submitted and shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NoReturn

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StringConstraints,
    ValidationError,
    field_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue, SkipJsonSchema
from pydantic_core import CoreSchema

from corral.config.agents import TaskLimits
from corral.config.document import unknown_key
from corral.core.errors import InvalidInput
from corral.core.instants import iso, lasted_s
from corral.core.payload import picked
from corral.core.runners import TRAITS, traits
from corral.core.states import Combine, RunnerName
from corral.work.loops.spec import LoopSpec
from corral.work.tasks.api import TITLE_LIMIT, Attempt, Body, Reason, Short, TaskRead, Text, Title

IMPROVEMENT = "agent_improvement"
"""The type of the tasks of an improvement of an agent; no client may use it. They say nothing of the agent's real work."""
THREAD = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
"""Valid names of message threads."""


class AgentRequirements(BaseModel):
    """Capabilities that the task's agent needs; further keys are stored and shown."""

    model_config = ConfigDict(extra="allow")

    capabilities: list[Short] = Field(
        default_factory=list, max_length=64, description="A capability that its agent needs."
    )


class TaskSubmission(BaseModel):
    """One task as a client submits it; without a title, the first line of its description is that."""

    model_config = ConfigDict(extra="forbid")

    title: Title = Field(
        description="Title; also the commit's subject.",
        examples=["Add a greeting"],
    )
    description: Body | None = Field(
        default=None,
        description="Description; without a command or prompt, a session must claim the task (`corral task claim`).",
    )
    command: Body | None = Field(
        default=None, description="Shell command to run in the task's worktree.", examples=["echo hi > hello.txt"]
    )
    prompt: Body | None = Field(
        default=None, description="Prompt for an agent (default for a named agent: the description, else the title)."
    )
    agent: Short | None = Field(default=None, description="Agent to use: a team member or an agent definition.")
    agent_version: Short | None = Field(
        default=None, description="Version of its agent's definition: 1.2.0, or the begin of its hash."
    )
    feedback: Reason | None = Field(
        default=None, description="Comment for the record of its agent, as by `task feedback`."
    )
    runner: RunnerName | None = Field(
        default=None, description="Runner (default: its agent's; else claude for a prompt)."
    )
    task_type: Annotated[Text, StringConstraints(min_length=1, max_length=64)] = Field(
        default="task", description="Type, for sessions that claim tasks."
    )
    input_data: dict[str, Any] | None = Field(
        default=None, description="Input for its agent, or for its template: a JSON object."
    )
    priority: int = Field(
        default=5, ge=0, le=10, strict=True, description="10 first (default: the template's, or 5).", examples=[5]
    )
    wait_for: list[Short] = Field(
        default_factory=list, max_length=1000, description="A task that must land first; in a batch also by its name."
    )
    ignore_dependency_failure: bool = Field(default=False, description="Start even if a dependency fails.")
    agent_requirements: AgentRequirements | None = Field(
        default=None, description="What its agent has to be able to do."
    )
    deadline_at: AwareDatetime | None = Field(
        default=None, description="Shown to the session that claims the task; not enforced."
    )
    thread_id: Annotated[str, StringConstraints(pattern=f"^{THREAD}$")] | None = Field(
        default=None, description="Message thread of its batch."
    )
    claims: list[Annotated[Text, StringConstraints(min_length=1, max_length=4096)]] = Field(
        default_factory=list,
        max_length=1000,
        description="A path or lock key that the task will change. It is not started beside one with mostly the same.",
    )
    target: Annotated[Text, StringConstraints(min_length=1, max_length=1024)] | None = Field(
        default=None, description="Land on this branch (default: landing.target)."
    )
    timeout_s: float | None = Field(default=None, gt=0, allow_inf_nan=False, description="Time limit per attempt.")
    max_retries: int | None = Field(
        default=None,
        ge=0,
        le=100,
        description="Number of retries (default: tasks.max_retries, and none for a command's own exit code).",
    )
    limits: TaskLimits = Field(default_factory=TaskLimits, description="Limits of each attempt.")
    idempotency_key: Short | None = Field(
        default=None, description="Idempotency key: the same key returns the same task."
    )
    submitted_by: Short | None = Field(default=None, description="The session that submits it.")
    author_name: Annotated[Text, StringConstraints(max_length=256)] | None = Field(
        default=None, description="Author of its commits where git's configuration has no identity."
    )
    author_email: Annotated[Text, StringConstraints(max_length=256)] | None = Field(
        default=None, description="The author's address."
    )
    name: Short | None = Field(
        default=None,
        description="In a batch: a local name that other tasks of it can depend on; they can also name its title.",
    )
    metadata: dict[str, Any] | None = Field(default=None, description="Kept with it and shown: a JSON object.")
    template: Short | None = Field(
        default=None,
        description="Template in .corral/templates that says what is done; its parameters' values are in the input.",
    )
    parent_task_id: Short | None = Field(
        default=None, description="Task whose agent leads this one's; it ends with it."
    )
    agents: int | None = Field(
        default=None,
        ge=1,
        le=50,
        strict=True,
        description="Number of agents that do it, each by itself; a worker executes each.",
    )
    combine: Combine | None = Field(
        default=None,
        description="How their results become one (default: all). `all`: each lands; `first`: the first success; `vote`: what "
        "most agree on; `concat`: in a row; `synthesize`: one more agent makes one of all.",
    )
    loop: LoopSpec | None = Field(default=None, description="Repeat it until criteria say that its work is good.")
    steps: SkipJsonSchema[list[TaskSubmission]] = Field(default_factory=list)

    @property
    def number_of_tasks(self) -> int:
        """How many tasks it makes: its agents and its steps have tasks of their own."""
        return 1 + (self.agents or 0) + sum(step.number_of_tasks for step in self.steps)

    @model_validator(mode="before")
    @classmethod
    def _titled(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("title") is None and isinstance(value.get("description"), str):
            lines = (line for line in value["description"].splitlines() if line.strip())
            return {**value, "title": next(lines, "")[:TITLE_LIMIT]}
        return value

    @field_serializer("deadline_at", when_used="unless-none")
    def _as_stored(self, moment: AwareDatetime) -> str:
        return iso(moment)

    @model_validator(mode="after")
    def _one_kind_of_work(self) -> TaskSubmission:
        if self.command is not None and self.prompt is not None:
            raise ValueError("a task has a command or a prompt, not both")
        if self.agents is not None:
            self.combine = self.combine or Combine.ALL
        elif self.combine is not None:
            raise ValueError("`combine` needs `agents`, the number of agents whose results are combined")
        if self.combine is Combine.SYNTHESIZE and self.command is not None:
            raise ValueError("a command cannot synthesize: use a prompt, or another rule")
        if self.loop is not None and self.agents is not None:
            raise ValueError("a task that several agents do is no loop")
        if self.agent_version is not None and self.agent is None:
            raise ValueError("`agent_version` needs an `agent`")
        if self.agent is not None and self.command is None:
            return self  # its agent decides about the runner
        work_of = {
            RunnerName(name): self.prompt if runner.is_model else self.command for name, runner in TRAITS.items()
        }
        fitting = next((runner for runner, work in work_of.items() if work is not None), None)
        if self.runner is None:
            self.runner = fitting
        elif work_of[self.runner] is None:
            needs = "prompt" if traits(self.runner).is_model else "command"
            raise ValueError(f"the runner {self.runner} needs a {needs}")
        if self.loop is not None and self.runner is None:
            raise ValueError("`loop` needs a command, a prompt or an agent: a task that sessions claim is done once")
        if self.agents is not None and self.runner is None:
            raise ValueError(
                "`agents` needs a command, a prompt or an agent: a task that sessions claim is done by one"
            )
        return self


class _AsSubmission:
    """A JSON value that :func:`read_submissions` reads, so that its errors tell their places; documented as a submission."""

    def __get_pydantic_json_schema__(self, _core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(TaskSubmission.__pydantic_core_schema__)


Submission = Annotated[dict[str, Any], _AsSubmission()]


class Batch(BaseModel):
    """Several tasks, all or none; each as for `POST /tasks`."""

    tasks: list[Annotated[Any, _AsSubmission()]] = Field(
        min_length=1,
        max_length=1000,
        examples=[[{"title": "Add a greeting", "command": "echo hi > hello.txt", "priority": 5, "name": "greeting"}]],
    )


def read_submissions(items: list[Any]) -> list[TaskSubmission]:
    """Validate a client's tasks; none is used unless all are valid.

    Raises:
        InvalidInput: ``details['errors']`` names each wrong field: ``[{index, field, message}]``.
    """
    submissions, errors = parse_submissions(items)
    if errors:
        refuse(errors, len(items))
    return submissions


DEPENDENCIES = ("depends_on", "dependency", "depends", "deps", "needs", "requires", "blocked_by", "after")
"""Names that people give to what a task waits for."""
_MEANT = {**dict.fromkeys((*DEPENDENCIES, "dependencies"), "wait_for"), "capabilities": "agent_requirements"}


def parse_submissions(items: list[Any]) -> tuple[list[TaskSubmission], list[dict[str, Any]]]:
    """A client's tasks, and the errors in them, so that further checks can report theirs too.

    Returns:
        A submission for each item, in place of an invalid one a task with its title and name alone; and
        ``[{index, field, message}]``.
    """
    submissions: list[TaskSubmission] = []
    errors: list[dict[str, Any]] = []
    for index, item in enumerate(items):
        try:
            submissions.append(TaskSubmission.model_validate(item))
        except ValidationError as error:
            title, name = (item.get(field) if isinstance(item, dict) else None for field in ("title", "name"))
            stand_in = TaskSubmission.model_construct(
                title=title if isinstance(title, str) else "", name=name if isinstance(name, str) else None
            )
            submissions.append(stand_in)
            for problem in error.errors(include_url=False):
                field = ".".join(_place(item, problem["loc"]))
                is_empty = "too_short" in problem["type"] and not problem["input"]
                message = "It is empty." if is_empty else problem["msg"].removeprefix("Value error, ")
                if problem["type"] == "extra_forbidden":
                    message = unknown_key(problem, TaskSubmission, _MEANT)
                errors.append({"index": index, "field": field, "message": message})
    return submissions, errors


def _place(item: Any, place: Sequence[str | int]) -> list[str]:
    """The place of an error; a step's is named by the step."""
    if place[:1] == ("steps",) and len(place) > 1:
        return ["steps", str(item["steps"][place[1]]["name"]), *map(str, place[2:])]
    return [str(part) for part in place]


def refuse(errors: list[dict[str, Any]], total: int) -> NoReturn:
    """Raise the error for an invalid submission or batch.

    Args:
        errors: ``[{index, field, message}]``, at least one.
        total: Number of tasks submitted together.

    Raises:
        InvalidInput: Always.
    """
    errors = sorted(errors, key=lambda error: int(error["index"]))
    first = errors[0]
    where = f"task {first['index'] + 1} of {total}: " if total > 1 else ""
    field = f"{first['field']}: " if first["field"] else ""
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    what = f"Not submitted: {where}{field}{str(first['message']).rstrip('.')}{more}"
    raise InvalidInput(
        what if what.endswith("?") else f"{what}.",
        remedy="Correct it and submit again; nothing was queued.",
        details={"errors": errors, "submitted": total},
    )


SUMMARY_FIELDS = (
    "task_id", "title", "status", "priority", "agent", "template", "created_at", "progress", "parent_task_id", "step",
)  # fmt: skip
_USAGE = {"input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0, "turns": 0}


def summary(row: Mapping[str, Any]) -> dict[str, Any]:
    """A task as a list shows it."""
    return {"number": row["seq"], **picked(row, SUMMARY_FIELDS)}


def read(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of :class:`TaskRead`."""
    return picked(row, TaskRead.__annotations__)


_LEASED = (
    "task_id", "task_type", "title", "input_data", "priority", "thread_id", "agent_requirements", "lease_expires_at",
    "fencing_token", "attempts",
)  # fmt: skip


def leased(row: Mapping[str, Any]) -> dict[str, Any]:
    """A task as returned to the session that claims it; ``description`` defaults to the title."""
    about = {"description": row["description"] or row["title"], "deadline": row["deadline_at"]}
    return {**picked(row, _LEASED), **about}


def attempt(row: Mapping[str, Any]) -> dict[str, Any]:
    """An attempt as a task's detail shows it; ``outcome`` and ``duration_s`` are None while it lasts."""
    lasted = lasted_s(row["started_at"], row["ended_at"])
    return picked({**row, "duration_s": lasted, "usage": usage([row])}, Attempt.__annotations__)


def usage(attempts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The usage of attempts together: ``input_tokens, output_tokens, cost_usd, turns``."""
    return {name: sum((row["usage"].get(name, none) for row in attempts), none) for name, none in _USAGE.items()}
