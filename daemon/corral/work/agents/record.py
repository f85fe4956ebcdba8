"""The record of agents: which definition each attempt worked by, and what the attempts came to.

A small number of attempts says little: each rate comes with its 95 % interval (Wilson's), each median with how many it is of.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from sqlalchemy import Connection

from corral.core.errors import InvalidInput
from corral.core.instants import iso, lasted_s
from corral.core.redaction import redact
from corral.core.states import AttemptOutcome, MergeState
from corral.store.rows.agents import AgentMerge, AgentWork, FeedbackRow
from corral.store.rows.tasks import TaskRow
from corral.work.agents import definitions
from corral.work.agents.api import AgentRecord, Landings, Median, Rate, WorkFigures
from corral.work.agents.choosing import of_rollout
from corral.work.agents.store import runs
from corral.work.agents.store import versions as version_rows
from corral.work.tasks import tasks
from corral.work.tasks.api import Feedback
from corral.work.tasks.wire import IMPROVEMENT

COMMENTS = 10
"""How many comments the figures show, the newest."""
_Z = 1.959964
"""Of the normal distribution, for 95 %."""


class By(str, Enum):
    """The ways in which the record of an agent can be divided."""

    TASK_TYPE = "task_type"
    MODEL = "model"
    VERSION = "version"


@dataclass(frozen=True)
class Work:
    """The work of an agent, or of all: attempts, the merge requests of their tasks, and the feedback on them."""

    attempts: Sequence[AgentWork]
    merges: Sequence[AgentMerge]
    feedback: Sequence[FeedbackRow]


def begin(
    conn: Connection, task: TaskRow, agent: str, origin: definitions.Origin | None, model: str | None, now: datetime
) -> None:
    """An agent's attempt begins: record it, and the version of the definition that it works by.

    Args:
        origin: None: it has no definition.
    """
    name, content_hash = agent.casefold(), definitions.record(conn, origin, now) if origin else None
    runs.add(
        conn,
        {
            "task_id": task["task_id"],
            "number": task["fencing_token"],
            "agent": name,
            "content_hash": content_hash,
            "task_type": task["task_type"],
            "model": model,
            "began_at": iso(now),
            "outcome": None,
            "duration_s": None,
            "tokens": None,
            "cost_usd": None,
            "choice_id": of_rollout(conn, name, content_hash) if task["agent_version"] is None else None,
        },
    )


def give_feedback(conn: Connection, task_id: str, rating: int | None, comment: str | None, now: datetime) -> Feedback:
    """Store a person's opinion of a task's work, in place of an earlier one.

    Args:
        rating: 1 to 5.

    Returns:
        The feedback as stored; ``agent`` is None where no agent worked on the task.

    Raises:
        NotFound: There is no such task.
        InvalidInput: Neither a rating nor a comment, or nobody has worked on the task yet.
    """
    text = (comment or "").strip() or None
    if rating is None and text is None:
        raise InvalidInput("Feedback needs a rating or a comment.", remedy="Give --rating 1 to 5, or --comment.")
    task = tasks.find(conn, task_id)
    if task["fencing_token"] == 0:
        raise InvalidInput(
            f"Nobody has worked on task {task['task_id'][:8]} yet.",
            remedy="Give feedback when it has ended."
            if task["steps_wanted"] is None
            else "It does nothing itself: give feedback on its steps, which `corral task detail` shows.",
        )
    runs.give_feedback(conn, {"task_id": task["task_id"], "rating": rating, "comment": text, "given_at": iso(now)})
    agent = runs.last_agent(conn, task["task_id"])
    return {"task_id": task["task_id"], "agent": agent, "rating": rating, "comment": text}


def stats(conn: Connection, agent: str | None, since: datetime, by: By | None) -> list[AgentRecord]:
    """The results of agents' work, for each agent, and each group of its attempts.

    Args:
        agent: Its name; None: all.
        by: None: no groups.

    Returns:
        The whole of an agent comes before its groups. The cases of improvements are in the group of their type alone.
    """
    name, after = agent.casefold() if agent is not None else None, iso(since)
    work = Work(
        runs.of_agents(conn, name, after), runs.merges_of(conn, name, after), runs.feedback_on(conn, name, after)
    )
    records: list[AgentRecord] = []
    for agent_name, of_agent in _divided(work.attempts, lambda row: row["agent"]).items():
        real = [row for row in of_agent if row["task_type"] != IMPROVEMENT]
        records.append({"agent": agent_name, "group": None, **figures(_with(work, real))})
        if by is not None:
            numbers = {row["content_hash"]: row["version"] for row in version_rows.of_agent(conn, agent_name)}
            shown = of_agent if by is By.TASK_TYPE else real
            groups = _divided(shown, lambda row: _group(row, by, numbers))  # noqa: B023 - called before the next
            records += (
                {"agent": agent_name, "group": group, **figures(_with(work, rows))} for group, rows in groups.items()
            )
    return records


def _group(row: AgentWork, by: By, numbers: Mapping[str, str]) -> str:
    if by is By.TASK_TYPE:
        return row["task_type"]
    if by is By.MODEL:
        return row["model"] or "default"
    return numbers.get(row["content_hash"] or "", "no definition")


def _divided(rows: Iterable[AgentWork], key: Callable[[AgentWork], str]) -> dict[str, list[AgentWork]]:
    groups: dict[str, list[AgentWork]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return dict(sorted(groups.items()))


def _with(work: Work, attempts: Sequence[AgentWork]) -> Work:
    """Some attempts, with the merges and the feedback of the tasks at which one of them is the newest."""
    last = {row["task_id"]: row["number"] for row in work.attempts}
    mine = {row["task_id"] for row in attempts if last[row["task_id"]] == row["number"]}
    merges = [row for row in work.merges if row["task_id"] in mine]
    return Work(attempts, merges, [row for row in work.feedback if row["task_id"] in mine])


def figures(work: Work) -> WorkFigures:
    """The results of attempts."""
    rows = work.attempts
    outcomes = {str(outcome): sum(row["outcome"] == outcome for row in rows) for outcome in AttemptOutcome}
    completed, failed = outcomes[AttemptOutcome.COMPLETED], outcomes[AttemptOutcome.FAILED]
    finished = [row for row in rows if row["outcome"] == AttemptOutcome.COMPLETED]
    lasted = [s for row in finished if (s := row["duration_s"] or lasted_s(row["started_at"], row["ended_at"]))]
    tasks = {row["task_id"] for row in rows}
    ratings = [rating for row in work.feedback if (rating := row["rating"]) is not None]
    comments = [redact(comment) for row in work.feedback if (comment := row["comment"])]
    return {
        "tasks": len(tasks),
        "attempts": len(rows),
        "running": sum(row["outcome"] is None for row in rows),
        "outcomes": {name: number for name, number in outcomes.items() if number},
        "retries": len(rows) - len(tasks),
        "success": rate(completed, completed + failed),
        **_landing(work),
        "duration_s": median(lasted),
        "tokens_each": median([row["tokens"] for row in finished if row["tokens"]]),
        "tokens": sum(row["tokens"] for row in rows),
        "cost_usd": round(sum(row["cost_usd"] for row in rows), 6),
        "feedback": {
            "ratings": len(ratings),
            "mean": round(statistics.fmean(ratings), 2) if ratings else None,
            "comments": comments[-COMMENTS:],
        },
    }


def _landing(work: Work) -> Landings:
    tries: dict[str, int] = {}
    for row in work.attempts:
        tries[row["task_id"]] = tries.get(row["task_id"], 0) + 1
    states: dict[str, list[str]] = {}
    for merge in work.merges:
        states.setdefault(merge["task_id"], []).append(merge["state"])
    verdicts = (MergeState.LANDED, MergeState.CONFLICT, MergeState.FAILED)
    judged = [task_id for task_id, task_states in states.items() if task_states[-1] in verdicts]
    at_once = sum(states[task_id] == [MergeState.LANDED] and tries[task_id] == 1 for task_id in judged)
    return {
        "landed": sum(states[task_id][-1] == MergeState.LANDED for task_id in judged),
        "first_try_landing": rate(at_once, len(judged)),
        "evictions": sum(merge["state"] == MergeState.FAILED for merge in work.merges),
        "conflicts": sum(merge["state"] == MergeState.CONFLICT for merge in work.merges),
    }


def rate(hits: int, of: int) -> Rate:
    """A share with its 95 % interval by Wilson's formula."""
    if of == 0:
        return {"rate": None, "low": None, "high": None, "hits": 0, "of": 0}
    share, z2 = hits / of, _Z * _Z
    centre = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = _Z * math.sqrt(share * (1 - share) / of + z2 / (4 * of * of)) / (1 + z2 / of)
    low, high = max(0.0, centre - half), min(1.0, centre + half)
    return {"rate": round(share, 4), "low": round(low, 4), "high": round(high, 4), "hits": hits, "of": of}


def median(values: Sequence[float]) -> Median:
    """A median, and how many values it is of."""
    return {"median": round(statistics.median(values), 3) if values else None, "of": len(values)}
