"""Worktrees as people and sessions see them: create, list, give back, recover what was salvaged."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection
from datetime import datetime
from functools import partial
from itertools import chain, count
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from corral.config.paths import find_checkout
from corral.coordination.sessions.claims import Claimant
from corral.coordination.sessions.store import sessions
from corral.core.errors import (
    Conflict,
    CorralError,
    LimitReached,
    NotFound,
    NotPermitted,
    PathReplaced,
    TargetGone,
    WorkAtRisk,
)
from corral.core.identifiers import check_name
from corral.core.logs import logger
from corral.core.payload import Payload, picked
from corral.core.states import LIVE_WORKTREES, SessionStatus, WorktreePurpose, WorktreeState
from corral.git import refs
from corral.git.checkouts import private, salvage, status, unwritten
from corral.git.checkouts.identity import real_place
from corral.git.checkouts.worktrees import Remake
from corral.git.process.command import Git, open_checkout
from corral.store.rows.tasks import WorktreeRow
from corral.work.merges.store import landed
from corral.work.worktrees import ownership
from corral.work.worktrees import store as worktree_rows
from corral.work.worktrees.allocation import Plan, WorktreeContext, allocate, give_up, mark_ready
from corral.work.worktrees.api import Pool
from corral.work.worktrees.pool import state

WIRE_FIELDS = ("worktree_id", "name", "path", "branch", "base_sha", "purpose", "state", "task_id", "session_id",
               "port_base", "note", "salvage_ref", "created_at")  # fmt: skip

MOST_OF_A_SESSION = 20
"""Worktrees that one session can ask for at a time; those of tasks are bounded by the number of agents."""
MOST_OF_PEOPLE = 100

log = logger("worktrees")


class GivenBack(NamedTuple):
    """What became of a worktree that a client is done with.

    Attributes:
        stays: Why it stays, in one line, and what to type in a second; None: it is gone.
        lost: A line about the ignored files that were not saved and went with it; None: there were none.
    """

    stays: str | None = None
    lost: str | None = None


class Worktrees:
    """Everything that touches git or the disk; call it off the event loop.

    Args:
        context: Shared with the supervisor.
    """

    def __init__(self, context: WorktreeContext) -> None:
        self._context = context

    def listing(self) -> list[Payload]:
        """Every worktree that Corral made and that is not removed, oldest first, with what :data:`WIRE_FIELDS` names.

        One for verifying or judging work is among them only while something is wrong with it: nobody else is to use it.
        """
        rows = self._context.db.read(worktree_rows.listing)
        return [wire(row) for row in rows if row["purpose"] != WorktreePurpose.VERIFY or row["note"]]

    def pool(self) -> Pool:
        """The warm pool: the worktrees that are kept for the next tasks, their bounds, and what it did so far."""
        return state.overview(self._context)

    def own_folders(self, *states: str) -> list[Path]:
        """The folders of the worktrees in these states (none: all), without those that something else took the place of."""
        with self._context.db.reading() as conn:
            rows = worktree_rows.listing(conn, states=states)
        return [Path(row["path"]) for row in rows if row["purpose"] != WorktreePurpose.VERIFY and self._is_own(row)]

    def after_power_cut(self, _now: datetime) -> None:
        """Bring worktrees back to commits that are whole, where a power cut left objects or refs without content.

        Raises:
            CorralError: Git refused.
            OSError: The folder of the objects cannot be read or written.
        """
        repo = self._context.repo
        emptied = unwritten.set_aside(repo)
        with self._context.db.reading() as conn:
            rows = worktree_rows.listing(conn, states=LIVE_WORKTREES)
        for row in rows:
            if row["branch"] is None or not (emptied or unwritten.is_empty(repo, refs.branch_ref(row["branch"]))):
                continue
            own, base = refs.branch_ref(row["branch"]), row["base_sha"]
            if (sha := unwritten.step_back(repo, own, base)) is not None:
                log.warning("stepped_back", branch=row["branch"], sha=sha)
            if not self._is_own(row) or not Path(row["path"]).is_dir():
                continue
            try:
                checkout = ownership.prove(self._context, row)
                unwritten.step_back(checkout, "HEAD", base)
                unwritten.renew_index(checkout)
            except CorralError as error:  # its removal makes its entry anew
                log.warning("worktree_not_whole", worktree=row["name"], reason=error.message)
        for file in emptied:
            file.unlink(missing_ok=True)
        if emptied:
            log.warning("objects_were_empty", count=len(emptied))

    def is_own(self, name: str) -> bool:
        """Whether what stands at the path of this worktree is Corral's, or nothing."""
        with self._context.db.reading() as conn:
            row = worktree_rows.live_by_name(conn, name)
        return row is None or self._is_own(row)

    def _is_own(self, row: WorktreeRow) -> bool:
        try:
            ownership.prove_remains(self._context, row)
        except PathReplaced:
            return False
        return True

    def create(self, name: str, *, session_id: str | None, base: str | None) -> Payload:
        """Make a worktree on a branch of its own. The same request by the same session is answered with the same one.

        Args:
            name: Folder's name; the branch is ``corral/<name>``, or with a number behind it where that exists.
            session_id: Whose it is; None: a person's.
            base: The commit that it starts at; None: the target's tip.

        Raises:
            InvalidInput: The name cannot be one, or ``base`` is no commit-ish.
            NotFound: ``base`` names nothing.
            Conflict: The name is taken.
            LimitReached: The session, or people, have too many.
        """
        check_name(name, "worktree")
        context = self._context
        with context.db.reading() as conn:
            known = worktree_rows.live_by_name(conn, name)
        if known is not None and known["state"] == WorktreeState.READY and known["session_id"] == session_id:
            if base is not None and refs.resolve(context.repo, base) != known["base_sha"]:
                raise Conflict(
                    f"The worktree {name} exists already and began at another commit.",
                    cause=f"It began at {known['base_sha'][:12]}.",
                    remedy="Choose another name, or remove that one first.",
                )
            return wire(known)
        if known is not None and session_id is not None and (heir := self.inherit(known, session_id)) is not None:
            return wire(heir)
        self._check_room(session_id)
        base_sha = landing_target(context, None)[1] if base is None else refs.resolve(context.repo, base)
        purpose = WorktreePurpose.PERSON if session_id is None else WorktreePurpose.SESSION
        plan = Plan(name, self._free_branch(name), base_sha, purpose, session_id=session_id)
        row, provided = allocate(context, plan)
        return wire(context.db.write(mark_ready, row["worktree_id"], provided))

    def inherit(self, row: WorktreeRow, session_id: str) -> WorktreeRow | None:
        """Hand a worktree over to a session that asks for it by its name: its own session has ended.

        Returns:
            Its row; None where there is no worktree to hand over, and a new one is to be made, or refused.

        Raises:
            Conflict: It is another live session's, or a task's, or a person's; the remedy proposes another name.
        """
        with self._context.db.reading() as conn:
            live = sessions.live(conn)
            owner = sessions.get(conn, str(row["session_id"]))
        place = Path(row["path"])
        users = [other for other in live if other["worktree"] and Path(other["worktree"]) == place]
        holder = next((other for other in live if other["session_id"] == row["session_id"]), next(iter(users), None))
        is_ready = row["purpose"] == WorktreePurpose.SESSION and row["state"] == WorktreeState.READY
        # Of a session that is only just starting nothing is known yet: that it has ended is not certain.
        if holder is not None or owner is None or not is_ready:
            whose = f"{holder['agent_name']}'s" if holder is not None else "taken"
            raise Conflict(
                f"The worktree {row['name']} is {whose}.",
                cause="No worktree is given to two at once." if is_ready else f"It is {row['state']}.",
                remedy=f"Choose another name: {self._free_name(row['name'])} is free.",
            )
        heir = self._context.db.write(worktree_rows.hand_over, row["worktree_id"], row["session_id"], session_id)
        if heir is None:
            raise Conflict(
                f"The worktree {row['name']} was just given to another session.",
                cause="No worktree is given to two at once.",
                remedy=f"Choose another name: {self._free_name(row['name'])} is free.",
            )
        return heir

    def _check_room(self, session_id: str | None) -> None:
        most = MOST_OF_PEOPLE if session_id is None else MOST_OF_A_SESSION
        if self._context.db.read(worktree_rows.count_live, session_id) >= most:
            raise LimitReached(
                f"{'People have' if session_id is None else 'This session has'} {most} worktrees already.",
                cause="Each is a whole checkout on the disk.",
                remedy="`corral worktree list` shows them; `corral worktree remove NAME` gives one back, its work saved.",
            )

    def remove(self, name: str, who: Claimant | None = None) -> Payload:
        """Give a worktree back: what no branch holds is salvaged first.

        Args:
            who: Who asks for it; None: the daemon.

        Returns:
            The row; ``removed`` is True, or False with ``note`` saying why it had to stay.

        Raises:
            NotFound: No such worktree.
            NotPermitted: It is for verifying, or an agent's that asks for a person's, or another session's, with work in it.
            WorkAtRisk: A session works in it.
        """
        with self._context.db.reading() as conn:
            row = worktree_rows.live_by_name(conn, name)
        if row is None:
            raise NotFound(f"There is no worktree {name[:80]!r}.", remedy="`corral worktree list` shows them all.")
        if row["purpose"] == WorktreePurpose.VERIFY:
            raise NotPermitted(f"{name} is for verifying work, and Corral's own.", remedy="Leave it to Corral.")
        if who is not None and not who.is_person and not self._may_take(row, who) and self._holds_changes(row):
            raise NotPermitted(
                f"{name} is not yours, and has uncommitted changes.",
                cause="Somebody may be at work in it, in an editor that no session tells of.",
                remedy="Leave it, or ask a person, who removes it in a terminal of their own.",
            )
        self._check_unused(row)
        gone = give_up(self._context, row, reason=f"worktree {name} was removed")
        with self._context.db.reading() as conn:
            after = worktree_rows.get(conn, row["worktree_id"])
        return {**wire(after or row), "removed": gone}

    def _may_take(self, row: WorktreeRow, who: Claimant) -> bool:
        """Whether a worktree is neither a person's nor that of a living session which the caller may not act for."""
        with self._context.db.reading() as conn:
            owner = sessions.get(conn, row["session_id"]) if row["session_id"] is not None else None
            if owner is None or owner["status"] == SessionStatus.DISCONNECTED:
                return row["purpose"] != WorktreePurpose.PERSON
            try:
                who.check(conn, owner["session_id"])
            except NotPermitted:
                return row["purpose"] == WorktreePurpose.TASK
        return True

    def _holds_changes(self, row: WorktreeRow) -> bool:
        """Whether a worktree has changes that no commit has; also where git cannot tell."""
        try:
            return bool(status.changes(open_checkout(Path(row["path"]))))
        except CorralError:
            return os.path.lexists(row["path"])

    def give_back(self, path: Path, leaving: Collection[str] = ()) -> GivenBack:
        """The client is done with the worktree at ``path``.

        Args:
            leaving: The session that leaves it, with its subagents; any other that works in it keeps it.
        """
        for row in self._context.db.read(worktree_rows.listing):
            if real_place(Path(row["path"])) == real_place(path) and row["purpose"] != WorktreePurpose.VERIFY:
                try:
                    self._check_unused(row, leaving)
                except WorkAtRisk as risk:
                    return GivenBack(stays=f"{risk.message} {risk.cause}")
                is_gone = give_up(self._context, row, reason="its session gave it back")
                with self._context.db.reading() as conn:
                    after = worktree_rows.get(conn, row["worktree_id"]) or row
                return GivenBack(lost=after["note"]) if is_gone else GivenBack(stays=str(after["note"]))
        return GivenBack(
            f"{path} was not made by Corral, and stays.\nTo remove it: `git worktree remove {shlex.quote(str(path))}`."
        )

    def release_subagent(self, session_id: str) -> None:
        """A subagent has ended: its worktrees go, what it made stays on its branch or on a salvage ref."""
        for row in self._context.db.read(worktree_rows.listing):
            if row["session_id"] == session_id and row["purpose"] == WorktreePurpose.SESSION:
                give_up(self._context, row, reason="its subagent has ended")

    def salvaged(self, name: str | None = None) -> list[Payload]:
        """Salvaged work (of one worktree): ``name, ref, sha, at, reason, files``; newest first."""
        snapshots = salvage.listing(self._context.repo, name)
        rows = [{**vars(snapshot), "private": False, "left_out": {}} for snapshot in snapshots]
        return sorted(rows, key=_saved_at, reverse=True)

    def saved_ignored(self, name: str | None = None) -> list[Payload]:
        """Saved files that git ignores (of one worktree): the same, newest first. Only a person is to see it."""
        copies = [vars(copy) for copy in private.listing(self._context.repo, name)]
        inner = ("head_sha", "identity")
        rows = [{**{field: copy[field] for field in copy if field not in inner}, "private": True} for copy in copies]
        return sorted(rows, key=_saved_at, reverse=True)

    def recover(self, name: str) -> Payload:
        """Make a worktree of salvaged work.

        Args:
            name: The worktree that was salvaged (its newest state is taken), or a full ``refs/corral/salvage/…``.

        Returns:
            The new worktree, with the ``ref`` that it was made of.

        Raises:
            NotFound: Nothing was salvaged under that name.
        """
        owner = check_name(name.removeprefix(salvage.PREFIX).partition("/")[0], "worktree")
        snapshots = [row for row in self.salvaged(owner) if name in (owner, row["ref"])]
        if not snapshots:
            raise _nothing_saved(name)
        return self._recovered(owner, snapshots[0]["ref"], snapshots[0]["sha"])

    def recover_all(self, name: str) -> Payload:
        """The same for a person, with the newest copy of the files that git ignores.

        Nothing that stands in the new worktree is replaced; a file goes beside it, and the answer says where.

        Args:
            name: A worktree, a full ``refs/corral/salvage/…``, or a ref of the other kind without its prefix.

        Raises:
            NotFound: Nothing was saved under that name.
        """
        context, is_private = self._context, "/" in name and not name.startswith(salvage.PREFIX)
        owner = check_name(name.removeprefix(salvage.PREFIX).partition("/")[0], "worktree")
        listed = private.listing(context.repo, owner)
        copies = [copy for copy in listed if name in (owner, copy.ref.removeprefix(private.PREFIX))]
        snapshots = [row for row in self.salvaged(owner) if name in (owner, row["ref"])]
        if is_private or not snapshots:
            if not copies:
                raise _nothing_saved(name)
            head = copies[-1].head_sha
            is_there = head is not None and refs.exists(context.repo, head)
            answer = self._recovered(owner, None, str(head) if is_there else landing_target(context, None)[1])
        else:
            answer = self._recovered(owner, snapshots[0]["ref"], snapshots[0]["sha"])
        if copies:
            restored = private.restore(context.repo, private.of_the_newest(copies), Path(answer["path"]))
            ignored = {"ignored_files": restored.files + restored.present, "aside": restored.aside}
            answer = {
                **answer,
                **ignored,
                "left_out": restored.left_out,
                "ref": answer["ref"] or copies[-1].ref.removeprefix(private.PREFIX),
            }
        return answer

    def _recovered(self, owner: str, ref: str | None, sha: str) -> Payload:
        """A new worktree at a salvage, or, without one, at a commit."""
        context = self._context
        fresh = self._free_name(f"{owner[:50]}-recovered")
        branch = self._free_branch(fresh)
        restore = None if ref is None else partial(_restore, context.repo, ref, branch)
        row, provided = allocate(context, Plan(fresh, branch, sha, WorktreePurpose.PERSON), restore)
        ready = context.db.write(mark_ready, row["worktree_id"], provided)
        return {**wire(ready), "ref": ref, "ignored_files": [], "aside": {}, "left_out": {}}

    def commits_behind(self, folder: str | None) -> int | None:
        """How many commits the target has that the checkout around ``folder`` does not; None where that means nothing."""
        checkout = find_checkout(Path(folder)) if folder else None
        if checkout is None or checkout.common_dir != self._context.repo.common_dir:
            return None
        head = Git(checkout.git_dir, checkout.top).head()
        try:
            tip = landing_target(self._context, None)[1]
        except NotFound:
            return None
        if head is None or head == tip:
            return None if head is None else 0
        counted = self._context.repo.run("rev-list", "--count", f"{head}..{tip}")
        return int(counted.text) if counted.ok else None

    def _check_unused(self, row: WorktreeRow, leaving: Collection[str] = ()) -> None:
        for session in self._context.db.read(sessions.live):
            if session["session_id"] in leaving or session["parent_session_id"] in leaving:
                continue
            if session["worktree"] and Path(session["worktree"]).resolve() == Path(row["path"]).resolve():
                raise WorkAtRisk(
                    f"{session['agent_name']} works in {row['name']}.",
                    cause=f"The session is {session['status']}.",
                    remedy="End that session, or cancel its task, first.",
                )

    def _free_branch(self, name: str) -> str:
        return _first_free(
            f"corral/{name}", lambda branch: refs.read(self._context.repo, refs.branch_ref(branch)) is not None
        )

    def _free_name(self, stem: str) -> str:
        taken = {row["name"] for row in self._context.db.read(worktree_rows.listing)}
        return _first_free(stem, lambda name: name in taken or os.path.lexists(self._context.root / name))


def _restore(repo: Git, ref: str, branch: str, into: Path, remake: Remake) -> None:
    salvage.restore(repo, ref, into, branch, remake)


def _saved_at(row: Payload) -> tuple[datetime, str]:
    return row["at"], row["ref"]


def _nothing_saved(name: str) -> NotFound:
    return NotFound(
        f"Nothing was salvaged of {name[:80]!r}.",
        cause="No work in it existed nowhere else, or the name is mistyped.",
        remedy="`corral worktree recover` lists what there is.",
    )


def _first_free(stem: str, is_taken: Callable[[str], bool]) -> str:
    numbered = (f"{stem}-{number}" for number in count(2))
    return next(name for name in chain((stem,), numbered) if not is_taken(name))


def wire(row: WorktreeRow) -> Payload:
    """A worktree as every surface shows it."""
    return {**picked(row, WIRE_FIELDS), "env": row["provision"].get("env", {})}


# -- The branch that work starts from and lands on


def landing_target(context: WorktreeContext, named: str | None) -> tuple[str, str]:
    """The branch that work lands on, and its present tip.

    Args:
        named: The branch that a task or a person asked for; None is ``landing.target``, else what the main checkout has.

    Returns:
        Short branch name, SHA.

    Raises:
        TargetGone: There is no such branch any more: something landed on it, or waits to.
        NotFound: There is no such branch, or it has no commit yet.
    """
    default = refs.default_branch(context.repo) if named is None else None
    target = named or context.settings().landing.target or (default or "").removeprefix("refs/heads/")
    tip = refs.read(context.repo, refs.branch_ref(target)) if target else None
    if tip is None and target and context.db.read(landed.is_known_target, target):
        raise TargetGone(
            f"There is no branch {target!r} any more.",
            cause="It was renamed or deleted.",
            remedy=f"Make it again: git branch {quote(target)} COMMIT; or cancel the task and submit it with another "
            "--target.",
        )
    if tip is None:
        raise NotFound(
            f"There is no branch {target!r} to work from." if target else "The main checkout is on no branch.",
            cause="The branch does not exist, or has no commit yet.",
            remedy=f"Make it: git branch {quote(target or 'main')} COMMIT (or name another one as `landing.target` in "
            ".corral/config.yaml)",
        )
    return target, tip
