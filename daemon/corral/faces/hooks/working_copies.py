"""Working copies as a client's mod asks for them: the owner of a name gives one, says what it holds, and takes it back."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from corral.coordination.services import Services
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.errors import CorralError
from corral.core.instants import iso
from corral.core.payload import Payload
from corral.faces.hooks.payloads import HookEvent
from corral.git.checkouts import status as checkout_status
from corral.git.checkouts.status import Change
from corral.git.process.command import open_checkout
from corral.work.worktrees.guardian.guardian import Guardian
from corral.work.worktrees.worktrees import Worktrees

SYSTEM = "corral"
"""The name by which the client hands a copy back to the one that made it."""
MOST = 200
"""Changed files that are named."""


def given(worktree: Payload) -> Payload:
    """The answer that gives a worktree."""
    about = {"path": worktree["path"], "branch": worktree["branch"], "revision": worktree["base_sha"]}
    return {"vcs": {"vcs": SYSTEM, **about}}


def refused(error: CorralError) -> Payload:
    """The answer that gives none."""
    return {"vcs": {"deny": why(error)}}


def why(error: CorralError) -> str:
    """Why there is no worktree, and what to do, in one line for a person."""
    return " ".join(filter(None, (error.message, error.cause, error.remedy)))


async def status(services: Services, event: HookEvent) -> Payload:
    """What a copy holds that is on no commit, and where it stands; its branch stays when it goes, so no commit is lost."""
    return {"vcs": await services.work(partial(_status, Path(event.folder), event.since))}


def _status(folder: Path, since: str) -> Payload:
    if not folder.exists():  # given back already, by the end of its session
        return {"changes": [], "unpublished": 0, **({"revision": since} if since else {})}
    try:
        checkout = open_checkout(folder)
        changes = checkout_status.changes(checkout)
    except CorralError as error:
        return {"unknown": error.message}
    named = [{"path": change.path.rstrip("/"), "state": _word(change)} for change in changes[:MOST]]
    return {"changes": named, "unpublished": 0, **({"revision": head} if (head := checkout.head()) else {})}


def _word(change: Change) -> str:
    if change.unmerged:
        return "conflict"
    if change.code == "??":
        return "untracked"
    return "deleted" if "D" in change.code else "added" if "A" in change.code else "modified"


async def release(services: Services, event: HookEvent) -> Payload:
    """Take a copy back, saved first; the session is told why one stays, and how to get back what was in one that went."""
    place = Path(event.folder)
    if not place.exists():
        return {"vcs": {"isReleased": True}}
    name, before = place.name, await services.work(lambda: len(services.of(Worktrees).salvaged(place.name)))
    kept = await services.work(lambda: services.of(Guardian).before_release(place, "its session gives it back"))
    if kept.problem is not None:  # nothing that could not be saved is removed
        return {"vcs": {"kept": f"What is in {place} could not be saved: {kept.problem}"}}
    stays, lost = await services.work(lambda: services.of(Worktrees).give_back(place, {event.actor, event.session_id}))
    services.nudge("landing")
    if outcome := stays or lost:
        became = "not removed" if stays else "removed"
        text = f"The worktree {place} was {became}. {' '.join(outcome.splitlines())}"
        at = iso(services.now())
        await services.store.write(session_rows.notify, session_id=event.session_id, text=text, at=at)
    if stays:
        return {"vcs": {"kept": " ".join(stays.splitlines())}}
    after = await services.work(lambda: len(services.of(Worktrees).salvaged(name)))
    is_saved = after > before or kept.ref is not None or kept.ignored_files
    saved = f"{'the rest' if lost else 'what was in it'} is saved: corral worktree recover {name}" if is_saved else ""
    note = " ".join(filter(None, (lost, saved)))
    return {"vcs": {"isReleased": True, **({"note": note} if note else {})}}
