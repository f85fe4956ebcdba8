"""Shell commands: dangerous ones are refused while other sessions are active; a command's changes are found when it ends.

A command is not confined, so Corral compares the checkout before and after it: the one it runs in, and those it names. What
other sessions hold with uncommitted content is copied before, so that whatever it does to that can be undone.
"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from corral.config.paths import Checkout, find_checkout
from corral.coordination.edits import attribution, verdicts
from corral.coordination.edits.attribution import Changed, Look, ShellCall
from corral.coordination.edits.verdicts import Policy, ShellChanges, Verdict
from corral.coordination.locks.keys import LockKey, literal_key
from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.locks.table import Holder
from corral.coordination.services import Services
from corral.coordination.sessions.store import sessions as session_rows
from corral.coordination.shell import danger as shell
from corral.coordination.shell.reading import is_read_only
from corral.core.events import EventKind
from corral.core.instants import iso
from corral.faces.hooks import held_files
from corral.faces.hooks.payloads import HookEvent
from corral.faces.hooks.presence import Present
from corral.faces.hooks.tool_targets import named_checkouts
from corral.git import history
from corral.git.checkouts import salvage, status
from corral.git.process.command import open_checkout
from corral.store import events
from corral.work.worktrees.guardian.guardian import Guardian

if TYPE_CHECKING:
    from corral.core.event_payloads import Commit, SessionCommitted

MOST_ATTRIBUTED = 500
"""Files per command and checkout that are locked or reported."""


def look(services: Services, top: Path) -> Look:
    """Look at a checkout (its top folder)."""
    started = services.now()
    seen = status.look(open_checkout(top))
    return Look(started, services.now(), seen)


async def before(services: Services, event: HookEvent, present: Present) -> str | None:
    """Judge a command before it runs, and remember how the checkouts look; returns why it is refused, if it is."""
    holder = await services.store.write(present)
    danger = shell.danger(event.command)
    if danger is not None and services.settings().locks.enforcement == "enforce":
        verdict = await _refusal(services, event, holder, danger)
        if verdict.denial is not None:
            return verdict.denial
    if not is_read_only(event.command):
        await services.work(lambda: services.of(Guardian).begin(event.cwd))
        looks = await services.work(lambda: {str(top): look(services, top) for top in named_checkouts(services, event)})
        saved = await held_files.save(services, holder, looks)
        call = ShellCall(event.actor, began=services.now(), before=looks, saved=saved, runs_git="git" in event.command)
        services.runtime.shell_began(event.use_id, call)
    return None


async def _refusal(services: Services, event: HookEvent, holder: Holder, danger: shell.Danger) -> Verdict:
    cwd = Path(event.cwd or services.project.root)
    checkout = find_checkout(shell.target_directory(event.command, cwd))
    if checkout is None or checkout.common_dir != services.project.common_dir:
        return Verdict()
    top, now = str(checkout.top), services.now()
    mine = list(holder.family)
    others = await services.store.read(lock_rows.others_in_checkout, top, mine, iso(now))
    if not others:
        return Verdict()
    saved = await services.work(
        lambda: salvage.snapshot(
            open_checkout(checkout.top), checkout.top.name, now, reason=f"before {danger.kind}", always=True
        )
    )
    ref = saved.ref if saved else None
    return await services.store.write(verdicts.refuse_danger, holder, danger, top, ref, now)


async def after(services: Services, event: HookEvent, policy: Policy) -> list[str]:
    """Find what a command wrote, attribute it, and notify the holders; returns the remarks for its own session."""
    call = services.runtime.shell_ended(event.actor, event.use_id, services.now())
    if call is None or not call.before:
        return []
    own = find_checkout(Path(event.cwd)) if event.cwd else None
    here = await services.store.read(lambda conn: {row["session_id"] for row in session_rows.live(conn)})
    changed, committed = await services.work(lambda: _traces(services, call, own, here))
    if not changed:
        await held_files.release(services, call)
        return []
    now = services.now()
    foreign = {
        top: changes for top, changes in changed.items() if changes.own and own is not None and top != str(own.top)
    }
    saved = await services.work(lambda: _save(list(foreign), event, now))
    shell_changes = [_changes(services, call, top, differences) for top, differences in changed.items()]
    for each in shell_changes:
        for key in (key for key in each.own if each.is_of(key, event.actor)):
            services.runtime.edited(each.checkout, key.match_key, event.actor, now)

    def attribute(conn: Connection) -> list[str]:
        row = session_rows.get(conn, event.actor)
        if row is None:
            return []
        if committed:
            events.record(conn, now, EventKind.SESSION_COMMITTED(committed), session_id=event.actor)
        kin = (event.parent,) if event.parent else ()
        holder = Holder(session_id=event.actor, task_id=row["task_id"], kin=kin)
        remarks: list[str] = []
        for keyed in shell_changes:
            remarks += verdicts.after_shell(conn, holder, row["agent_name"], keyed, policy, now)
        for top, ref in saved.items():
            remarks.append(
                f"Your shell command changed {len(foreign[top].own)} file(s) in another checkout ({top}); their state was "
                f"saved as {ref}. Work only in your own checkout; nothing there will land with your branch."
            )
        return remarks

    remarks = await services.store.write(attribute)
    await held_files.release(services, call, changed)
    return remarks


def _changes(services: Services, call: ShellCall, top: str, changed: Changed) -> ShellChanges:
    """The changes found in a checkout, as lock keys."""

    def key_of(path: str) -> LockKey:
        return literal_key(path, fold=services.fold)

    saved = call.saved.get(top)
    paths = [*changed.own[:MOST_ATTRIBUTED], *list(changed.shared)[:MOST_ATTRIBUTED]]
    return ShellChanges(
        checkout=top,
        own=tuple(key_of(path) for path in changed.own[:MOST_ATTRIBUTED]),
        shared={key_of(path): who for path, who in list(changed.shared.items())[:MOST_ATTRIBUTED]},
        edited_by=services.runtime.edited_since(top, call.began),
        gone=frozenset(key_of(path).match_key for path in paths if not os.path.lexists(Path(top) / path)),
        restore={
            key_of(path).match_key: held_files.restore_command(top, saved.ref, path)
            for path in paths
            if saved is not None and path in saved.files
        },
    )


def _traces(
    services: Services, call: ShellCall, own: Checkout | None, here: set[str]
) -> tuple[dict[str, Changed], SessionCommitted | None]:
    """The differences in each checkout, and the session's commits in its own, where its command alone ran git."""
    call.after = {top: look(services, Path(top)) for top in call.before if Path(top).is_dir()}
    others = [other for other in services.runtime.shell_calls() if other.ended is not None or other.actor in here]
    differences = {top: attribution.changed(call, top, others) for top in call.after}
    changed = {top: difference for top, difference in differences.items() if difference.paths}
    last = call.after.get(str(own.top)) if own is not None and call.runs_git else None
    if own is None or last is None or last.seen.head in (None, call.before[str(own.top)].seen.head):
        return changed, None
    if any(rival.runs_git for rival in attribution.rivals(call, str(own.top), others)):
        return changed, None
    began = call.began.replace(microsecond=0)  # merged or checked-out commits are older
    news = history.between(last.seen.checkout, call.before[str(own.top)].seen.head, str(last.seen.head))
    commits: list[Commit] = [
        {"sha": commit.sha, "subject": commit.subject[:200]} for commit in news if commit.at >= began
    ]
    branch = (last.seen.checkout.branch() or "").removeprefix("refs/heads/") if commits else ""
    return changed, {"branch": branch or None, "commits": commits} if commits else None


def _save(foreign: list[str], event: HookEvent, now: datetime) -> dict[str, str]:
    saved = {}
    for top in foreign:
        snapshot = salvage.snapshot(
            open_checkout(Path(top)),
            Path(top).name,
            now,
            reason=f"written from elsewhere by {event.actor}",
            always=True,
        )
        if snapshot is not None:
            saved[top] = snapshot.ref
    return saved
