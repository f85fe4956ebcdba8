"""Limits of one attempt, as an agent's definition and a task give them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class TaskLimits(BaseModel):
    """Limits of one attempt; None is no limit. The time limit is ``TaskSubmission.timeout_s``."""

    model_config = ConfigDict(extra="forbid")

    max_turns: int | None = Field(default=None, gt=0)
    max_tokens: int | None = Field(default=None, gt=0)
    max_cost_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    memory_mb: int | None = Field(default=None, gt=0)
