"""The way onto the target branch, and back: ``request_merge``, ``merge_status``, ``list_flakes``, ``revert_merge``."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection

from corral.coordination.locks.table import Holder
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.errors import InvalidInput
from corral.core.pages import MOST, SHOWN_BYTES, Page, page
from corral.core.payload import Payload
from corral.core.states import OPEN_MERGES
from corral.faces.mcp.calls import coordinator_tool, current
from corral.git.checkouts.status import changes
from corral.git.process.command import open_checkout
from corral.landing import operations, pauses, requests, steering_operations
from corral.landing.api import Undo
from corral.work.merges import settling as app_merges
from corral.work.merges import wire as merge_shapes
from corral.work.merges.store import merges as merge_rows


@coordinator_tool
async def request_merge(branch: str | None = None, target: str | None = None, task_id: str | None = None) -> Payload:
    """Queue a branch (default: that of your worktree) for its target; what is committed lands once it verifies green."""
    call = current.get()
    services = call.services
    me, worktree = await call.write(_session_and_worktree)
    source, uncommitted = (branch, []) if branch else await services.work(lambda: _checked_out(worktree))
    submitted = await app_merges.submit(services, source, target, session_id=me, task_id=task_id)
    answer = {"success": True, **await services.store.read(requests.with_reason, submitted)}
    if answer["merge_id"] is None:
        answer["message"] = f"{answer['target']} has everything of {source} already: there is nothing to merge."
    if uncommitted:
        answer["uncommitted"] = uncommitted[:20]
        answer["warning"] = "Uncommitted changes do not land: commit them, then request the merge again."
    return answer


def _session_and_worktree(conn: Connection, me: Holder) -> tuple[str, str | None]:
    row = session_rows.get(conn, me.session_id)
    parent = session_rows.get(conn, row["parent_session_id"]) if row and row["parent_session_id"] else None
    return me.session_id, (row and row["worktree"]) or (parent and parent["worktree"])


def _checked_out(worktree: str | None) -> tuple[str, list[str]]:
    """The branch of a worktree, and the paths in it that no commit has."""
    if worktree is None:
        raise InvalidInput("No worktree of yours is known, so that you have no branch here.", remedy="Name the branch.")
    checkout = open_checkout(Path(worktree))
    ref = checkout.branch()
    if ref is None:
        raise InvalidInput(
            f"{worktree} has no branch checked out.", remedy="Make one of your commits: git switch -c NAME."
        )
    return ref.removeprefix("refs/heads/"), [change.path for change in changes(checkout)]


@coordinator_tool
async def merge_status(merge_id: str | None = None, branch: str | None = None) -> Payload:
    """Where a merge request stands (the branch's newest), with its conflicts and receipt; without arguments, the open queue."""
    services = current.get().services
    if merge_id is None and branch is None:
        queue = await services.store.read(_queue)
        more = {"left_out": "The later ones in the queue."} if queue.more else {}
        return {"success": True, "merges": queue.rows, **more}
    newest = merge_id or (await services.store.read(merge_rows.newest_of, str(branch)))["merge_id"]
    return {"success": True, **await operations.detail(services, newest)}


@coordinator_tool
async def list_flakes(target: str | None = None) -> Payload:
    """Tests that failed and then passed on one tree, with dates and logs; the last one first."""
    rows = await operations.flaky(current.get().services, target)
    shown = page(map(dict, rows), size=SHOWN_BYTES)
    more = {"left_out": "Those that were flaky longer ago."} if shown.more else {}
    return {"success": True, "flakes": shown.rows, **more}


def _queue(conn: Connection) -> Page:
    rows = pauses.explained(conn, merge_rows.listing(conn, OPEN_MERGES, limit=MOST))
    return page(map(merge_shapes.summary, rows), size=SHOWN_BYTES)


@coordinator_tool
async def revert_merge(merge_id: str) -> Payload:
    """Queue the revert of what a landed merge request (or task) brought; it is verified and lands like any other request."""
    call = current.get()
    me = await call.write(lambda _conn, holder: holder.session_id)
    return {"success": True, **await steering_operations.revert(call.services, merge_id, Undo(session_id=me))}
