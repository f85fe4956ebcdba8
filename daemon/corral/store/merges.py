"""SQL for merge requests and landing intents.

A merge request that an open landing intent names is beyond recall: its commit may be on the target already. So it can
be neither superseded nor cancelled; it ends when the intent does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, func, insert, or_, select, update

from corral.errors import InvalidInput, NotFound
from corral.models.identifiers import new_id
from corral.models.instants import iso
from corral.models.states import OPEN_MERGES, MergeState
from corral.store import events
from corral.store.schema import landing_intents, merge_requests, tasks, worktrees

Row = dict[str, Any]
_m = merge_requests.c
_FRESH: Row = {
    "reason": None,
    "conflicts": None,
    "candidate_sha": None,
    "candidate_tree": None,
    "tip_sha": None,
    "receipt_id": None,
    "tries": 0,
    "not_before_at": None,
    "finished_at": None,
}


def submit(
    conn: Connection,
    *,
    task_id: str | None,
    session_id: str | None,
    title: str,
    priority: int,
    branch: str,
    target: str,
    base_sha: str | None,
    head_sha: str,
    now: datetime,
    merge_id: str | None = None,
) -> str:
    """Queue a branch, with its head pinned, for its target.

    An open request of the same branch for the same target is superseded; if its head is the same, it is the answer.
    Without a ``task_id`` the request belongs to the task whose branch this was before, if any.

    Args:
        branch: Short or full name; the short one is stored.
        target: Short or full name; the short one is stored.
        merge_id: The identifier of a new request, where the caller has pinned its head under it already.

    Returns:
        The identifier of the request that stands for this head now.
    """
    branch, target = branch.removeprefix("refs/heads/"), target.removeprefix("refs/heads/")
    same = (_m.branch == branch) & (_m.target == target)
    open_ones = _rows(conn, select(merge_requests).where(same, _m.state.in_(OPEN_MERGES)))
    for row in open_ones:
        if row["head_sha"] == head_sha:
            return str(row["merge_id"])
    if task_id is None:
        before = select(_m.task_id).where(same, _m.task_id.is_not(None)).order_by(_m.seq.desc()).limit(1)
        task_id = conn.execute(before).scalar()
    merge_id, at = merge_id or new_id(), iso(now)
    conn.execute(
        insert(merge_requests).values(
            **_FRESH,
            merge_id=merge_id,
            task_id=task_id,
            session_id=session_id,
            title=title,
            priority=priority,
            branch=branch,
            target=target,
            base_sha=base_sha,
            head_sha=head_sha,
            state=MergeState.QUEUED.value,
            landed_sha=None,
            created_at=at,
            updated_at=at,
        )
    )
    for row in open_ones:
        if not is_landing(conn, row["merge_id"]):
            reason = f"{branch} was submitted again as {merge_id}."
            finish(conn, row["merge_id"], MergeState.SUPERSEDED, now=now, reason=reason)
    events.record(conn, now, "merge.queued", task_id=task_id, session_id=session_id, merge_id=merge_id)
    return merge_id


def get(conn: Connection, merge_id: str) -> Row:
    """One merge request, by its id or the beginning of it.

    Raises:
        NotFound: No such merge request.
        InvalidInput: The beginning fits several.
    """
    escaped = merge_id.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    rows = (
        _rows(conn, select(merge_requests).where(_m.merge_id.like(f"{escaped}%", escape="\\")).limit(2))
        if merge_id
        else []
    )
    if not rows:
        raise NotFound(f"There is no merge request {merge_id[:80]!r}.", remedy="`corral merge list` shows them all.")
    if len(rows) > 1:
        raise InvalidInput(f"Several merge requests begin with {merge_id[:80]!r}.", remedy="Give more of the id.")
    return rows[0]


def find(conn: Connection, merge_id: str) -> Row | None:
    """One merge request by its whole id."""
    rows = _rows(conn, select(merge_requests).where(_m.merge_id == merge_id))
    return rows[0] if rows else None


def newest_of(conn: Connection, branch: str) -> Row:
    """The latest merge request of a branch.

    Args:
        branch: Short or full name.

    Raises:
        NotFound: There is none.
    """
    short = branch.removeprefix("refs/heads/")
    rows = _rows(conn, select(merge_requests).where(_m.branch == short).order_by(_m.seq.desc()).limit(1))
    if not rows:
        raise NotFound(
            f"No merge of {branch[:80]!r} was requested.", remedy="`corral merge submit` does that, or request_merge."
        )
    return rows[0]


def counts(conn: Connection) -> dict[str, int]:
    """How many merge requests are in each state that any is in."""
    query = select(_m.state, func.count()).group_by(_m.state)
    return {str(state): int(number) for state, number in conn.execute(query).tuples()}


def listing(
    conn: Connection,
    states: Iterable[MergeState] = (),
    *,
    branch: str | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> list[Row]:
    """Merge requests in order of submission, of these states or of all.

    Args:
        branch: Only of this one; short or full name.
        after: Only those behind the one with this id.
    """
    query = select(merge_requests).order_by(_m.seq).limit(limit)
    if branch is not None:
        query = query.where(_m.branch == branch.removeprefix("refs/heads/"))
    wanted = list(states)
    if after is not None:
        query = query.where(_m.seq > select(_m.seq).where(_m.merge_id == after).scalar_subquery())
    return _rows(conn, query.where(_m.state.in_(wanted)) if wanted else query)


def busy_targets(conn: Connection) -> list[str]:
    """The targets that have an open merge request, the longest waiting first."""
    query = select(_m.target).where(_m.state.in_(OPEN_MERGES)).group_by(_m.target).order_by(func.min(_m.seq))
    return [str(target) for target in conn.execute(query).scalars()]


def eligible(conn: Connection, target: str, now: datetime) -> list[Row]:
    """The open requests of a target whose time has come, in landing order: priority, then age."""
    query = (
        select(merge_requests)
        .where(
            _m.target == target,
            _m.state.in_(OPEN_MERGES),
            or_(_m.not_before_at.is_(None), _m.not_before_at <= iso(now)),
        )
        .order_by(_m.priority.desc(), _m.seq)
    )
    return _rows(conn, query)


def next_due_at(conn: Connection) -> str | None:
    """When the first request that waits for its time may be tried again."""
    return conn.execute(select(func.min(_m.not_before_at)).where(_m.state.in_(OPEN_MERGES))).scalar()


def submitter(conn: Connection, task_id: str | None) -> tuple[str, str] | None:
    """Name and e-mail address of the one who submitted the task, if he gave them."""
    row = conn.execute(select(tasks.c.author_name, tasks.c.author_email).where(tasks.c.task_id == task_id)).first()
    return (row.author_name, row.author_email) if row and row.author_name and row.author_email else None


def is_own_branch(conn: Connection, branch: str) -> bool:
    """Whether a worktree of ours, there or removed, was made with this very branch (short name)."""
    return (
        conn.execute(select(worktrees.c.worktree_id).where(worktrees.c.branch == branch).limit(1)).first() is not None
    )


# -- transitions: each returns the row, or None if somebody was first -------------------------------------------------


def built(
    conn: Connection, merge_id: str, *, candidate_sha: str, candidate_tree: str, tip_sha: str, now: datetime
) -> Row | None:
    """An open request has a new candidate, on this tip, about which nothing is known yet."""
    return _move(
        conn, merge_id, OPEN_MERGES, now, state=MergeState.VERIFYING.value, reason=None, receipt_id=None,
        candidate_sha=candidate_sha, candidate_tree=candidate_tree, tip_sha=tip_sha,
    )  # fmt: skip


def verifying(conn: Connection, merge_id: str, candidate_sha: str, now: datetime) -> Row | None:
    """Something runs to judge this candidate; None if the request has another one by now, or has ended."""
    return _move(
        conn,
        merge_id,
        OPEN_MERGES,
        now,
        _m.candidate_sha == candidate_sha,
        state=MergeState.VERIFYING.value,
        reason=None,
    )


def judged(conn: Connection, merge_id: str, candidate_sha: str, receipt_id: str) -> Row | None:
    """The candidate has this receipt; None if the request has another one by now, or has ended."""
    wanted = (_m.merge_id == merge_id, _m.state.in_(OPEN_MERGES), _m.candidate_sha == candidate_sha)
    query = update(merge_requests).where(*wanted).values(receipt_id=receipt_id).returning(merge_requests)
    row = conn.execute(query).mappings().first()
    return dict(row) if row else None


def requeue(
    conn: Connection,
    merge_id: str,
    now: datetime,
    *,
    reason: str | None = None,
    tries: int = 0,
    not_before_at: str | None = None,
) -> Row | None:
    """An open request starts again from its pinned head."""
    fresh = {**_FRESH, "reason": reason, "tries": tries, "not_before_at": not_before_at}
    return _move(conn, merge_id, OPEN_MERGES, now, state=MergeState.QUEUED.value, **fresh)


def hold(conn: Connection, merge_id: str, reason: str, now: datetime) -> Row | None:
    """An open request cannot go on; the event is recorded when the reason is new."""
    before = conn.execute(select(_m.state, _m.reason).where(_m.merge_id == merge_id)).first()
    if before is not None and tuple(before) == (MergeState.HELD.value, reason):
        return get(conn, merge_id)
    row = _move(conn, merge_id, OPEN_MERGES, now, state=MergeState.HELD.value, reason=reason)
    if row is not None:
        events.record(conn, now, "merge.held", task_id=row["task_id"], merge_id=merge_id, data={"reason": reason})
    return row


def finish(
    conn: Connection,
    merge_id: str,
    state: MergeState,
    *,
    now: datetime,
    reason: str | None = None,
    conflicts: list[dict[str, str]] | None = None,
    landed_sha: str | None = None,
    receipt_id: str | None = None,
) -> Row | None:
    """An open request ends; ``receipt_id`` replaces the one it has where given."""
    values: Row = {"state": state.value, "reason": reason, "conflicts": conflicts, "landed_sha": landed_sha}
    if receipt_id is not None:
        values["receipt_id"] = receipt_id
    row = _move(conn, merge_id, OPEN_MERGES, now, finished_at=iso(now), not_before_at=None, **values)
    if row is not None:
        data = {"reason": reason, "landed_sha": landed_sha}
        events.record(
            conn,
            now,
            f"merge.{state.value}",
            task_id=row["task_id"],
            session_id=row["session_id"],
            merge_id=merge_id,
            data=data,
        )
    return row


def reopen(conn: Connection, merge_id: str, head_sha: str, now: datetime) -> Row | None:
    """A request that came back, was cancelled or is held goes to the queue again."""
    states = (MergeState.CONFLICT, MergeState.FAILED, MergeState.CANCELLED, MergeState.HELD)
    row = _move(conn, merge_id, states, now, **{**_FRESH, "state": MergeState.QUEUED.value, "head_sha": head_sha})
    if row is not None:
        events.record(conn, now, "merge.retried", task_id=row["task_id"], merge_id=merge_id)
    return row


def _move(
    conn: Connection, merge_id: str, states: Sequence[MergeState], now: datetime, *also: Any, **values: Any
) -> Row | None:
    query = update(merge_requests).where(_m.merge_id == merge_id, _m.state.in_(states), *also)
    row = conn.execute(query.values(updated_at=iso(now), **values).returning(merge_requests)).mappings().first()
    return dict(row) if row else None


def _rows(conn: Connection, query: Any) -> list[Row]:
    return [dict(row) for row in conn.execute(query).mappings()]


# -- intents: at most one per target; stored before the target moves, removed with the outcome ------------------------


def intend(conn: Connection, *, target: str, old_sha: str, new_sha: str, merge_ids: list[str], now: datetime) -> None:
    """Record that the target is about to move from ``old_sha`` to ``new_sha``, which lands these requests."""
    values = {"target": target, "old_sha": old_sha, "new_sha": new_sha, "merge_ids": merge_ids, "created_at": iso(now)}
    conn.execute(insert(landing_intents).values(**values))


def intents(conn: Connection) -> list[Row]:
    """Every landing that was begun and not yet concluded."""
    return _rows(conn, select(landing_intents))


def conclude(conn: Connection, target: str) -> None:
    """Remove the target's intent; in the transaction that stores the outcome."""
    conn.execute(delete(landing_intents).where(landing_intents.c.target == target))


def is_landing(conn: Connection, merge_id: str) -> bool:
    """Whether an open intent names this request."""
    return any(merge_id in intent["merge_ids"] for intent in intents(conn))
