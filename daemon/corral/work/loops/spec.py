"""The wire format of loops: what is repeated until which criteria say that it is good."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

LINE = 20_000
"""Characters of a command or a rubric."""
Spoken = Annotated[str, StringConstraints(min_length=1, max_length=LINE, strip_whitespace=True)]
_TARGET = re.compile(r"\s*(>=|<=|==|=|>|<)?\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(%?)\s*")

MAX_ITERATIONS_EXCEEDED = "max_iterations_exceeded"
TIMEOUT_EXCEEDED = "timeout_exceeded"
CONDITION_FAILED = "condition_failed"
"""A custom criterion said that the loop has failed."""
PLATEAU = "plateau_reached"
"""The measured value has not become better for as many iterations as the criterion allows."""
CRITERIA_INCONCLUSIVE = "criteria_inconclusive"
"""No criterion came to a verdict, several times in a row."""


class Verdict(str, Enum):
    """The answer of an evaluation."""

    CONVERGED = "converged"
    NOT_CONVERGED = "not_converged"
    INCONCLUSIVE = "inconclusive"
    FAILED = "failed"
    """Of a custom criterion alone: further iterations make no sense."""

    def __str__(self) -> str:
        return self.value


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Commanded(_Part):
    command: Spoken
    timeout_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    @field_validator("command")
    @classmethod
    def _is_shell_text(cls, text: str) -> str:
        if "\0" in text:
            raise ValueError("contains a NUL character")
        return text


class TestsCriterion(_Commanded):
    """Converged with exit code 0.

    Attributes:
        junit: The report in JUnit's XML that the command writes, below the worktree: it gives the numbers.
    """

    __test__ = False
    kind: Literal["tests"] = "tests"
    junit: Annotated[str, StringConstraints(min_length=1, max_length=1024)] | None = None

    @field_validator("junit")
    @classmethod
    def _is_inside(cls, path: str | None) -> str | None:
        if path is not None and (path.startswith("/") or ".." in PurePosixPath(path).parts):
            raise ValueError("must be a path below the worktree")
        return path


class ThresholdCriterion(_Commanded):
    """Converged when the number that the command prints meets the target.

    Attributes:
        target: Such as ``>=0.9`` or ``<200``.
        pattern: A regular expression that finds the number (its first group, or all of it); the last match counts.
        path: The place of the number in the JSON that is printed, such as ``$.totals.coverage``. Without both: the last number.
        plateau: The loop ends when the number has not become better for as many iterations; None: never.
    """

    kind: Literal["threshold"] = "threshold"
    target: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    pattern: Spoken | None = None
    path: Spoken | None = None
    plateau: int | None = Field(default=None, ge=1, le=1000)

    @model_validator(mode="after")
    def _is_readable(self) -> ThresholdCriterion:
        if _TARGET.fullmatch(self.target) is None:
            raise ValueError(f"`target`: {self.target!r} is no target; write it like '>=0.9' or '<200'")
        if self.pattern is not None and self.path is not None:
            raise ValueError("a number is found by `pattern` or by `path`, not by both")
        if self.pattern is not None:
            try:
                re.compile(self.pattern)
            except re.error as error:
                raise ValueError(f"`pattern` is no regular expression: {error}") from error
        return self

    @property
    def comparison(self) -> tuple[str, float]:
        """The operator and the number of the target."""
        match = _TARGET.fullmatch(self.target)
        assert match is not None
        number = float(match[2]) / (100 if match[3] else 1)
        return {"=": "==", None: ">="}.get(match[1], match[1]), number


class CustomCriterion(_Part):
    """A shell command, or a Python function of a file in the worktree: 0 goes on, 1 has converged, 2 has failed.

    Attributes:
        function: ``FILE.py:NAME``; it is called with the iteration's result.
    """

    kind: Literal["custom"] = "custom"
    command: Spoken | None = None
    function: Annotated[str, StringConstraints(pattern=r"^[^:]{1,1024}\.py:[A-Za-z_]\w*$")] | None = None
    timeout_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _is_one(self) -> CustomCriterion:
        if (self.command is None) == (self.function is None):
            raise ValueError("a custom criterion has a `command` or a `function`")
        return self


class JudgeCriterion(_Part):
    """Claude says whether the work meets a rubric.

    Attributes:
        model: None is ``loops.judge_model``. The model that does the work is refused unless ``same_model`` allows it.
        votes: How often it is asked; the majority counts.
    """

    kind: Literal["judge"] = "judge"
    rubric: Spoken
    model: Annotated[str, StringConstraints(min_length=1, max_length=128)] | None = None
    votes: int = Field(default=3, ge=1, le=15)
    same_model: bool = False
    timeout_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)


Criterion = Annotated[
    TestsCriterion | ThresholdCriterion | CustomCriterion | JudgeCriterion, Field(discriminator="kind")
]


class LoopSpec(_Part):
    """The ``loop`` of a task.

    Attributes:
        until: The criteria.
        max_iterations: None is ``loops.max_iterations``.
        land: False: what it makes stays on its refs, and is never handed in.
    """

    until: list[Criterion] = Field(min_length=1, max_length=20)
    any: bool = Field(default=False, description="One criterion is enough (default: all must be met).")
    max_iterations: Annotated[int, Field(ge=1, le=1_000_000)] | Literal["unlimited"] | None = None
    timeout_s: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Time of all iterations together (default: loops.timeout_s).",
    )
    land: bool = True
    land_best: bool = Field(default=False, description="At its limits, land the best iteration.")

    def stored(self) -> dict[str, Any]:
        """As it is stored."""
        return self.model_dump(mode="json", exclude_none=True)
