"""Agents: workers while they run, and new versions of their definitions."""

from __future__ import annotations

from pydantic import Field

from corral.config.sections.values import Seconds, Section


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
