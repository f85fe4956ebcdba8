"""Shell commands: dangerous ones are refused while others are at work; what a command wrote is found when it ends.

A command is confined by nothing, so the checkout is compared before and after it. The session's own checkout is always looked
at; another checkout of the project is, when the command names it or leaves its own.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from corral.config.paths import Checkout, find_checkout
from corral.coordination import edits, shell
from corral.coordination.aftermath import COMMITTED
from corral.coordination.edits import Policy, Verdict
from corral.coordination.hook_events import HookEvent
from corral.coordination.keys import literal_key
from corral.coordination.locks import Holder
from corral.coordination.witness import ShellCall
from corral.git import history, salvage, status
from corral.git.command import open_checkout
from corral.models.instants import iso
from corral.server.services import Services
from corral.store import events
from corral.store import locks as lock_rows
from corral.store import sessions as session_rows

Present = Callable[[Connection], Holder]


def _checkouts(services: Services, event: HookEvent) -> list[Path]:
    """The checkouts of this project that a command might write to: its own, the main one, and those it names."""
    cwd = Path(event.cwd or services.project.root)
    own = find_checkout(shell.target_directory(event.command, cwd)) or find_checkout(cwd)
    found: list[Path] = []
    for checkout in (find_checkout(cwd), own):
        if checkout is not None and checkout.common_dir == services.project.common_dir and checkout.top not in found:
            found.append(checkout.top)
    if not services.project.bare and services.project.root not in found:
        found.append(services.project.root)
    for path in services.worktrees.live_paths():
        if str(path) in event.command and path not in found:
            found.append(path)
    return found


async def before(services: Services, event: HookEvent, present: Present) -> str | None:
    """Judge a command before it runs, and remember how the checkouts look; returns why it is refused, if it is."""
    now = services.now()
    holder = await services.write(present)
    danger = shell.danger(event.command)
    if danger is not None and services.settings().locks.enforcement == "enforce":
        verdict = await _refusal(services, event, holder, danger)
        if verdict.denial is not None:
            return verdict.denial
    if not shell.is_read_only(event.command):
        call = ShellCall(began=now)
        call.before = await services.work(
            lambda: {str(top): status.look(open_checkout(top)) for top in _checkouts(services, event)}
        )
        services.witness.shell_began(event.actor, event.use_id, call)
    return None


async def _refusal(services: Services, event: HookEvent, holder: Holder, danger: shell.Danger) -> Verdict:
    cwd = Path(event.cwd or services.project.root)
    checkout = find_checkout(shell.target_directory(event.command, cwd))
    if checkout is None or checkout.common_dir != services.project.common_dir:
        return Verdict()
    top, now = str(checkout.top), services.now()
    mine = [holder.session_id, *holder.kin]
    others = await services.read(lambda conn: lock_rows.others_in_checkout(conn, top, mine, iso(now)))
    if not others:
        return Verdict()
    saved = await services.work(
        lambda: salvage.snapshot(
            open_checkout(checkout.top), checkout.top.name, now, reason=f"before {danger.kind}", always=True
        )
    )
    ref = saved.ref if saved else None
    return await services.write(lambda conn: edits.refuse_danger(conn, holder, danger, top, ref, now))


async def after(services: Services, event: HookEvent, policy: Policy) -> list[str]:
    """Find what a command wrote, attribute it, and tell everyone concerned; returns what its session is told."""
    call = services.witness.shell_ended(event.actor, event.use_id)
    if call is None or not call.before:
        return []
    own = find_checkout(Path(event.cwd)) if event.cwd else None
    changed, committed = await services.work(lambda: _traces(call, event, own))
    if not changed:
        return []
    now = services.now()
    foreign = {top: paths for top, paths in changed.items() if own is not None and top != str(own.top)}
    saved = await services.work(lambda: _save(foreign, event, now))

    def attribute(conn: Connection) -> list[str]:
        row = session_rows.get(conn, event.actor)
        if row is None:
            return []
        if committed:
            events.record(conn, now, COMMITTED, session_id=event.actor, data=committed)
        kin = (event.parent,) if event.parent else ()
        holder = Holder(session_id=event.actor, task_id=row["task_id"], kin=kin)
        remarks: list[str] = []
        for top, paths in changed.items():
            keys = [literal_key(path, fold=services.fold) for path in paths[:500]]
            by = services.witness.edited_since(top, call.began)
            remarks += edits.after_shell(conn, holder, row["agent_name"], top, keys, by, policy, now)
        for top, ref in saved.items():
            remarks.append(
                f"Your shell command changed {len(foreign[top])} file(s) in another checkout ({top}); their state was saved "
                f"as {ref}. Work only in your own checkout; nothing there will land with your branch."
            )
        return remarks

    return await services.write(attribute)


def _traces(call: ShellCall, event: HookEvent, own: Checkout | None) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """The paths that differ in each checkout; and the commits that the session made in its own, where its command ran git."""
    looks = {top: status.look(open_checkout(Path(top))) for top in call.before if Path(top).is_dir()}
    found = {top: status.differences(call.before[top], seen) for top, seen in looks.items()}
    seen = looks.get(str(own.top)) if own is not None and "git" in event.command else None
    commits: list[history.Commit] = []
    if own is not None and seen is not None and seen.head not in (None, call.before[str(own.top)].head):
        began = call.began.replace(microsecond=0)  # what was merged or checked out is older
        news = history.between(seen.checkout, call.before[str(own.top)].head, str(seen.head))
        commits = [commit for commit in news if commit.at >= began]
    branch = (seen.checkout.branch() or "").removeprefix("refs/heads/") if commits and seen is not None else ""
    told = [{"sha": commit.sha, "subject": commit.subject[:200]} for commit in commits]
    changed = {top: paths for top, paths in found.items() if paths}
    return changed, {"branch": branch or None, "commits": told} if told else {}


def _save(foreign: dict[str, list[str]], event: HookEvent, now: datetime) -> dict[str, str]:
    saved = {}
    for top in foreign:
        kept = salvage.snapshot(
            open_checkout(Path(top)),
            Path(top).name,
            now,
            reason=f"written from elsewhere by {event.actor}",
            always=True,
        )
        if kept is not None:
            saved[top] = kept.ref
    return saved
