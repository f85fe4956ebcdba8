"""SQL for what agents did: their attempts, the merges and the feedback of their tasks."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, and_, bindparam, func, insert, select, update

from corral.core.instants import lasted_s
from corral.store.engine.fetch import fetch_all
from corral.store.rows.agents import AgentMerge, AgentRunRow, AgentWork, DeletedAttempt, FeedbackRow
from corral.store.schema import attempts, merge_requests
from corral.store.schema_project import agent_runs, task_feedback

MOST = 50_000
"""The most attempts that figures are made of: the newest."""
_a, _r = attempts.c, agent_runs.c
_SAME = and_(_a.task_id == _r.task_id, _a.number == _r.number)


def add(conn: Connection, row: AgentRunRow) -> None:
    """Insert an attempt that begins."""
    conn.execute(insert(agent_runs).values(**row))


def of_agents(conn: Connection, agent: str | None, since: str) -> list[AgentWork]:
    """The attempts by an agent, or by all, that began after an instant, the oldest first.

    Args:
        agent: Its name without case; None: all.
    """
    query = (
        select(
            _r.task_id, _r.number, _r.agent, _r.content_hash, _r.task_type, _r.model,
            func.coalesce(_a.outcome, _r.outcome).label("outcome"), _r.duration_s, _a.started_at, _a.ended_at,
            func.coalesce(_r.tokens, _tokens()).label("tokens"), func.coalesce(_r.cost_usd, _cost()).label("cost_usd"),
        )
        .outerjoin_from(agent_runs, attempts, _SAME)
        .where(_r.began_at > since)
        .order_by(_r.began_at.desc(), _r.task_id, _r.number.desc())
        .limit(MOST)
    )  # fmt: skip
    if agent is not None:
        query = query.where(_r.agent == agent)
    return fetch_all(conn, query, AgentWork)[::-1]


def merges_of(conn: Connection, agent: str | None, since: str) -> list[AgentMerge]:
    """The merge requests of the tasks that an agent, or any, worked on after an instant, in their order."""
    its = merge_requests.c
    worked_on = select(_r.task_id).where(_r.began_at > since, *([_r.agent == agent] if agent is not None else []))
    query = select(its.task_id, its.state).where(its.task_id.in_(worked_on)).order_by(its.seq)
    return fetch_all(conn, query, AgentMerge)


def feedback_on(conn: Connection, agent: str | None, since: str) -> list[FeedbackRow]:
    """The feedback on the tasks that an agent, or any, worked on after an instant, the oldest first."""
    worked_on = select(_r.task_id).where(_r.began_at > since, *([_r.agent == agent] if agent is not None else []))
    query = select(task_feedback).where(task_feedback.c.task_id.in_(worked_on)).order_by(task_feedback.c.given_at)
    return fetch_all(conn, query, FeedbackRow)


def give_feedback(conn: Connection, row: FeedbackRow) -> None:
    """Store a person's opinion of a task, in place of an earlier one."""
    its = task_feedback.c
    values = {"rating": row["rating"], "comment": row["comment"], "given_at": row["given_at"]}
    changed = conn.execute(update(task_feedback).where(its.task_id == row["task_id"]).values(values))
    if changed.rowcount == 0:
        conn.execute(insert(task_feedback).values(**row))


def comment(conn: Connection, task_id: str, text: str | None, now: str) -> None:
    """Keep a comment that came with a task, if there is one."""
    if text and text.strip():
        give_feedback(conn, {"task_id": task_id, "rating": None, "comment": text.strip(), "given_at": now})


def last_agent(conn: Connection, task_id: str) -> str | None:
    """The agent that made the newest attempt at a task, without case; None if no agent made one."""
    query = select(_r.agent).where(_r.task_id == task_id).order_by(_r.number.desc()).limit(1)
    return conn.execute(query).scalar_one_or_none()


def keep(conn: Connection, task_ids: Sequence[str]) -> None:
    """Write down what the ended attempts at these tasks came to, before retention deletes them."""
    gone = (
        select(
            _a.task_id, _a.number, _a.outcome, _a.started_at, _a.ended_at,
            _tokens().label("tokens"), _cost().label("cost_usd"),
        )
        .join_from(agent_runs, attempts, _SAME)
        .where(_a.task_id.in_(task_ids), _a.ended_at.is_not(None))
    )  # fmt: skip
    known = update(agent_runs).where(_r.task_id == bindparam("which"), _r.number == bindparam("attempt"))
    for row in fetch_all(conn, gone, DeletedAttempt):
        figures = {name: row[name] for name in ("outcome", "tokens", "cost_usd")}
        lasted = lasted_s(row["started_at"], row["ended_at"])
        conn.execute(known.values(**figures, duration_s=lasted), {"which": row["task_id"], "attempt": row["number"]})


def _tokens() -> ColumnElement[int]:
    read, written = (func.coalesce(_a.usage[name].as_integer(), 0) for name in ("input_tokens", "output_tokens"))
    return func.coalesce(read + written, 0)


def _cost() -> ColumnElement[float]:
    return func.coalesce(_a.usage["cost_usd"].as_float(), 0.0)
