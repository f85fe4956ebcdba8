"""The fields by which a task template, and each step of one, says what is done; and the task that they make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, StringConstraints, model_validator

from corral.config.agents import AgentLimits
from corral.core.states import Combine, RunnerName
from corral.work.templates import substitution
from corral.work.templates.substitution import Value

TEXTS = ("title", "prompt", "claims")
COMMANDS = ("command", "loop")
_PLAIN = {"agent", "agent_version", "runner", "agents", "combine", "priority", "task_type", "target", "max_retries"}

Body = Annotated[str, StringConstraints(min_length=1, max_length=1_000_000, pattern=r"^[^\x00]*$")]
Path = tuple[str | int, ...]


class WorkFields(BaseModel):
    """The work, who does it, and its limits; the fields of a task are checked once its parameters have values."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: Annotated[str, StringConstraints(min_length=1)] | None = None
    command: Body | None = None
    prompt: Body | None = None
    agent: str | None = None
    agent_version: str | None = None
    runner: RunnerName | None = None
    capabilities: list[str] = []
    agents: int | None = None
    combine: Combine | None = None
    claims: list[str] = []
    limits: AgentLimits = AgentLimits()
    priority: int | None = None
    task_type: str | None = None
    target: str | None = None
    max_retries: int | None = None
    loop: dict[str, Any] | None = None

    @property
    def has_work(self) -> bool:
        """Whether it says itself what is done."""
        return True

    @model_validator(mode="after")
    def _does_something(self) -> WorkFields:
        if self.has_work and (self.command is None) == (self.prompt is None):
            raise ValueError("needs a `command` or a `prompt`, and not both")
        return self

    def leaves(self) -> Iterator[tuple[Path, str]]:
        """The texts in which placeholders count, with their places."""

        def within(path: Path, value: Any) -> Iterator[tuple[Path, str]]:
            if isinstance(value, str):
                yield path, value
            elif isinstance(value, (dict, list)):
                for key, part in value.items() if isinstance(value, dict) else enumerate(value):
                    yield from within((*path, key), part)

        for field in (*TEXTS, *COMMANDS):
            yield from within((field,), getattr(self, field))


def rendered_work(fields: WorkFields, values: Mapping[str, Value]) -> dict[str, Any]:
    """The task that these fields make, as a client submits it.

    Args:
        values: One for each placeholder.
    """

    def written(field: str, value: Any) -> Any:
        if isinstance(value, str):
            write = substitution.as_word if field in COMMANDS else substitution.as_text
            return substitution.substituted(value, values, write)
        if isinstance(value, dict):
            return {key: written(field, part) for key, part in value.items()}
        return [written(field, part) for part in value] if isinstance(value, list) else value

    task = fields.model_dump(mode="json", include=_PLAIN, exclude_none=True)
    for field in (*TEXTS, *COMMANDS):
        if (value := getattr(fields, field)) not in (None, []):
            task[field] = written(field, value)
    limits = fields.limits.model_dump(exclude_none=True)
    if (timeout := limits.pop("timeout_s", None)) is not None:
        task["timeout_s"] = timeout
    if limits:
        task["limits"] = limits
    if fields.capabilities:
        task["agent_requirements"] = {"capabilities": fields.capabilities}
    return task
