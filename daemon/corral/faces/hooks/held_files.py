"""Copies of locked files with uncommitted content, made before another session's shell command may overwrite them.

A copy that nobody turned out to need is dropped when a newer one has taken its place, so there is one for each checkout, and one
for each time that a command really touched what others held.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from sqlalchemy import Connection

from corral.coordination.edits.attribution import Changed, Look, ShellCall
from corral.coordination.locks.keys import ancestors, keys_overlap, literal_key, stored_key
from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.locks.table import Holder
from corral.coordination.services import Services
from corral.core.errors import CorralError
from corral.core.instants import iso
from corral.core.logs import logger
from corral.git import refs
from corral.git.checkouts import salvage
from corral.git.checkouts.salvage import Kept
from corral.git.checkouts.status import Seen
from corral.git.process.command import open_checkout
from corral.store.rows.sessions import HeldLock

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
    return await services.work(lambda: _save(services, held, looks))


def _save(services: Services, held: Mapping[str, list[HeldLock]], looks: Mapping[str, Look]) -> dict[str, Kept]:
    saved = {}
    for top, rows in held.items():
        seen = looks[top].seen
        paths = _held_paths(services, seen, rows)
        if not paths:
            continue
        state = {path: seen.files[path] for path in paths}
        last = services.runtime.kept(top)
        if last is not None and state.items() <= last[1].items():
            saved[top] = last[0]
            continue
        try:
            name = f"{Path(top).name[:50]}-held"
            copies = salvage.keep(
                open_checkout(Path(top)), name, services.now(), paths, reason="before a shell command"
            )
        except (CorralError, OSError) as error:  # a failed copy never stops the command
            log.warning("held_files_not_saved", checkout=top, error=str(error))
            continue
        if copies is not None:
            if len(copies.files) < len(paths):
                log.warning("held_files_left_out", checkout=top, paths=sorted(set(paths) - copies.files)[:20])
            saved[top] = copies
            services.runtime.keep(top, copies, state)
            if last is not None and last[0] != copies:
                _drop(services, top, last[0])
    return saved


def _held_paths(services: Services, seen: Seen, rows: list[HeldLock]) -> list[str]:
    """The existing files that differ from HEAD and are locked."""
    plain = {row["match_key"] for row in rows if not row["is_pattern"]}
    globs = [stored_key(row) for row in rows if row["is_pattern"]]
    held = []
    for path in (path for path, signature in seen.files.items() if signature is not None):
        key = literal_key(path, fold=services.fold)
        folders = ancestors(key.match_key)
        if key.match_key in plain or not plain.isdisjoint(folders) or any(keys_overlap(key, glob) for glob in globs):
            held.append(path)
    return held


async def release(services: Services, call: ShellCall, changed: Mapping[str, Changed] | None = None) -> None:
    """End a command: keep the copies of files that it may have changed; drop the others where newer copies exist."""
    for top, copies in call.saved.items():
        if not copies.files.isdisjoint((changed or {}).get(top, Changed()).paths):
            services.runtime.need(copies.ref)
        elif (last := services.runtime.kept(top)) is not None and last[0] != copies:
            await services.work(partial(_drop, services, top, copies))


def _drop(services: Services, top: str, copies: Kept) -> None:
    """Delete copies that nobody needs: no command changed these files, no running one may, and all of them exist."""
    used = any(call.saved.get(top) == copies for call in services.runtime.shell_calls() if call.ended is None)
    if used or services.runtime.is_needed(copies.ref):
        return
    if not all(os.path.lexists(Path(top) / path) for path in copies.files):
        return
    try:
        refs.delete(services.git, copies.ref, copies.sha)
    except CorralError as error:
        log.warning("held_files_not_dropped", ref=copies.ref, error=str(error))
