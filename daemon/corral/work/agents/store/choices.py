"""SQL for the versions that agents work by instead of what their files say: pins, and rollouts to a share of the tasks."""

from __future__ import annotations

from sqlalchemy import (
    Connection,
    Float,
    String,
    Text,
    and_,
    case,
    cast,
    func,
    insert,
    null,
    select,
    type_coerce,
    update,
)
from sqlalchemy.exc import IntegrityError

from corral.core.states import TERMINAL_TASKS, AttemptOutcome
from corral.store.engine.fetch import fetch_all, fetch_first
from corral.store.engine.prepared import Prepared
from corral.store.rows.agents import AgentChoiceRow, ArmTask, RunningChoice
from corral.store.schema import attempts, merge_requests, tasks
from corral.store.schema_project import agent_choices, agent_runs, agent_versions

_c, _v, _r, _a = agent_choices.c, agent_versions.c, agent_runs.c, attempts.c
_SAME = and_(_v.agent == _c.agent, _v.content_hash == _c.content_hash)
_TEXTS = (type_coerce(_v.version, String(32)).label("version"), type_coerce(_v.content, Text).label("content"))
"""Null where the version is gone."""
_RUNNING = Prepared[RunningChoice](
    select(_c.choice_id, _c.agent, _c.content_hash, _c.from_hash, _c.share, *_TEXTS)
    .outerjoin_from(agent_choices, agent_versions, _SAME)
    .where(_c.ended_at.is_(None))
    .order_by(_c.agent)
)


def running(conn: Connection) -> list[RunningChoice]:
    """The choices in force; at most one for an agent."""
    return _RUNNING.all(conn, {})


def pinned_by_tasks(conn: Connection) -> list[RunningChoice]:
    """The versions that open tasks are pinned to, each once, in the form of a pin of an agent."""
    its = tasks.c
    agent = func.lower(its.agent)
    no_hash, no_share = cast(null(), String(64)), cast(null(), Float)
    query = (
        select(
            _v.content_hash.label("choice_id"), _v.agent, _v.content_hash, no_hash.label("from_hash"),
            no_share.label("share"), *_TEXTS,
        )
        .join_from(tasks, agent_versions, and_(_v.agent == agent, _v.content_hash == its.agent_version))
        .where(its.agent_version.is_not(None), its.status.not_in(TERMINAL_TASKS))
        .distinct()
    )  # fmt: skip
    return fetch_all(conn, query, RunningChoice)


def add(conn: Connection, row: AgentChoiceRow) -> bool:
    """Insert a choice; False: one of the same agent is in force."""
    try:
        with conn.begin_nested():
            conn.execute(insert(agent_choices).values(**row))
    except IntegrityError:
        return False
    return True


def end(conn: Connection, choice_id: str, state: str, reason: str | None, now: str) -> bool:
    """End a choice that is in force; False: another one ended it."""
    values = {"state": state, "reason": reason, "ended_at": now}
    changed = conn.execute(update(agent_choices).where(_c.choice_id == choice_id, _c.ended_at.is_(None)).values(values))
    return changed.rowcount == 1


def newest(conn: Connection, agent: str, rollout: bool) -> AgentChoiceRow | None:
    """The newest pin, or rollout, of an agent.

    Args:
        agent: Its name without case.
    """
    kind = _c.share.is_not(None) if rollout else _c.share.is_(None)
    query = select(agent_choices).where(_c.agent == agent, kind).order_by(_c.created_at.desc(), _c.choice_id).limit(1)
    return fetch_first(conn, query, AgentChoiceRow)


def unseen(conn: Connection) -> list[AgentChoiceRow]:
    """The rollouts that ended by themselves, and that nobody has looked at, the newest of each agent."""
    later = agent_choices.alias("later")
    is_last = ~select(later.c.choice_id).where(later.c.agent == _c.agent, later.c.created_at > _c.created_at).exists()
    query = select(agent_choices).where(_c.ended_at.is_not(None), _c.seen_at.is_(None), is_last).order_by(_c.ended_at)
    return fetch_all(conn, query, AgentChoiceRow)


def see(conn: Connection, agent: str, now: str) -> None:
    """Note that a person has looked at the ended choices of an agent."""
    ended = (_c.agent == agent, _c.ended_at.is_not(None), _c.seen_at.is_(None))
    conn.execute(update(agent_choices).where(*ended).values(seen_at=now))


def tasks_of(conn: Connection, choice_id: str) -> list[ArmTask]:
    """The tasks of a rollout in their order, each with its first attempt that the machine, or a person, did not end."""
    outcome = func.coalesce(_a.outcome, _r.outcome)
    counted = case((outcome.in_((AttemptOutcome.COMPLETED, AttemptOutcome.FAILED)), outcome), else_=None)
    its = merge_requests.c
    first = select(its.state).where(its.task_id == _r.task_id).order_by(its.seq).limit(1).scalar_subquery()
    query = (
        select(_r.task_id, _r.content_hash, counted.label("outcome"), first.label("merge_state"))
        .outerjoin_from(agent_runs, attempts, and_(_a.task_id == _r.task_id, _a.number == _r.number))
        .where(_r.choice_id == choice_id)
        .order_by(_r.began_at, _r.task_id, _r.number)
    )
    by_task: dict[str, ArmTask] = {}
    for row in fetch_all(conn, query, ArmTask):
        if row["task_id"] not in by_task or by_task[row["task_id"]]["outcome"] is None:
            by_task[row["task_id"]] = row
    return list(by_task.values())
