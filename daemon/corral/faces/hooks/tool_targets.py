"""The targets of a tool call: the file of an edit; the checkouts that a shell command runs in, or names."""

from __future__ import annotations

import os
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

from corral.client.elsewhere import words
from corral.config.paths import find_checkout
from corral.coordination.edits.verdicts import Target
from corral.coordination.locks.keys import literal_key, relative_target
from corral.coordination.services import Services
from corral.coordination.shell import danger
from corral.core.states import WorktreeState
from corral.faces.hooks.payloads import HookEvent
from corral.work.worktrees.worktrees import Worktrees

_WILD = frozenset("*?[")


def targets_of(services: Services, event: HookEvent) -> list[Target]:
    """The files of an edit, resolved through symlinks, without those that are not in this project; the written one first."""
    targets = (target_at(services, Path(event.cwd, path)) for path in (event.path, event.moved) if path)
    return [target for target in targets if target is not None]


def target_at(services: Services, path: Path) -> Target | None:
    """The same for an absolute path."""
    checkout = find_checkout(Path(os.path.realpath(path)).parent)
    known = services.project.known(checkout)
    relative = relative_target(path, checkout.top) if checkout is not None else None
    if known is None or relative is None:
        return None
    return Target(literal_key(relative, fold=services.fold), str(known.top))


def named_checkouts(services: Services, event: HookEvent) -> list[Path]:
    """The checkouts of the project that a shell command might write to, by their top folders; the session's own first.

    Another one is among them only if the text of the command names a path in it, perhaps with wildcards, or the folder that it is
    in: what is done to all worktrees by one loop names nothing else.
    """
    project, cwd = services.project, Path(event.cwd or services.project.root)
    target = danger.target_directory(event.command, cwd)
    tops: list[Path] = []
    for checkout in (project.known(find_checkout(cwd)), project.known(find_checkout(target))):
        if checkout is not None and checkout.top not in tops:
            tops.append(checkout.top)
    known = [*services.of(Worktrees).own_folders(WorktreeState.READY), *([] if project.bare else [project.root])]
    for top in _named(event.command, {cwd, target}, known):
        if top not in tops:
            tops.append(top)
    return tops


def _named(command: str, bases: Iterable[Path], known: list[Path]) -> list[Path]:
    """The known checkouts that contain a path of the command; of nested checkouts, the inner one."""
    tops = sorted(((Path(os.path.realpath(top)), top) for top in known), key=lambda pair: -len(pair[0].parts))
    named = [top for _, top in tops if " " in str(top) and str(top) in command]  # a name of several words
    for word in words(command):
        if "/" not in word and word != "..":
            continue
        for base in bases:
            path = _resolved(base, word)
            if path is not None:
                inner = next((top for real, top in tops if path.is_relative_to(real)), None)
                inside = [inner] if inner is not None else [top for real, top in tops if _stands_for(path, real)]
                named += [top for top in inside if top not in named]
    return named


def _stands_for(path: Path, top: Path) -> bool:
    """Whether a path is the folder that a checkout is in, or means the checkout among others by its wildcards."""
    if path == top.parent:
        return True
    parts = path.parts[: len(top.parts)]
    return len(parts) == len(top.parts) and not _WILD.isdisjoint(str(path)) and all(map(fnmatchcase, top.parts, parts))


def _resolved(base: Path, word: str) -> Path | None:
    try:
        return Path(os.path.realpath(base / Path(word).expanduser()))
    except (ValueError, RuntimeError):
        return None  # a NUL byte, or the home of nobody
