"""Rollouts: a share of an agent's tasks works by a new version, until that is found worse, or a person ends it.

A task counts as good if its first attempt that neither the machine nor a person ended completed, and its first merge request, if
it has one, did not come back. The test is Fisher's, one-sided: how likely is it that the new version has so few good tasks, if
both are equally good? It is made only when both versions have ``min_tasks``, twice, four times … as many tasks, and each time
asks for more, so that all tests together roll back a version that is not worse in one of 20 cases (``confidence: 0.95``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from sqlalchemy import Connection

from corral.config.sections.work import Rollout as Rules
from corral.core.events import EventKind
from corral.core.instants import iso
from corral.core.states import AttemptOutcome, MergeState
from corral.store import events
from corral.store.rows.agents import ArmTask, RunningChoice
from corral.work.agents.api import RolloutFigures
from corral.work.agents.choosing import definition_of
from corral.work.agents.record import rate
from corral.work.agents.store import choices

CAME_BACK = (MergeState.FAILED, MergeState.CONFLICT)
_OPEN = (MergeState.QUEUED, MergeState.VERIFYING)


class Finding(str, Enum):
    """The result of comparing the two versions of a rollout."""

    TOO_FEW = "too_few"
    NO_DIFFERENCE = "no_difference"
    WORSE = "worse"
    BETTER = "better"


@dataclass(frozen=True)
class Arm:
    """Tasks of one version that can be judged, and how many of them are good."""

    good: int = 0
    of: int = 0


@dataclass(frozen=True)
class Comparison:
    """Both versions of a rollout compared.

    Attributes:
        chance: How likely so large a difference is if both are equally good; None: not tested yet.
        needed: ``chance`` below which they count as different.
        next_at: Tasks that each must have for the next test.
    """

    finding: Finding
    old: Arm
    new: Arm
    chance: float | None
    needed: float | None
    next_at: int


def is_good(row: ArmTask) -> bool | None:
    """Whether a task counts as good; None: it cannot be said yet, or ever."""
    if row["outcome"] is None or row["merge_state"] in _OPEN:
        return None
    return row["outcome"] == AttemptOutcome.COMPLETED and row["merge_state"] not in CAME_BACK


def compare(rows: Sequence[ArmTask], new_hash: str, rules: Rules) -> Comparison:
    """Compare the versions by as many of the tasks as the last test that is due takes."""
    judged = [(row["content_hash"] == new_hash, good) for row in rows if (good := is_good(row)) is not None]
    whole = _arms(judged)
    least = min(arm.of for arm in whole)
    if least < rules.min_tasks:
        return Comparison(Finding.TOO_FEW, *whole, None, None, rules.min_tasks)
    stage = int(math.log2(least / rules.min_tasks)) + 1
    size = rules.min_tasks * 2 ** (stage - 1)
    length = next(n for n in range(1, len(judged) + 1) if min(arm.of for arm in _arms(judged[:n])) >= size)
    old, new = _arms(judged[:length])
    needed = (1 - rules.confidence) / (stage * (stage + 1))
    worse, better = by_chance(new, old), by_chance(old, new)
    finding = Finding.WORSE if worse < needed else Finding.BETTER if better < needed else Finding.NO_DIFFERENCE
    return Comparison(finding, *whole, min(worse, better), needed, size * 2)


def by_chance(few: Arm, many: Arm) -> float:
    """How likely it is that ``few`` has so few good tasks or fewer, if both are equally good (Fisher's exact test)."""
    good, total = few.good + many.good, few.of + many.of
    ways = sum(
        math.comb(good, hits) * math.comb(total - good, few.of - hits)
        for hits in range(max(0, few.of - (total - good)), few.good + 1)
    )
    return ways / math.comb(total, few.of)


def _arms(judged: Sequence[tuple[bool, bool]]) -> tuple[Arm, Arm]:
    old, new = ([good for is_new, good in judged if is_new is of_new] for of_new in (False, True))
    return Arm(sum(old), len(old)), Arm(sum(new), len(new))


def broken(row: RunningChoice, current_hash: str | None) -> str | None:
    """Why a rollout cannot go on; None: it can.

    Args:
        current_hash: The hash of the agent's file now; None: it is no valid definition.
    """
    if row["content"] is None or definition_of(row["content"], row["agent"]) is None:
        return "The version that it rolls out is not stored any more, or can no longer be read."
    if current_hash != row["from_hash"]:
        return "The definition was edited, or is gone, so that the versions that were compared are not those in use."
    return None


def step(conn: Connection, row: RunningChoice, current_hash: str | None, rules: Rules, now: datetime) -> str | None:
    """End a rollout that cannot go on, or whose version is worse; its state then, or None."""
    reason = broken(row, current_hash)
    state = "stopped"
    if reason is None:
        comparison = compare(choices.tasks_of(conn, row["choice_id"]), row["content_hash"], rules)
        if comparison.finding is not Finding.WORSE:
            return None
        state, reason = "rolled_back", sentence(comparison, row["version"] or "the new version")
    return state if end(conn, row, state, reason, now) else None


def end(conn: Connection, row: RunningChoice, state: str, reason: str | None, now: datetime) -> bool:
    """End a rollout or a pin, once."""
    if not choices.end(conn, row["choice_id"], state, reason, iso(now)):
        return False
    record(conn, row["agent"], row["version"], state, reason, now)
    return True


def record(conn: Connection, agent: str, version: str | None, state: str, reason: str | None, now: datetime) -> None:
    """Record what became of a choice."""
    kinds = {
        "pinned": EventKind.AGENT_PINNED, "unpinned": EventKind.AGENT_UNPINNED, "running": EventKind.AGENT_ROLLOUT_STARTED,
        "stopped": EventKind.AGENT_ROLLOUT_STOPPED, "rolled_back": EventKind.AGENT_ROLLED_BACK,
    }  # fmt: skip
    events.record(conn, now, kinds[state]({"agent": agent, "version": version, "reason": reason}))


def sentence(comparison: Comparison, version: str) -> str:
    """The comparison in words."""
    old, new = comparison.old, comparison.new
    sides = f"{new.good} of {new.of} tasks were good with {version}, {old.good} of {old.of} without"
    if comparison.chance is None:
        return f"{sides}; the first test is made when each has {comparison.next_at}."
    outcome = {
        Finding.WORSE: f"{version} is worse",
        Finding.BETTER: f"{version} is better",
    }.get(comparison.finding, "no difference is proved")
    chance, bound = (f"{100 * part:.2g} %" for part in (comparison.chance, comparison.needed or 0))
    return f"{sides}: {outcome} (by chance alone in {chance} of cases; counted below {bound})."


def figures(comparison: Comparison) -> RolloutFigures:
    """The comparison as a face shows it."""
    return {
        "finding": comparison.finding.value,
        "old": rate(comparison.old.good, comparison.old.of),
        "new": rate(comparison.new.good, comparison.new.of),
        "chance": comparison.chance,
        "needed": comparison.needed,
        "next_test_tasks": comparison.next_at,
    }
