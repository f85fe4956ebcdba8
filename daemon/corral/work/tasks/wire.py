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

    capabilities: list[Short] = Field(default_factory=list, max_length=64)


class TaskSubmission(BaseModel):
    """One task as a client submits it.

    Attributes:
        title: One line; default: the first line of the description.
        command: A shell command, run in the task's worktree.
        prompt: The prompt of an agent. Without command and prompt, a session claims the task.
        agent: A member of the team, or an agent definition. Default prompt: the description, or the title.
        agent_version: The version of its agent's definition to work by: its number, or six or more characters of its hash.
        feedback: The opinion or expectation of a person at submission: the comment that its agent's record gets.
        runner: Default: the agent's, or ``command`` or ``claude`` to match the other fields.
        thread_id: The message thread of the task's batch.
        deadline_at: Shown to the session that claims the task; not enforced.
        priority: 0 to 10, 10 first.
        wait_for: Ids of tasks (in a batch also local names) that must succeed first.
        claims: Lock keys (paths, globs, logical keys) that it will change. It is not started beside a task with mostly
            the same claims, and beside one that shares a few only when nothing else could start.
        target: The branch to land on; None is ``landing.target``.
        timeout_s: Time limit per attempt, seconds.
        max_retries: None is ``tasks.max_retries``. A command's own exit code is retried only where one of both is set.
        idempotency_key: A second submission with the same key returns the first one's task.
        name: In a batch: a local name that other tasks of the batch can depend on; they can also name its title.
        metadata: Kept and shown, and of no effect.
        template: The name of the task template that it is made from, a file of ``.corral/templates``, which says what is done;
            ``input_data`` then has the values of its parameters.
        agents: How many agents do it independently, each a copy of it; their results are combined as ``combine`` says. A
            worker executes each: a task that sessions claim has none.
        combine: ``all``: each lands, and all must succeed; ``first``: the first success counts; ``vote``: the output that
            most agree on; ``concat``: the outputs in a row; ``synthesize``: one more agent makes one of all.
        parent_task_id: The task whose agent leads this one's: this one ends with it.
        loop: It is repeated until criteria say that its work is good (:class:`corral.work.loops.spec.LoopSpec`).
        steps: The tasks that it is made of, which wait for each other by ``name``: those of its template, never a client's.
    """

    model_config = ConfigDict(extra="forbid")

    title: Title = Field(examples=["Add a greeting"])
    description: Body | None = None
    command: Body | None = Field(None, examples=["echo hi > hello.txt"])
    prompt: Body | None = None
    agent: Short | None = None
    agent_version: Short | None = None
    feedback: Reason | None = None
    runner: RunnerName | None = None
    task_type: Annotated[Text, StringConstraints(min_length=1, max_length=64)] = "task"
    input_data: dict[str, Any] | None = None
    priority: int = Field(default=5, ge=0, le=10, strict=True, examples=[5])
    wait_for: list[Short] = Field(default_factory=list, max_length=1000)
    ignore_dependency_failure: bool = False
    agent_requirements: AgentRequirements | None = None
    deadline_at: AwareDatetime | None = None
    thread_id: Annotated[str, StringConstraints(pattern=f"^{THREAD}$")] | None = None
    claims: list[Annotated[Text, StringConstraints(min_length=1, max_length=4096)]] = Field(
        default_factory=list, max_length=1000
    )
    target: Annotated[Text, StringConstraints(min_length=1, max_length=1024)] | None = None
    timeout_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    max_retries: int | None = Field(default=None, ge=0, le=100)
    limits: TaskLimits = Field(default_factory=TaskLimits)
    idempotency_key: Short | None = None
    submitted_by: Short | None = None
    author_name: Annotated[Text, StringConstraints(max_length=256)] | None = None
    author_email: Annotated[Text, StringConstraints(max_length=256)] | None = None
    name: Short | None = None
    metadata: dict[str, Any] | None = None
    template: Short | None = None
    parent_task_id: Short | None = None
    agents: int | None = Field(default=None, ge=1, le=50, strict=True)
    combine: Combine | None = None
    loop: LoopSpec | None = None
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
            for problem in error.errors(include_url=False, include_input=False):
                field = ".".join(_place(item, problem["loc"]))
                is_empty = "too_short" in problem["type"] and problem["ctx"]["actual_length"] == 0
                message = "It is empty." if is_empty else problem["msg"].removeprefix("Value error, ")
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
    raise InvalidInput(
        f"Not submitted: {where}{field}{str(first['message']).rstrip('.')}{more}.",
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
