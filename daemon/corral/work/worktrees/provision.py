"""Making a fresh worktree usable: what git does not carry is cloned, linked or copied, and the environment is set.

A function of the file system: safe to run twice, and after a kill in the middle. Every folder is built aside, inside the
worktree, and renamed in, so what stands at its place is whole. Nothing of it can be committed: each provisioned folder
holds a ``.gitignore`` of its own, and what git's other rules do not cover is named in :attr:`Provisioned.exclude`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from corral.core.errors import ConfigInvalid, CorralError, SetupFailed
from corral.core.sealing import seal_where_possible
from corral.runners.process import end, ends_early, open_private, script, spawn
from corral.runners.tags import PROJECT_MARK, TASK_MARK, VERIFICATION_MARK, WORKTREE_MARK
from corral.work.worktrees import folders
from corral.work.worktrees.folders import find_folders, walk_files, what_is_installed
from corral.work.worktrees.recipes import Folder, Recipe, matching

if TYPE_CHECKING:
    from corral.config.model import Settings

INCLUDE_FILE = ".worktreeinclude"
MARKER = ".gitignore"
MARKER_TEXT = "# Provisioned by Corral for this worktree alone; never to be committed.\n*\n"
"""The beginning of the marker of a provisioned folder; then, in a comment, what its source and itself held at the time."""
RECIPES_OWN_SETUP = "recipe"
"""The entry of ``worktrees.setup`` that allows the recipes' own commands."""

OWN_SETTINGS = ".claude/settings.local.json"
"""A person's own settings of their client, which git ignores: `corral init` writes the hook that guards edits there."""
_GUARD, _HERE = "corral hook PreToolUse --from-shell", '"${CLAUDE_PROJECT_DIR:-.}"'
"""What is in that hook's command; and how it names the main checkout, where it stands in that."""

_ASIDE = ".corral-provisioning"
_STOP_GRACE_S = 5.0
_SLICE_S = 0.1

IsIgnored = Callable[[list[str]], set[str]]


@dataclass
class Provisioned:
    """The result of provisioning a worktree, and the variables for a process in it.

    Attributes:
        env: Variables for every process in the worktree.
        path_prefixes: Folders to put in front of ``PATH``, in this order.
        owned: Repository-relative paths of the folders, and of Corral's own file, that were brought, now or earlier.
        copied: Those of the files that were copied now as ``.worktreeinclude`` says.
        exclude: Repository-relative paths that were provisioned and that git's rules do not ignore: never commit them.
        notes: One line for a person about each thing that was done or left.
        setup: Commands to run in the worktree with :func:`run_setup` before its first use.
        disk_bytes: The size of the copies on disk; clones that share blocks, and links, count nothing.
    """

    env: dict[str, str]
    path_prefixes: list[str] = field(default_factory=list)
    owned: list[str] = field(default_factory=list)
    copied: list[str] = field(default_factory=list)
    exclude: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    setup: list[str] = field(default_factory=list)
    disk_bytes: int = 0


@dataclass(frozen=True)
class Progress:
    """The inputs of one run, and its results so far (``provided``).

    Attributes:
        cow: Whether files can be copied by sharing their blocks.
        dependency_folders: Names of folders that are not entered: what recipes bring as a whole.
    """

    main: Path
    worktree: Path
    aside: Path
    cow: bool
    dependency_folders: frozenset[str]
    provided: Provisioned


def provision(
    main: Path,
    worktree: Path,
    *,
    recipes: list[Recipe],
    settings: Settings,
    port_base: int | None,
    is_ignored: IsIgnored,
) -> Provisioned:
    """Make ``worktree`` usable from what ``main`` has.

    Args:
        main: The main checkout's top folder; only read.
        worktree: The worktree's top folder, checked out.
        recipes: All recipes there are; those that apply are chosen.
        settings: The settings in force (``worktrees``).
        port_base: First port of the worktree's own block; None when it has none.
        is_ignored: Which of some repository-relative paths git ignores in the worktree; a tracked path never is.

    Raises:
        ConfigInvalid: ``worktrees.recipes`` names a recipe that does not exist.
        CorralError: The file system refused (full, not readable); nothing half-made stays.
    """
    main, worktree = main.resolve(), worktree.resolve()
    matching_recipes = matching(allowed(recipes, settings.worktrees.recipes), worktree)
    values, own = variables(main.name, worktree, worktree.name, port_base, settings.worktrees.ports_each)
    provided = Provisioned(own)
    own_setup: list[str] = []
    dependency_folders = frozenset(
        PurePosixPath(folder.path).name for recipe in matching_recipes for folder in recipe.folders
    )
    try:
        with built_aside(worktree) as aside:
            progress = Progress(main, worktree, aside, cow_works(main, aside), dependency_folders, provided)
            for recipe in matching_recipes:
                present = _bring_all(recipe, progress)
                describe(recipe, present, progress, values)
                if recipe.setup and not present:
                    own_setup.append(recipe.setup)
            listing = main / INCLUDE_FILE
            include(progress, listing.read_text(encoding="utf-8") if listing.is_file() else "", is_ignored)
            ignored = is_ignored([*provided.owned, OWN_SETTINGS])
            guard(progress, may_write=OWN_SETTINGS in ignored)
    except OSError as refused:
        raise CorralError(
            f"The worktree {worktree.name} could not be made usable: {refused}",
            cause="The disk is full, or a file of the main checkout cannot be read.",
            remedy="Correct that and try again; nothing half-made was left.",
        ) from refused
    provided.exclude = [path for path in provided.owned if path not in ignored]
    provided.setup, hints = _setup(own_setup, settings.worktrees.setup)
    provided.notes += hints
    return provided


def variables(main: str, worktree: Path, name: str, port_base: int | None, each: int) -> tuple[dict[str, str], ...]:
    """Values of the placeholders, and the variables that every worktree has."""
    values = {"worktree": str(worktree), "name": _slug(main, name), "port": "", "ports": ""}
    if port_base is None or each == 0:
        return values, {}
    ports = [str(port) for port in range(port_base, port_base + each)]
    values |= {"port": ports[0], "ports": " ".join(ports)}
    return values, {"CORRAL_PORT_BASE": values["port"], "CORRAL_PORTS": values["ports"], "PORT": values["port"]}


def describe(
    recipe: Recipe, present: Sequence[tuple[Folder, str]], progress: Progress, values: Mapping[str, str]
) -> None:
    """Add the variables of a recipe, and of its folders that the worktree has."""
    for folder, path in present:
        filled = {**values, "folder": str(progress.worktree / path)}
        progress.provided.path_prefixes += [prefix.format(**filled) for prefix in folder.path_prefixes]
        say(progress.provided.env, folder.env, filled)
    say(progress.provided.env, recipe.env, values)


def say(env: dict[str, str], templates: Mapping[str, str], values: Mapping[str, str]) -> None:
    """Add variables; the first value of a name stays, so that ``.venv`` goes before ``venv``."""
    for name, template in templates.items():
        env.setdefault(name, template.format(**values))


def allowed(recipes: list[Recipe], names: Sequence[str] | None) -> list[Recipe]:
    """The recipes that ``worktrees.recipes`` lets apply.

    Raises:
        ConfigInvalid: It names one that does not exist.
    """
    if names is None:
        return recipes
    unknown = sorted(set(names) - {recipe.name for recipe in recipes})
    if unknown:
        known = ", ".join(recipe.name for recipe in recipes)
        raise ConfigInvalid(
            f"worktrees.recipes names {unknown[0]!r}, and there is no such recipe.",
            remedy=f"Name some of: {known}.",
            details={"errors": [{"field": "worktrees.recipes", "reason": f"no recipe {name!r}"} for name in unknown]},
        )
    return [recipe for recipe in recipes if recipe.name in names]


def _slug(main: str, name: str) -> str:
    """A name for what a worktree owns outside; valid as a Compose project, a database, a host. ``:`` and ``@`` are two dashes."""
    stem, _, number = name.replace("@", ":").partition(":")
    slug = re.sub(r"[^a-z0-9]+", "-", f"{main}-{stem}".lower()).strip("-") or "worktree"
    return f"{slug}--{number}" if number else slug


@contextmanager
def built_aside(worktree: Path) -> Iterator[Path]:
    """A folder inside the worktree, so that a rename leads out of it, that git ignores; a killed run's goes first."""
    aside = worktree / _ASIDE
    if os.path.lexists(aside):
        shutil.rmtree(aside)
    aside.mkdir(mode=0o700)
    try:
        (aside / MARKER).write_text(MARKER_TEXT)
        yield aside
    finally:
        shutil.rmtree(aside)


def cow_works(main: Path, aside: Path) -> bool:
    """Whether files of the main checkout can be copied by sharing their blocks."""
    probe = aside / "probe"
    probe.write_bytes(b"\0" * 4096)
    return main.stat().st_dev == aside.stat().st_dev and folders.share_blocks(probe, aside / "shared")


def _bring_all(recipe: Recipe, progress: Progress) -> list[tuple[Folder, str]]:
    """Bring every folder of a recipe; returns those that the worktree now has, old and new."""
    present = []
    for folder in recipe.folders:
        if folder.mode == "skip":
            continue
        paths = find_folders(progress.main, folder.path, progress.dependency_folders)
        for path in paths:
            _bring(folder, path, progress)
        own = [] if "*" in folder.path else [folder.path]
        present += [(folder, path) for path in dict.fromkeys(paths + own) if (progress.worktree / path).is_dir()]
    return present


def _bring(folder: Folder, path: str, progress: Progress) -> None:
    source, place = progress.main / path, progress.worktree / path
    if os.path.lexists(place) and not _is_outdated(folder, path, progress):
        return
    if "*" in folder.path and not place.parent.is_dir():
        return  # The package that it belongs to is not on this branch.
    if folder.mode == "clone" and folder.without_cow == "skip" and not progress.cow:
        progress.provided.notes.append(
            f"{path}: left out, the file system has no copy-on-write and a full copy is not worth it"
        )
        return
    if not way_is_open(path, progress):
        return
    built = progress.aside / "built"
    installed = what_is_installed(
        source, folder.watch
    )  # before it is read, so that a change meanwhile counts next time
    if folder.mode == "link":
        taken = folders.link(source, built, folder, _leading(source.name, progress), cow=progress.cow)
    else:
        taken = folders.clone(source, built, place, cow=progress.cow)
    if folder.relocate:
        folders.relocate(built, place, source, progress.main, progress.worktree)
    marker = built / MARKER
    marker.unlink(missing_ok=True)
    marker.write_text(f"{MARKER_TEXT}# {installed} {what_is_installed(built, folder.watch)}\n")
    if place.exists():
        place.rename(progress.aside / f"old-{len(progress.provided.owned)}")
    how = "linked" if folder.mode == "link" else "cloned" if progress.cow else "copied"
    _put(built, path, how, taken, progress)
    progress.provided.owned.append(path)


def _is_outdated(folder: Folder, path: str, progress: Progress) -> bool:
    """Whether what stands in the worktree was taken over, is as it was then, and differs from what there is to take now."""
    place = progress.worktree / path
    text = (place / MARKER).read_text(errors="replace") if (place / MARKER).is_file() else ""
    if not text.startswith(MARKER_TEXT):
        return False
    then = text.removeprefix(MARKER_TEXT).removeprefix("# ").split()
    if then[:1] != [what_is_installed(progress.main / path, folder.watch)]:
        if then[1:] == [what_is_installed(place, folder.watch)]:
            return True
        progress.provided.notes.append(
            f"{path}: stays, though the main checkout's has changed: this worktree has changed its own"
        )
    progress.provided.owned.append(path)
    return False


def _leading(name: str, progress: Progress) -> Callable[[Path], Path]:
    """Where links lead: to the worktree's own copy of a package of this repository, to the main checkout's of any other."""

    def lead(child: Path) -> Path:
        real = Path(os.path.realpath(child))
        if not real.is_relative_to(progress.main):
            return child
        path = real.relative_to(progress.main)
        own = progress.worktree / path
        return own if name not in path.parts and own.exists() else child

    return lead


def way_is_open(path: str, progress: Progress) -> bool:
    """Whether the parents of ``path`` are real folders where the worktree has them: a symlink could lead anywhere."""
    parent = progress.worktree
    for part in PurePosixPath(path).parts[:-1]:
        parent /= part
        if parent.is_symlink() or (parent.exists() and not parent.is_dir()):
            progress.provided.notes.append(
                f"{path}: left out, {parent.relative_to(progress.worktree)} is no real folder here"
            )
            return False
    return True


def _put(built: Path, path: str, note: str, taken: int, progress: Progress) -> None:
    place = progress.worktree / path
    place.parent.mkdir(parents=True, exist_ok=True)
    built.rename(place)
    progress.provided.notes.append(f"{path}: {note}, {taken} bytes on disk")
    progress.provided.disk_bytes += taken


def include(progress: Progress, patterns: str, is_ignored: IsIgnored) -> None:
    """Copy files of the main checkout that match, that git ignores in the worktree, and that the worktree does not have.

    Args:
        patterns: The text of a ``.worktreeinclude``.
    """
    if not patterns.strip():
        return
    from pathspec import GitIgnoreSpec  # few setups have such a list

    spec = GitIgnoreSpec.from_lines(patterns.splitlines())
    paths = [
        path
        for path in walk_files(progress.main, progress.dependency_folders)
        if spec.match_file(path) and not os.path.lexists(progress.worktree / path) and way_is_open(path, progress)
    ]
    for path in sorted(is_ignored(paths)) if paths else []:
        if (progress.main / path).is_symlink():
            progress.provided.notes.append(f"{path}: left out, {INCLUDE_FILE} copies files, and this is a symlink")
            continue
        built = progress.aside / "built"
        taken = folders.copy_file(progress.main / path, built, cow=progress.cow)
        _put(built, path, f"copied as {INCLUDE_FILE} says", taken, progress)
        progress.provided.copied.append(path)


def guard(progress: Progress, *, may_write: bool) -> None:
    """Guard edits in the worktree as in the main checkout: write the hook that `corral init` wrote there, and nothing else of it.

    A file that stands there stays.

    Args:
        may_write: Whether git ignores it: none is written that git would see.
    """
    try:
        groups = json.loads((progress.main / OWN_SETTINGS).read_bytes())["hooks"]["PreToolUse"]
        texts = [text for group in groups if _GUARD in (text := json.dumps(group))]
    except (OSError, ValueError, KeyError, TypeError):
        return
    here = json.dumps(_HERE)[1:-1]
    ours = [json.loads(text.replace(here, json.dumps(shlex.quote(str(progress.main)))[1:-1])) for text in texts]
    content = json.dumps({"hooks": {"PreToolUse": ours}}, indent=2) + "\n"
    place = progress.worktree / OWN_SETTINGS
    if os.path.lexists(place):
        if not place.is_symlink() and place.is_file() and place.read_bytes() == content.encode():
            progress.provided.owned.append(OWN_SETTINGS)
    elif ours and may_write and way_is_open(OWN_SETTINGS, progress):
        built = progress.aside / "built"
        built.write_text(content)
        _put(built, OWN_SETTINGS, "the guard of edits, as in the main checkout", len(content), progress)
        progress.provided.owned.append(OWN_SETTINGS)


def _setup(own: list[str], configured: Sequence[str]) -> tuple[list[str], list[str]]:
    """The commands to run, and a line about each recipe's command that nobody has allowed."""
    commands: list[str] = []
    for command in configured:
        commands += own if command == RECIPES_OWN_SETUP else [command]
    if configured:
        return commands, []
    hint = f"no dependencies to take over; worktrees.setup: [{RECIPES_OWN_SETUP}] would run:"
    return [], [f"{hint} {command}" for command in own]


def run_setup(
    worktree: Path,
    commands: Sequence[str],
    env: Mapping[str, str],
    log: Path,
    timeout_s: float,
    is_unwanted: Callable[[], bool],
) -> None:
    """Run setup commands in a worktree, one after the other, until one fails.

    Args:
        worktree: Where they run.
        commands: Shell text of the user's own configuration, or of a recipe it allowed.
        env: The whole environment.
        log: In a folder of the logs' folder. Gets the commands and what they print; appended to.
        timeout_s: Seconds each command may take; then all its processes are ended.
        is_unwanted: Asked again and again; once it says so, the command is ended like one that took too long.

    Raises:
        SetupFailed: A command failed or was ended; ``details['exit_code']``, negative for a signal, is None if it was ended.
        RunnerUnavailable: The shell could not be started, e.g. because the worktree is gone.
        OSError: The log cannot be written.
    """
    for command in commands:
        _note(log, f"$ {command}\n")
        process = spawn(["/bin/sh", "-c", script(command)], cwd=worktree, env=env, log=log)
        try:
            exit_code = _exit_code(process, timeout_s, is_unwanted)
        finally:
            # A setup leaves files, not processes.
            marks = {name: env.get(name, "") for name in (PROJECT_MARK, WORKTREE_MARK)}
            marks |= {name: env[name] for name in (TASK_MARK, VERIFICATION_MARK) if name in env}
            end(process, marks, grace_s=_STOP_GRACE_S)
            seal_where_possible(log.parent.parent, log.parent, log.name)
        if exit_code is None:
            _note(log, "\nended: no longer wanted\n" if is_unwanted() else f"\nended: not done after {timeout_s:g} s\n")
        if exit_code != 0:
            raise SetupFailed(
                f"The setup of the worktree failed: {command}",
                cause="It was ended before it was done."
                if exit_code is None
                else f"It ended with {exit_code}. {ends_early(command)}".rstrip(),
                remedy=f"Read {log}.",
                details={"exit_code": exit_code},
            )


def _exit_code(process: subprocess.Popen[bytes], timeout_s: float, is_unwanted: Callable[[], bool]) -> int | None:
    """Wait for a process in short slices; None if its time is over or nobody wants it any more."""
    for _ in range(max(1, round(timeout_s / _SLICE_S))):
        with suppress(subprocess.TimeoutExpired):
            return process.wait(_SLICE_S)
        if is_unwanted():
            break
    return None


def _note(log: Path, text: str) -> None:
    with os.fdopen(open_private(log, os.O_WRONLY | os.O_APPEND), "ab") as output:
        output.write(text.encode(errors="replace"))
