"""Take back what a landed request brought, as a commit that is queued like any other work.

A commit with the tree that the target had before the request, upon what landed of it, is merged with the target: of a merge
commit, that takes back the difference to its first parent, and of a member of a batch what this member brought; what came since
stays. The outcome is a commit upon the target's tip, so that it lands in every shape. Where later work changed the same lines the
first commit is queued as it is, and comes back as a conflict like any other. No checkout is needed, and the revert of a revert
brings the work back.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from corral.core.crash import crash_point
from corral.core.errors import Conflict, InvalidInput, NotFound
from corral.core.identifiers import new_id
from corral.core.states import OPEN_MERGES, MergeState
from corral.git import commits, refs
from corral.git.checkouts import listing as worktree_list
from corral.git.commits import CORRAL, effective
from corral.git.land import candidates
from corral.git.process.command import Git
from corral.landing.land import REVERT_BRANCH
from corral.store.protocol import Store
from corral.store.rows.merges import MergeRow
from corral.work.merges.store import merges, of_tasks
from corral.work.tasks.store import dependencies

_REVERT = re.compile(r'Revert "(.*)"')


@dataclass(frozen=True)
class Revert:
    """A revert that is queued.

    Attributes:
        merge: Its request.
        of: The request whose work it takes back.
        conflicts: Where it does not merge with the target as that is now.
        dependents: The ids of the tasks that waited for the work, and of those that waited for these.
    """

    merge: MergeRow
    of: MergeRow
    conflicts: list[candidates.PathConflict]
    dependents: list[str]


def submit(db: Store, repo: Git, merge_id: str, *, session_id: str | None, now: datetime) -> Revert:
    """Queue the revert of a request that has landed; one that is queued already is the answer.

    Args:
        merge_id: The request's id, the beginning of it, or its task's id or number.
        session_id: The session that asks, if one does.

    Raises:
        NotFound: No such request, or its target is gone.
        Conflict: It has not landed, its target has it no more, or there is a branch of the revert's name with other commits.
        InvalidInput: It brought nothing that the target still has, or it is not known what.
        GitFailed: Git refused.
    """
    with db.reading() as conn:
        merge = of_tasks.named(conn, merge_id)
        taken_back_by, dependents = _taken_back_by(conn, merge), _dependents(conn, merge["task_id"])
    target, short = merge["target"], merge["merge_id"][:8]
    tip = refs.read(repo, refs.branch_ref(target))
    if tip is None:
        raise NotFound(
            f"There is no branch {target} any more.",
            cause="It was deleted or renamed after the landing.",
            remedy=f"Make it again: git branch {target} COMMIT",
        )
    landed = _landed(repo, merge, tip)
    if taken_back_by is not None and refs.is_ancestor(repo, str(taken_back_by["landed_sha"]), tip):
        again = taken_back_by["merge_id"][:8]
        raise Conflict(
            f"What merge request {short} brought was taken back already.",
            cause=f"By merge request {again}, which has landed.",
            remedy=f"To bring it back: corral merge revert {again}",
        )
    before = _before(repo, merge, landed)
    branch, reserved = f"{REVERT_BRANCH}{short}", new_id()
    # One that was made in the same second, and landed, would be the same commit, of which the tip has nothing to take.
    undone = next(
        sha
        for later in itertools.count()
        if not refs.is_ancestor(repo, sha := _undone(repo, merge, landed, before, now + timedelta(seconds=later)), tip)
    )
    built = candidates.build(repo, tip, undone, "", effective(repo, None), now)
    if built is None or (isinstance(built, candidates.Candidate) and built.tree == _tree(repo, tip)):
        raise InvalidInput(
            f"{target} has nothing any more of what merge request {short} brought.",
            cause="It brought nothing of its own, or something else took it back.",
            remedy="Nothing to do.",
        )
    clean = built.tree if isinstance(built, candidates.Candidate) else None
    is_queued = db.read(merges.open_of_branch, branch, target) is not None
    head = _made_before(repo, branch, undone, tip, now, may_be_older=is_queued or clean is None)
    if head is None:
        head = _create(repo, merge, landed, clean, tip, now) if clean else undone
        _store_branch(repo, branch, head)
    crash_point("reverts.branch_made")
    candidates.hold(repo, reserved, head)

    def store(conn: Connection) -> str:
        return merges.submit(
            conn, merge_id=reserved, task_id=None, session_id=session_id, title=_title(merge["title"]),
            priority=merge["priority"], branch=branch, target=target, base_sha=landed, head_sha=head, now=now,
            reverts=merge["merge_id"],
        )  # fmt: skip

    queued = db.write(store)
    if queued != reserved:
        candidates.release(repo, reserved)
    row = db.read(merges.get, queued)
    return Revert(row, merge, built.paths if isinstance(built, candidates.Conflicted) else [], dependents)


def _landed(repo: Git, merge: MergeRow, tip: str) -> str:
    """The commit in which a request's work is on its target."""
    target, short = merge["target"], merge["merge_id"][:8]
    if merge["state"] != MergeState.LANDED:
        is_open = merge["state"] in OPEN_MERGES
        raise Conflict(
            f"Merge request {short} is {merge['state']}: it brought nothing to {target}.",
            cause="Only what has landed can be taken back.",
            remedy=f"Take it out of the queue: corral merge cancel {short}" if is_open else "Nothing to do.",
        )
    landed = str(merge["landed_sha"])
    if not refs.exists(repo, landed) or not refs.is_ancestor(repo, landed, tip):
        raise Conflict(
            f"{target} has no more what merge request {short} brought.",
            cause=f"{landed[:12]} is not among its commits: it was rewound, or written anew.",
            remedy="`corral status` shows what became of it.",
        )
    return landed


def _before(repo: Git, merge: MergeRow, landed: str) -> str:
    """What the target was without the request: its candidate's base; where it came past the queue, what it began from."""
    was_built = merge["candidate_tree"] == _tree(repo, landed)
    before = merge["tip_sha"] if was_built else merge["base_sha"]
    if before is None or not refs.exists(repo, before):
        raise InvalidInput(
            f"It is not known what merge request {merge['merge_id'][:8]} brought: it was on {merge['target']} before.",
            remedy=f"Revert its commits on a branch of yours: git revert {landed[:12]}; then corral merge submit.",
        )
    return before


def _made_before(repo: Git, branch: str, undone: str, tip: str, now: datetime, *, may_be_older: bool) -> str | None:
    """The revert that a branch of this name has, if it was made already and is not on the target.

    Args:
        undone: The commit that takes the work back, upon what landed of it.
        may_be_older: Also one that was made upon a former tip. Else it is made anew.

    Raises:
        Conflict: The branch has something else.
    """
    head = refs.branch_tip(repo, branch)
    if head is None or refs.is_ancestor(repo, head, tip):  # one that has landed makes place for the next one
        return None
    parents = repo.must("rev-list", "--parents", "--max-count=1", head).split()[1:]
    if len(parents) == 1 and refs.is_ancestor(repo, parents[0], tip):
        built = candidates.build(repo, parents[0], undone, "", CORRAL, now)
        if isinstance(built, candidates.Candidate) and built.tree == _tree(repo, head):
            return head if may_be_older or parents[0] == tip else None
    raise Conflict(
        f"There is a branch {branch} already, with other commits.",
        cause="A revert was made there before, or somebody has worked on it.",
        remedy=f"Land what it has: corral merge submit {branch}. Or rename it: git branch -m {branch} NAME",
    )


def _store_branch(repo: Git, branch: str, head: str) -> None:
    """Have the branch at a revert; one that it had was made by Corral, and can be made again."""
    ref = refs.branch_ref(branch)
    old = refs.read(repo, ref)
    if old is None:
        refs.make_branch(repo, ref, head)
    elif worktree_list.checkout_of(repo, ref) is not None or not refs.change(repo, [refs.Change(ref, head, old)]):
        raise Conflict(
            f"{branch} is checked out, or moved just now.",
            cause="Somebody works on this revert already; their branch is not moved.",
            remedy=f"corral merge submit {branch}",
        )


def _undone(repo: Git, merge: MergeRow, landed: str, before: str, now: datetime) -> str:
    return _create(repo, merge, landed, _tree(repo, before), landed, now)


def _create(repo: Git, merge: MergeRow, landed: str, tree: str, upon: str, now: datetime) -> str:
    message = commits.message_with(
        f"{_title(merge['title'])}\n\nThis takes back what {landed} brought to {merge['target']}.",
        {"Corral-Reverts": merge["merge_id"]},
    )
    return commits.create(repo, tree, (upon,), message, effective(repo, None), now)


def _title(title: str) -> str:
    """Of the revert; that of a revert brings the work back."""
    inner = _REVERT.fullmatch(title)
    return f'Reapply "{inner[1]}"'[:200] if inner else f'Revert "{title}"'[:200]


def _tree(repo: Git, sha: str) -> str:
    return repo.must("rev-parse", "--verify", f"{refs.oid(sha)}^{{tree}}")


def _taken_back_by(conn: Connection, merge: MergeRow) -> MergeRow | None:
    """The landed revert of a request, unless that one was taken back in turn."""
    row = merges.reverting(conn, merge["merge_id"])
    is_in_force = row is not None and row["state"] == MergeState.LANDED and _taken_back_by(conn, row) is None
    return row if is_in_force else None


def _dependents(conn: Connection, task_id: str | None) -> list[str]:
    known, rest = dict[str, None](), [task_id] if task_id is not None else []
    while rest:
        rest = [child for child in dependencies.children_of(conn, rest) if child not in known]
        known |= dict.fromkeys(rest)
    return list(known)
