"""SQL for merge requests.

A merge request that an open landing intent (:mod:`corral.work.merges.store.intents`) names is beyond recall: its commit
may be on the target already. So it can be neither superseded nor cancelled; it ends when the intent does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, Integer, bindparam, func, insert, select, update

from corral.core.errors import InvalidInput, NotFound
from corral.core.events import MERGE_ENDS, EventKind
from corral.core.identifiers import new_id
from corral.core.instants import iso
from corral.core.states import OPEN_MERGES, RETURNED_MERGES, MergeState
from corral.store import events
from corral.store.engine.fetch import fetch_all, fetch_first, has_any
from corral.store.engine.prepared import Prepared, one_of
from corral.store.rows.merges import MergeRow
from corral.store.rows.tasks import CountedState
from corral.store.schema import merge_requests, tasks, worktrees
from corral.work.merges.store import intents

if TYPE_CHECKING:
    from corral.core.event_payloads import MergeHeld

_m = merge_requests.c
_OF_A_TRY = (
    "reason", "conflicts", "candidate_sha", "candidate_tree", "tip_sha", "clashes_on_sha", "suspect_at", "receipt_id",
    "check_receipt_id", "not_before_at", "finished_at", "dismissed_at", "style",
)  # fmt: skip
_IS_OPEN = one_of(_m.state, OPEN_MERGES)
_BUSY = Prepared[object](select(_m.target).where(_IS_OPEN).group_by(_m.target).order_by(func.min(_m.seq)))
_NEXT_DUE = Prepared[object](select(func.min(_m.not_before_at)).where(_IS_OPEN, _m.not_before_at > bindparam("now")))
_AT_WORK = Prepared[object](
    select(_m.target).where(one_of(_m.state, (MergeState.QUEUED, MergeState.VERIFYING))).distinct()
)
_LATEST_WAIT = Prepared[object](select(func.max(_m.not_before_at)).where(_IS_OPEN))
_COUNTS = Prepared[CountedState](select(_m.state, func.count().label("number")).group_by(_m.state))
_IN_STATE = Prepared[MergeRow](select(merge_requests).where(_m.state == bindparam("state")).order_by(_m.seq))
_ORDER = (_m.priority.desc(), func.coalesce(_m.skipped_at, _m.created_at), _m.seq)
"""Landing order: priority, then age; one that was skipped counts from that moment."""
_IN_ORDER = Prepared[MergeRow](
    select(merge_requests).where(_IS_OPEN).order_by(_m.target, *_ORDER).limit(bindparam("most", type_=Integer))
)
_BYPASSED = Prepared[object](select(_m.target).where(_IS_OPEN, _m.bypassed_sha == _m.head_sha).distinct())
_FRESH: dict[str, Any] = {**dict.fromkeys(_OF_A_TRY), "tries": 0}


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
    reverts: str | None = None,
) -> str:
    """Queue a branch, with its head pinned, for its target.

    An open request of the same branch for the same target is superseded; if its head is the same, it is the answer, and
    belongs to the task from now on. One that is landing is marked as replaced, and ends with its landing; one that came back
    is marked too, and keeps the reason.

    Args:
        task_id: Whose work it is (:func:`corral.work.merges.store.of_tasks.owners` tells); None: no task's.
        branch: Short or full name; the short one is stored.
        target: Short or full name; the short one is stored.
        merge_id: The identifier of a new request, where the caller has pinned its head under it already.
        reverts: The request whose work it takes back.

    Returns:
        The identifier of the request that stands for this head now.
    """
    branch, target = branch.removeprefix("refs/heads/"), target.removeprefix("refs/heads/")
    before = open_of_branch(conn, branch, target)
    if before is not None and before["head_sha"] == head_sha:
        if before["task_id"] is None and task_id is not None:
            conn.execute(update(merge_requests).where(_m.seq == before["seq"]).values(task_id=task_id))
        return str(before["merge_id"])
    merge_id, at = merge_id or new_id(), iso(now)
    if before is not None and intents.is_landing(conn, before["merge_id"]):
        conn.execute(update(merge_requests).where(_m.seq == before["seq"]).values(replaced_by=merge_id))
    elif before is not None:
        supersede(conn, before, merge_id, now)
    came_back = (_m.branch == branch, _m.target == target, _m.state.in_(RETURNED_MERGES), _m.replaced_by.is_(None))
    conn.execute(update(merge_requests).where(*came_back).values(replaced_by=merge_id))
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
            reverts=reverts,
            landed_tip_sha=None,
            created_at=at,
            updated_at=at,
        )
    )
    events.record(conn, now, EventKind.MERGE_QUEUED, task_id=task_id, session_id=session_id, merge_id=merge_id)
    return merge_id


def open_of_branch(conn: Connection, branch: str, target: str) -> MergeRow | None:
    """The open request of a branch (short name) for a target that no newer one replaces; the schema allows one."""
    same = (_m.branch == branch, _m.target == target, _m.state.in_(OPEN_MERGES), _m.replaced_by.is_(None))
    return fetch_first(conn, select(merge_requests).where(*same), MergeRow)


def is_open_branch(conn: Connection, branch: str) -> bool:
    """Whether a branch (short name) has an open request, for whichever target."""
    return has_any(conn, select(_m.seq).where(_m.branch == branch, _m.state.in_(OPEN_MERGES)))


def supersede(conn: Connection, merge: MergeRow, by: str, now: datetime) -> MergeRow | None:
    """End an open request that a newer one of its branch replaces."""
    reason = f"{merge['branch']} was submitted again as {by}."
    return finish(conn, merge["merge_id"], MergeState.SUPERSEDED, now=now, reason=reason)


def get(conn: Connection, merge_id: str) -> MergeRow:
    """One merge request, by its id or the beginning of it.

    Raises:
        NotFound: No such merge request.
        InvalidInput: The beginning fits several.
    """
    query = select(merge_requests).where(_m.merge_id.startswith(merge_id, autoescape=True)).limit(2)
    rows = fetch_all(conn, query, MergeRow) if merge_id else []
    if not rows:
        raise NotFound(f"There is no merge request {merge_id[:80]!r}.", remedy="`corral merge list` shows them all.")
    if len(rows) > 1:
        raise InvalidInput(f"Several merge requests begin with {merge_id[:80]!r}.", remedy="Give more of the id.")
    return rows[0]


def find(conn: Connection, merge_id: str) -> MergeRow | None:
    """One merge request by its whole id."""
    return fetch_first(conn, select(merge_requests).where(_m.merge_id == merge_id), MergeRow)


def by_id(conn: Connection, merge_ids: Sequence[str]) -> dict[str, MergeRow]:
    """Those of these requests that there are, at most a few hundred, by their whole ids."""
    query = select(merge_requests).where(_m.merge_id.in_(list(merge_ids)))
    return {row["merge_id"]: row for row in fetch_all(conn, query, MergeRow)} if merge_ids else {}


def newest_of(conn: Connection, branch: str) -> MergeRow:
    """The latest merge request of a branch.

    Args:
        branch: Short or full name.

    Raises:
        NotFound: There is none.
    """
    short = branch.removeprefix("refs/heads/")
    query = select(merge_requests).where(_m.branch == short).order_by(_m.seq.desc()).limit(1)
    row = fetch_first(conn, query, MergeRow)
    if row is None:
        raise NotFound(
            f"No merge of {branch[:80]!r} was requested.",
            cause="It was not submitted, or under another name.",
            remedy="`corral merge submit` does that, or request_merge.",
        )
    return row


def counts(conn: Connection) -> dict[str, int]:
    """How many merge requests are in each state that any is in."""
    return {row["state"]: row["number"] for row in _COUNTS.each(conn, {})}


def listing(
    conn: Connection,
    states: Iterable[MergeState] = (),
    *,
    branch: str | None = None,
    after: str | None = None,
    limit: int | None = None,
    only: Sequence[ColumnElement[bool]] = (),
) -> list[MergeRow]:
    """Merge requests in order of submission, of these states or of all.

    Args:
        branch: Only of this one; short or full name.
        after: Only those behind the one with this id.
        only: Further conditions.
    """
    query = select(merge_requests).where(*only).order_by(_m.seq).limit(limit)
    if branch is not None:
        query = query.where(_m.branch == branch.removeprefix("refs/heads/"))
    wanted_states = list(states)
    if after is not None:
        query = query.where(_m.seq > select(_m.seq).where(_m.merge_id == after).scalar_subquery())
    return fetch_all(conn, query.where(_m.state.in_(wanted_states)) if wanted_states else query, MergeRow)


def busy_targets(conn: Connection) -> list[str]:
    """The targets that have an open merge request, the longest waiting first."""
    return _BUSY.column(conn, {})


def targets_at_work(conn: Connection) -> set[str]:
    """The targets with requests that wait for nothing but their turn and their verification."""
    return set(_AT_WORK.column(conn, {}))


def eligible(conn: Connection, target: str, now: datetime) -> list[MergeRow]:
    """The open requests of a target whose time has come, in landing order: priority, then age."""
    return [row for row in open_of(conn, target) if row["not_before_at"] is None or row["not_before_at"] <= iso(now)]


def open_of(conn: Connection, target: str) -> list[MergeRow]:
    """The open requests of a target in landing order, those too whose time has not come."""
    query = select(merge_requests).where(_m.target == target, _m.state.in_(OPEN_MERGES))
    return fetch_all(conn, query.order_by(*_ORDER), MergeRow)


def bypassed_targets(conn: Connection) -> set[str]:
    """The targets with an open request that a person lets land without a verification."""
    return {str(target) for target in _BYPASSED.column(conn, {})}


def reverting(conn: Connection, merge_id: str) -> MergeRow | None:
    """The newest request that takes the work of this one back."""
    query = select(merge_requests).where(_m.reverts == merge_id).order_by(_m.seq.desc()).limit(1)
    return fetch_first(conn, query, MergeRow)


def taken_back(conn: Connection, merge_ids: Iterable[str]) -> dict[str, str]:
    """The requests among these whose work a later one took back, each with that one, which has landed."""
    landed = (_m.state == MergeState.LANDED, _m.reverts.in_([*merge_ids]))
    return {
        row.reverts: row.merge_id
        for row in conn.execute(select(_m.reverts, _m.merge_id).where(*landed).order_by(_m.seq))
    }


def returned_reverts(conn: Connection, target: str) -> list[MergeRow]:
    """The reverts for a target that did not land, the newest first."""
    ended = _m.state.in_((*RETURNED_MERGES, MergeState.CANCELLED, MergeState.SUPERSEDED))
    query = select(merge_requests).where(_m.target == target, _m.reverts.is_not(None), ended)
    return fetch_all(conn, query.order_by(_m.seq.desc()), MergeRow)


def in_order(conn: Connection, limit: int) -> list[MergeRow]:
    """The first open requests: target by target, of each in landing order."""
    return _IN_ORDER.all(conn, {"most": limit})


def latest_ended(conn: Connection, limit: int) -> list[MergeRow]:
    """The requests that have ended, the last submitted first."""
    query = select(merge_requests).where(_m.state.not_in(OPEN_MERGES)).order_by(_m.seq.desc()).limit(limit)
    return fetch_all(conn, query, MergeRow)


def in_state(conn: Connection, state: MergeState) -> list[MergeRow]:
    """The requests in a state, in order of submission."""
    return _IN_STATE.all(conn, {"state": state.value})


def titles(conn: Connection, merge_ids: Sequence[str]) -> dict[str, str]:
    """The titles of these requests, at most a few hundred, by id."""
    query = select(_m.merge_id, _m.title).where(_m.merge_id.in_(list(merge_ids)))
    return {str(merge_id): str(title) for merge_id, title in conn.execute(query)} if merge_ids else {}


def next_due_at(conn: Connection, now: datetime) -> str | None:
    """When the first request that waits for its time may be tried again; one whose time has come does not count."""
    return _NEXT_DUE.text(conn, {"now": iso(now)})


def bound_waits(conn: Connection, latest: str) -> None:
    """Let no open request wait for longer than until ``latest``."""
    late = (_m.state.in_(OPEN_MERGES), _m.not_before_at > latest)
    conn.execute(update(merge_requests).where(*late).values(not_before_at=latest))


def latest_wait(conn: Connection) -> str | None:
    """Until when the last of the open requests waits."""
    return _LATEST_WAIT.text(conn, {})


def end_waits(conn: Connection, target: str) -> None:
    """Let the open requests of a target be tried now, whatever time they were to wait."""
    waiting = (_m.target == target, _m.state.in_(OPEN_MERGES), _m.not_before_at.is_not(None))
    conn.execute(update(merge_requests).where(*waiting).values(not_before_at=None))


def submitter(conn: Connection, task_id: str | None) -> tuple[str, str] | None:
    """Name and e-mail address of the task's submitter, if given."""
    row = conn.execute(select(tasks.c.author_name, tasks.c.author_email).where(tasks.c.task_id == task_id)).first()
    return (row.author_name, row.author_email) if row and row.author_name and row.author_email else None


def is_own_branch(conn: Connection, branch: str) -> bool:
    """Whether a worktree of ours, there or removed, was made with this very branch (short name)."""
    return has_any(conn, select(worktrees.c.worktree_id).where(worktrees.c.branch == branch))


# -- transitions: each returns the row, or None if somebody was first -------------------------------------------------


def built(
    conn: Connection,
    merge_id: str,
    *,
    candidate_sha: str,
    candidate_tree: str,
    tip_sha: str,
    now: datetime,
    style: str = "merge",
) -> MergeRow | None:
    """An open request has a new candidate, built upon this commit, about which nothing is known yet."""
    return _move(
        conn, merge_id, OPEN_MERGES, now, state=MergeState.QUEUED.value, reason=None, receipt_id=None, not_before_at=None,
        candidate_sha=candidate_sha, candidate_tree=candidate_tree, tip_sha=tip_sha, clashes_on_sha=None,
        style=style,
    )  # fmt: skip


def made_again(
    conn: Connection, merge_id: str, candidate_sha: str, now: datetime, *, new_sha: str, tip_sha: str
) -> MergeRow | None:
    """The candidate was made again, with the same tree; None if the request has another one by now, or has ended."""
    same = _m.candidate_sha == candidate_sha
    return _move(conn, merge_id, OPEN_MERGES, now, same, candidate_sha=new_sha, tip_sha=tip_sha)


def clashes(conn: Connection, merge_id: str, on_sha: str, now: datetime) -> MergeRow | None:
    """An open request cannot be merged upon another one's candidate: it waits for what becomes of that."""
    none = dict.fromkeys(("candidate_sha", "candidate_tree", "tip_sha", "receipt_id"))
    return _move(conn, merge_id, OPEN_MERGES, now, state=MergeState.QUEUED.value, clashes_on_sha=on_sha, **none)


def suspect(conn: Connection, merge_id: str, now: datetime, *, keeps_receipt: bool) -> MergeRow | None:
    """An open request is judged alone from now on; by the run that it has, or by a fresh one."""
    known = {} if keeps_receipt else {"receipt_id": None}
    return _move(conn, merge_id, OPEN_MERGES, now, suspect_at=iso(now), **known)


def acquit(conn: Connection, merge_id: str, now: datetime) -> MergeRow | None:
    """An open request is not judged alone any more."""
    return _move(conn, merge_id, OPEN_MERGES, now, suspect_at=None)


def waits_again(conn: Connection, merge_id: str, candidate_sha: str, now: datetime) -> None:
    """Nothing runs for this candidate any more; whatever became of the request meanwhile stays."""
    same = _m.candidate_sha == candidate_sha
    _move(conn, merge_id, [MergeState.VERIFYING], now, same, state=MergeState.QUEUED.value)


def verifying(
    conn: Connection, merge_id: str, candidate_sha: str, now: datetime, *, keeps_reason: bool = False
) -> MergeRow | None:
    """Something runs to judge this candidate; None if the request has another one by now, or has ended."""
    same, why = _m.candidate_sha == candidate_sha, {} if keeps_reason else {"reason": None}
    return _move(conn, merge_id, OPEN_MERGES, now, same, state=MergeState.VERIFYING.value, **why)


def judged(conn: Connection, merge_id: str, candidate_sha: str, receipt_id: str) -> MergeRow | None:
    """The candidate has this receipt; None if the request has another one by now, or has ended."""
    is_this_candidate = (_m.merge_id == merge_id, _m.state.in_(OPEN_MERGES), _m.candidate_sha == candidate_sha)
    query = update(merge_requests).where(*is_this_candidate).values(receipt_id=receipt_id).returning(merge_requests)
    return fetch_first(conn, query, MergeRow)


def checked(
    conn: Connection, merge_id: str, candidate_sha: str, receipt_id: str, now: datetime, reason: str | None = None
) -> MergeRow | None:
    """The check of this candidate came out so; None if the request has another one by now, or has ended."""
    same, why = _m.candidate_sha == candidate_sha, {"reason": reason} if reason is not None else {}
    return _move(conn, merge_id, OPEN_MERGES, now, same, check_receipt_id=receipt_id, **why)


def is_candidate(conn: Connection, merge_id: str, candidate_sha: str) -> bool:
    """Whether a request is open and this is its candidate."""
    same = (_m.merge_id == merge_id, _m.state.in_(OPEN_MERGES), _m.candidate_sha == candidate_sha)
    return has_any(conn, select(_m.seq).where(*same))


def requeue(
    conn: Connection,
    merge_id: str,
    now: datetime,
    *,
    reason: str | None = None,
    tries: int = 0,
    not_before_at: str | None = None,
) -> MergeRow | None:
    """An open request starts again from its pinned head."""
    fresh = {**_FRESH, "reason": reason, "tries": tries, "not_before_at": not_before_at}
    for name in (
        "suspect_at",
        "check_receipt_id",
    ):  # it is judged alone, and was checked, wherever its candidate stands
        del fresh[name]
    row = _move(conn, merge_id, OPEN_MERGES, now, state=MergeState.QUEUED.value, **fresh)
    if row is not None:
        event = EventKind.MERGE_REQUEUED({"reason": reason, "tries": tries, "not_before_at": not_before_at})
        events.record(conn, now, event, task_id=row["task_id"], merge_id=merge_id)
    return row


def approve(conn: Connection, merge_id: str, head_sha: str, now: datetime) -> MergeRow | None:
    """A person approves an open request with this head; None if it has another one by now, or has ended."""
    return _move(conn, merge_id, OPEN_MERGES, now, _m.head_sha == head_sha, approved_sha=head_sha)


def skip(conn: Connection, merge_id: str, priority: int, now: datetime) -> MergeRow | None:
    """An open request counts from now on, with this priority; None if it has ended."""
    return _move(conn, merge_id, OPEN_MERGES, now, skipped_at=iso(now), priority=priority)


def bypass(conn: Connection, merge_id: str, head_sha: str, reason: str, now: datetime) -> MergeRow | None:
    """An open request with this head lands without a verification, and waits for none; None if it has another one, or ended."""
    return _move(
        conn, merge_id, OPEN_MERGES, now, _m.head_sha == head_sha, state=MergeState.QUEUED.value, reason=None,
        bypassed_sha=head_sha, bypass_reason=reason, not_before_at=None, suspect_at=None,
    )  # fmt: skip


def hold(
    conn: Connection,
    merge_id: str,
    reason: str,
    now: datetime,
    *,
    paths: Sequence[str] = (),
    checkout: str | None = None,
    not_before_at: str | None = None,
) -> MergeRow | None:
    """An open request cannot go on; the event is recorded when the reason is new.

    Args:
        paths: The files that are in its way, in ``checkout``; their holder is told.
        not_before_at: When it is tried again; None: whenever the queue looks.
    """
    same = (_m.merge_id == merge_id, _m.state == MergeState.HELD, _m.reason == reason)
    is_known = has_any(conn, select(_m.seq).where(*same))
    if is_known and not_before_at is None:
        return get(conn, merge_id)
    wait = {"not_before_at": not_before_at} if not_before_at is not None else {}
    row = _move(conn, merge_id, OPEN_MERGES, now, state=MergeState.HELD.value, reason=reason, **wait)
    if row is not None and not is_known:
        why: MergeHeld = {"reason": reason}
        if paths:
            why |= {"paths": list(paths), "checkout": checkout}
        events.record(conn, now, EventKind.MERGE_HELD(why), task_id=row["task_id"], merge_id=merge_id)
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
    landed_tip_sha: str | None = None,
    receipt_id: str | None = None,
) -> MergeRow | None:
    """An open request ends; ``receipt_id`` replaces the one it has where given."""
    values: dict[str, Any] = {"state": state.value, "reason": reason, "conflicts": conflicts, "landed_sha": landed_sha}
    values["landed_tip_sha"] = landed_tip_sha
    if receipt_id is not None:
        values["receipt_id"] = receipt_id
    row = _move(conn, merge_id, OPEN_MERGES, now, finished_at=iso(now), not_before_at=None, **values)
    if row is not None:
        event = MERGE_ENDS[state]({"reason": reason, "landed_sha": landed_sha})
        events.record(conn, now, event, task_id=row["task_id"], session_id=row["session_id"], merge_id=merge_id)
    return row


def reopen(conn: Connection, merge_id: str, head_sha: str, now: datetime, *, waiting: bool = False) -> MergeRow | None:
    """A request that came back, was cancelled or is held goes to the queue again; a queued one too if it is ``waiting``."""
    states = [MergeState.CONFLICT, MergeState.FAILED, MergeState.CANCELLED, MergeState.HELD]
    if waiting:
        states.append(MergeState.QUEUED)
    values = {**_FRESH, "state": MergeState.QUEUED.value, "head_sha": head_sha, "replaced_by": None}
    row = _move(conn, merge_id, states, now, **values)
    if row is not None:
        events.record(conn, now, EventKind.MERGE_RETRIED, task_id=row["task_id"], merge_id=merge_id)
    return row


def _move(
    conn: Connection, merge_id: str, states: Sequence[MergeState], now: datetime, *also: Any, **values: Any
) -> MergeRow | None:
    query = update(merge_requests).where(_m.merge_id == merge_id, _m.state.in_(states), *also)
    return fetch_first(conn, query.values(updated_at=iso(now), **values).returning(merge_requests), MergeRow)
