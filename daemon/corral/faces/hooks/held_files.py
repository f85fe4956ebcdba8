"""Copies of locked files with uncommitted content.

They are made before another session's shell command may overwrite them, also by what it leaves running in the background, and
after an edit of a file that another session wrote before: that one's client can put its own copy of the file back (``/rewind``).
No hook tells of either.

A copy that nobody turned out to need is dropped when a newer one has taken its place, so there is one for each checkout, and one
for each time that something really touched what others held.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from sqlalchemy import Connection

from corral.coordination.edits.attribution import Changed, Look, ShellCall
from corral.coordination.edits.runtime_state import HeldCopies
from corral.coordination.locks.keys import ancestors, keys_overlap, literal_key, stored_key
from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.locks.table import Holder
from corral.coordination.services import Services
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.errors import CorralError
from corral.core.events import EventKind
from corral.core.instants import iso
from corral.core.logs import logger
from corral.core.steps import Step
from corral.core.visible import embedded
from corral.git import refs
from corral.git.checkouts import salvage, status
from corral.git.checkouts.salvage import Kept
from corral.git.checkouts.status import Seen
from corral.git.process.command import open_checkout
from corral.store import events
from corral.store.rows.sessions import HeldLock

PAUSE_S = 1.0
"""Between two times that files are copied after edits, seconds: nobody waits for it."""
LOOK_AGAIN = timedelta(seconds=10)
"""Between two looks whether copied files changed."""
NAMED = 10
"""Files that one notice names."""

log = logger("held_files")


async def save(services: Services, holder: Holder, looks: Mapping[str, Look]) -> dict[str, Kept]:
    """Copy what others hold with uncommitted content in the checkouts, unless that was done already.

    Args:
        holder: The session whose command is about to run.
        looks: How the checkouts look, by path.
    """
    now = iso(services.now())

    def others(conn: Connection) -> dict[str, list[HeldLock]]:
        mine = list(holder.family)
        return {top: lock_rows.others_in_checkout(conn, top, mine, now) for top in looks if looks[top].seen.files}

    held = {top: rows for top, rows in (await services.store.read(others)).items() if rows}
    if not held:
        return {}
    saved = await services.work(lambda: _save(services, held, looks, "before a shell command"))
    services.nudge("held_files")  # what a command leaves in the background is compared with the copies too
    return saved


def _save(
    services: Services, held: Mapping[str, list[HeldLock]], looks: Mapping[str, Look], reason: str
) -> dict[str, Kept]:
    saved = {}
    for top, rows in held.items():
        seen = looks[top].seen
        paths = _held_paths(services, seen, rows)
        if not paths:
            continue
        state = {path: seen.files[path] for path in paths}
        _tell_of_silent_changes(services, top)  # before what they replaced is dropped
        last = services.runtime.kept().get(top)
        if last is not None and state.items() <= last.signatures.items():
            # An edit whose end was told only after the copy is in it too: what comes now is another change.
            services.runtime.keep(top, replace(last, at=looks[top].started))
            saved[top] = last.copies
            continue
        try:
            name = f"{Path(top).name[:50]}-held"
            copies = salvage.keep(open_checkout(Path(top)), name, services.now(), paths, reason=reason)
        except (CorralError, OSError) as error:  # a failed copy never stops the command
            log.warning("held_files_not_saved", checkout=top, error=str(error))
            continue
        if copies is not None:
            if len(copies.files) < len(paths):
                log.warning("held_files_left_out", checkout=top, paths=sorted(set(paths) - copies.files)[:20])
            saved[top] = copies
            services.runtime.keep(top, HeldCopies(copies, looks[top].started, state))
            if last is not None and any(status.signature(Path(top), path) != how for path, how in state.items()):
                services.runtime.need(
                    last.copies.ref
                )  # a file changed while it was copied: what was there may be in it alone
            if last is not None and last.copies.ref != copies.ref:
                _drop(services, top, last.copies)
    return saved


def _held_paths(services: Services, seen: Seen, rows: list[HeldLock]) -> list[str]:
    """The existing files that differ from HEAD and are locked."""
    return _matched(services, [path for path, signature in seen.files.items() if signature is not None], rows)


def _matched(services: Services, paths: Sequence[str], rows: list[HeldLock]) -> list[str]:
    """Those of the paths that one of the locks holds."""
    plain = {row["match_key"] for row in rows if not row["is_pattern"]}
    globs = [stored_key(row) for row in rows if row["is_pattern"]]
    held = []
    for path in paths:
        key = literal_key(path, fold=services.fold)
        folders = ancestors(key.match_key)
        if key.match_key in plain or not plain.isdisjoint(folders) or any(keys_overlap(key, glob) for glob in globs):
            held.append(path)
    return held


async def release(services: Services, call: ShellCall, changed: Mapping[str, Changed] | None = None) -> None:
    """End a command: keep the copies of files that it may have changed; drop the others where newer copies exist."""
    for top, change in (changed or {}).items():
        edited = services.runtime.edited_since(top, call.began)  # these are compared with their copies yet
        unedited = [path for path in change.paths if literal_key(path, fold=services.fold).match_key not in edited]
        services.runtime.told_of(top, unedited)
    call.is_told = True
    for top, copies in call.saved.items():
        if not copies.files.isdisjoint((changed or {}).get(top, Changed()).paths):
            services.runtime.need(copies.ref)
        elif (last := services.runtime.kept().get(top)) is not None and last.copies.ref != copies.ref:
            await services.work(partial(_drop, services, top, copies))


def _drop(services: Services, top: str, copies: Kept) -> None:
    """Delete copies that nobody needs: no command changed these files, no running one may, and all of them exist."""
    saved = [call.saved.get(top) for call in services.runtime.shell_calls() if call.ended is None]
    used = any(other.ref == copies.ref for other in saved if other is not None)
    if used or services.runtime.is_needed(copies.ref):
        return
    if not all(os.path.lexists(Path(top) / path) for path in copies.files):
        return
    try:
        refs.delete(services.git, copies.ref, copies.sha)
    except CorralError as error:
        log.warning("held_files_not_dropped", ref=copies.ref, error=str(error))


# -- What the client of another session may put back, which no hook tells of


class RewindWatch:
    """Step: copy what was written over another session's work, and tell the holder of a file that changed silently."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def step(self, now: datetime) -> datetime | None:
        """Copy what is due, and compare what was copied; returns when to compare again."""
        services = self._services
        for top, editors in services.runtime.take_edited_by_several().items():
            if Path(top).is_dir() and any(map(self._may_meet, editors)):
                self._copy(top, now)
        for top in services.runtime.kept():
            _tell_of_silent_changes(services, top)
        return now + LOOK_AGAIN if any(held.signatures for held in services.runtime.kept().values()) else None

    def _may_meet(self, editors: tuple[str, ...]) -> bool:
        """Whether another living session wrote the file than the last one and its family."""
        living = {row["session_id"]: row["parent_session_id"] for row in self._services.db.read(session_rows.live)}
        heads = [living[editor] or editor for editor in editors if editor in living]
        return any(head != heads[-1] for head in heads)

    def _copy(self, top: str, now: datetime) -> None:
        with self._services.db.reading() as conn:
            rows = lock_rows.others_in_checkout(conn, top, (), iso(now))
        try:
            look = Look(now, self._services.now(), status.look(open_checkout(Path(top))))
        except (CorralError, OSError) as error:
            log.warning("held_files_not_saved", checkout=top, error=str(error))
            return
        _save(self._services, {top: rows}, {top: look}, "after an edit of what another session wrote before")


def _tell_of_silent_changes(services: Services, top: str) -> None:
    """Tell the holders of copied files that changed although no session's event told of it, and keep their copies."""
    held = services.runtime.kept().get(top)
    if held is None:
        return
    living = {row["session_id"] for row in services.db.read(session_rows.live)}
    calls = (call for call in services.runtime.shell_calls() if call.ended is not None or call.actor in living)
    running = [call.before[top] for call in calls if top in call.before and not call.is_told]
    edited = services.runtime.edited_since(top, held.at)
    news = [
        path
        for path, before in held.signatures.items()
        if status.signature(Path(top), path) != before
        # Else a command that runs may have changed it, and its end tells.
        and all(look.started >= held.at and look.seen.files.get(path) != before for look in running)
    ]
    looks = {path: status.signature(Path(top), path) for path in news}
    announced = [path for path in news if literal_key(path, fold=services.fold).match_key in edited]
    try:
        changed = salvage.changed_since(open_checkout(Path(top)), held.copies, sorted({*news} - {*announced}))
    except (CorralError, OSError) as error:  # the checkout is gone: its copies stay, and no command waits for that
        services.runtime.need(held.copies.ref)
        services.runtime.told_of(top, news)
        log.warning("held_files_not_compared", checkout=top, error=str(error))
        return
    if changed:
        services.runtime.need(held.copies.ref)
        services.db.write(_tell, services, top, held.copies, changed, iso(services.now()))
        services.changes.announce()
    services.runtime.told_of(top, news)  # only now: where it could not be told, the next look tells
    same = held.copies.files & looks.keys() - {*announced, *changed}
    services.runtime.still(top, held.copies, {path: looks[path] for path in same})


def _tell(conn: Connection, services: Services, top: str, copies: Kept, changed: Sequence[str], at: str) -> None:
    """Notify each session of its files among those that changed silently, at once."""
    locks: dict[str, list[HeldLock]] = {}
    for row in lock_rows.others_in_checkout(conn, top, (), at):
        locks.setdefault(row["session_id"], []).append(row)
    notified: set[str] = set()
    for session_id, rows in locks.items():
        if paths := _matched(services, changed, rows):
            notified.update(paths)
            more = f" and {len(paths) - NAMED} more" if paths[NAMED:] else ""
            names = ", ".join(map(embedded, paths[:NAMED])) + more
            text = (
                f"{names}, which you hold, changed, and no tool call or command was seen to do it: a client went back to an "
                "earlier state (/rewind: another session's, or yours as your person wished), or it was a person or a program. "
                f"It was copied before: {restore_command(top, copies.ref, *paths[:NAMED])}"
            )
            session_rows.notify(conn, session_id, text, at)
    if notified:
        paths = sorted(notified)[:50]
        events.record(conn, at, EventKind.CHANGE_UNANNOUNCED({"paths": paths, "checkout": top}))


def restore_command(top: str, ref: str, *paths: str) -> str:
    """The command that brings copied files back."""
    specs = [
        f":(top,literal){path}" if path.startswith(":") or not set("*?[\\").isdisjoint(path) else path for path in paths
    ]
    return shlex.join(["git", "-C", top, "restore", f"--source={ref}", "--", *specs])


def job(services: Services) -> Step:
    """The job of this module."""
    services.runtime.on_several = lambda: services.jobs["held_files"].nudge()
    return Step("held_files", RewindWatch(services).step, pause_s=PAUSE_S)
