"""A verification worktree, and everything that it is given beside its commit; safe to repeat, and after a kill anywhere."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from corral.config.links import CACHE, make_own_folder
from corral.config.paths import Project
from corral.config.trust import SETUP, refuse
from corral.core.errors import CorralError, SetupFailed
from corral.core.inputs import CACHED, COPIED, INSTALLED, Prepared
from corral.git.checkouts.ignored import ignored
from corral.git.process.command import Git
from corral.runners.environment import verification_environment
from corral.runners.tags import PROJECT_MARK, WORKTREE_MARK
from corral.work.worktrees import folders, residue
from corral.work.worktrees.allocation import SETUP_TIMEOUT_S, WorktreeContext
from corral.work.worktrees.folders import find_folders, remove
from corral.work.worktrees.provision import (
    INCLUDE_FILE,
    MARKER,
    MARKER_TEXT,
    RECIPES_OWN_SETUP,
    Progress,
    Provisioned,
    allowed,
    built_aside,
    cow_works,
    describe,
    include,
    run_setup,
    variables,
    way_is_open,
)
from corral.work.worktrees.recipes import Folder, Recipe
from corral.work.worktrees.trial.mirror import (
    Known,
    as_written,
    content_of,
    is_racy,
    look_again,
    mirror,
    swapped,
)

_RECORD = "corral-dependencies.json"
"""In the worktree's git directory: by folder, what is known of its files. Not there while they are being changed."""

_NO_NETWORK = (
    *("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ETIMEDOUT", "ENETUNREACH", "EHOSTUNREACH", "ENOTCACHED"),
    *("getaddrinfo", "Temporary failure in name resolution", "Name or service not known", "Could not resolve host"),
    *("Network is unreachable", "No route to host", "Connection refused", "Connection timed out"),
    *("Failed to establish a new connection", "nodename nor servname provided", "Failed to open TCP connection"),
)
"""What package managers print when they reach nobody. Any other failure of theirs is the candidate's, as in a fresh clone."""
_TAIL_BYTES = 256 * 1024


@dataclass(frozen=True)
class Place:
    """The verification worktree.

    Attributes:
        name: The name of its log and of what it owns outside of itself.
        port_base: First port of its own block; None when it has none.
        mark: In the environment of the setup commands, so that those of a dead daemon are found and ended.
        prove: Gives the checkout if the folder is Corral's own; asked before anything is written there.
    """

    path: Path
    name: str
    port_base: int | None
    mark: Mapping[str, str]
    prove: Callable[[], Git]


def prepare(context: WorktreeContext, place: Place, tip_sha: str) -> Prepared:
    """Give a verification worktree its dependencies, the files that ``.worktreeinclude`` names, and its ports.

    Args:
        tip_sha: The target's tip, whose ``.worktreeinclude`` counts: never the candidate's.

    Raises:
        PathReplaced: The folder is not Corral's any more.
        NotTrusted: The user has not approved the setup commands.
        CorralError: The file system or git refused, or a setup command failed or was ended; its log is named.
    """
    refuse(context.untrusted(), SETUP)
    try:
        return _Preparation(context, place, tip_sha).run()
    except PermissionError:
        raise
    except OSError as refused:
        raise CorralError(
            f"The verification worktree could not be made usable: {refused}",
            cause="The disk is full, or a file of the main checkout cannot be read.",
            remedy="Correct that; it is tried again.",
        ) from refused


@dataclass
class _Account:
    """What is known so far: for the receipt, and for the next run."""

    dependencies: list[dict[str, Any]] = field(default_factory=list)
    known: dict[str, Known] = field(default_factory=dict)


class _Preparation:
    def __init__(self, context: WorktreeContext, place: Place, tip_sha: str) -> None:
        self._context = context
        self._place = place
        self._tip = tip_sha
        self._settings = context.settings()
        self._main, self._worktree = context.project.root.resolve(), place.path.resolve()
        self._checkout = place.prove()
        recipes = allowed(context.recipes, self._settings.worktrees.recipes)
        self._recipes = [recipe for recipe in recipes if tracked(self._checkout, recipe.detect)]
        path = verification_environment(os.environ, {}, self._main).get("PATH", os.defpath)
        self._keys = {recipe.name: key(self._checkout, self._worktree, recipe, path) for recipe in self._recipes}
        self._left = frozenset(Path(folder.path).name for recipe in self._recipes for folder in recipe.folders)
        self._account = _Account()
        self._before: dict[str, Known] = {}
        self._made = Provisioned({})
        self._cow = False

    def run(self) -> Prepared:
        setup = self._settings.worktrees.setup
        with self._recorded():
            made_by_setup = json.dumps([list(setup), named(self._checkout, setup), self._keys])
            # Beside what a command makes anew, nothing of its earlier results stays.
            made_by = made_by_setup if all(map(self._is_at_hand, self._recipes)) else None
            residue.remove(self._checkout, self._worktree, made_by, self._before)
            self._place.prove()
            with built_aside(self._worktree) as aside:
                self._cow = cow_works(self._main, aside)
                to_install = [recipe for recipe in self._recipes if not self._bring(recipe)]
                for path in set(self._before) - set(self._account.known):
                    if self._is_way_open(path):
                        remove(self._worktree / path)
                include(self._progress(aside), self._patterns(), lambda paths: ignored(self._checkout, paths))
            copied = list(self._made.copied)
            for command in setup:
                if command != RECIPES_OWN_SETUP:
                    self._command(command)
                    continue
                for recipe in to_install:
                    self._install(recipe)
            residue.remember(self._place.prove(), self._worktree, made_by_setup, self._made_dependencies())
        included = [{"path": path, "sha256": content_of(self._worktree / path)} for path in copied]
        inputs = {"dependencies": self._account.dependencies, "included": included, "notes": self._made.notes}
        return Prepared(self._environment(), {name: value for name, value in inputs.items() if value})

    # -- dependency folders

    def _bring(self, recipe: Recipe) -> bool:
        """Bring a recipe's folders from the cache or the person's checkout; False: its own command is to make them."""
        if self._may_run(recipe):
            entry = find(self._context.project, self._keys[recipe.name])
            return entry is not None and self._restore(recipe, entry)
        if not self._copy(recipe) and recipe.setup:
            hint = f"worktrees.setup: [{RECIPES_OWN_SETUP}] would run: {recipe.setup}"
            self._made.notes.append(f"{recipe.name}: no dependencies to copy; {hint}")
        return True

    def _may_run(self, recipe: Recipe) -> bool:
        """Whether the person has allowed the recipe's own command, which runs code from the network."""
        return recipe.setup is not None and RECIPES_OWN_SETUP in self._settings.worktrees.setup

    def _is_at_hand(self, recipe: Recipe) -> bool:
        return not self._may_run(recipe) or find(self._context.project, self._keys[recipe.name]) is not None

    def _restore(self, recipe: Recipe, entry: Entry) -> bool:
        if not all(map(self._is_way_open, entry.digests)):
            return False
        for path, digest in entry.digests.items():
            place = self._worktree / path
            mirrored = mirror(entry.folder(path), place, self._before.get(path, {}), keep=(MARKER,), cow=self._cow)
            if mirrored.digest != digest:  # somebody wrote into the cache
                forget(entry)
                return False
            self._keep_out_of_commits(place)
            self._account.known[path] = look_again(mirrored, place)
        for path, digest in entry.digests.items():
            self._note(recipe, path, CACHED, digest, key=self._keys[recipe.name])
        return True

    def _copy(self, recipe: Recipe, **why: Any) -> bool:
        """Copy what the person's checkout has; False: nothing."""
        copies = [(folder, path) for folder, path in self._paths_in(self._main, recipe) if self._can_take(folder, path)]
        differs = differing(self._checkout, self._worktree, self._main, recipe) if copies else []
        for folder, path in copies:
            digest = self._copy_folder(folder, path)
            self._note(recipe, path, COPIED, digest, **({"differs": differs} if differs else {}), **why)
        return bool(copies)

    def _copy_folder(self, folder: Folder, path: str) -> str:
        source, place = self._main / path, self._worktree / path
        mirrored = mirror(
            source,
            place,
            self._before.get(path, {}),
            lead=into(self._main, self._worktree),
            omit=lambda name: any(fnmatch(name, pattern) for pattern in folder.omit),
            keep=(MARKER,),
            cow=self._cow,
        )
        if folder.relocate:
            folders.relocate(place, place, source, self._main, self._worktree, only=set(mirrored.fresh))
        for link in leave_out(place, mirrored.links, self._main, self._worktree):
            self._made.notes.append(f"{path}/{link}: left out, it leads into the main checkout")
        self._keep_out_of_commits(place)
        self._account.known[path] = look_again(mirrored, place)
        return mirrored.digest

    def _can_take(self, folder: Folder, path: str) -> bool:
        if "*" in folder.path and not (self._worktree / path).parent.is_dir():
            return False  # the package that it belongs to is not in this commit
        return not self._is_tracked(path) and self._is_way_open(path)

    def _is_way_open(self, path: str) -> bool:
        return way_is_open(path, self._progress(self._worktree))

    def _is_tracked(self, path: str) -> bool:
        return bool(self._checkout.check("ls-files", "-z", "--", f":(literal){path}").names)

    def _paths_in(self, top: Path, recipe: Recipe) -> Iterator[tuple[Folder, str]]:
        for folder in recipe.folders:
            if folder.mode != "skip" and folder.holds == "dependencies":
                yield from ((folder, path) for path in find_folders(top, folder.path, self._left))

    def _made_dependencies(self) -> list[str]:
        """The dependency folders that no copy explains: the project's own setup commands have made them."""
        paths = {path for recipe in self._recipes for _, path in self._paths_in(self._worktree, recipe)}
        return [path for path in sorted(paths - set(self._account.known)) if not self._is_tracked(path)]

    def _keep_out_of_commits(self, place: Path) -> None:
        marker = place / MARKER
        if marker.is_symlink() or not marker.is_file() or marker.read_text(errors="replace") != MARKER_TEXT:
            remove(marker)
            marker.write_text(MARKER_TEXT)

    def _note(self, recipe: Recipe, path: str, source: str, digest: str | None, **more: Any) -> None:
        self._account.dependencies.append(
            {"path": path, "recipe": recipe.name, "from": source, "digest": digest, **more}
        )

    # -- commands

    def _install(self, recipe: Recipe) -> None:
        """Have the recipe's own command make its folders, and keep them for the next run with the same lock files."""
        assert recipe.setup is not None
        self._remove_own(recipe)
        before = set(residue.others(self._checkout, self._worktree))
        begun_at = self._log().stat().st_size if self._log().exists() else 0
        try:
            self._command(recipe.setup)
        except SetupFailed as failed:
            if not self._met_no_network(begun_at):
                raise
            self._remove_own(recipe)
            if not self._copy(recipe, because=f"{failed.message} It reached no network."):
                raise
            return
        own = [path for _, path in self._paths_in(self._worktree, recipe) if not self._is_tracked(path)]
        for path in own:
            self._keep_out_of_commits(self._worktree / path)
        made = residue.outside(set(residue.others(self._checkout, self._worktree)) - before, own)
        beside = ignored(self._checkout, map(str, made))
        why = f"it also makes {min(beside)}" if beside else copied_sources(self._checkout, self._worktree, own)
        if why:  # made of this commit's sources: another commit needs its own
            self._made.notes.append(f"{recipe.name}: installed for each run, since {why}")
            for path in own:
                self._note(recipe, path, INSTALLED, None)
            return
        key = self._keys[recipe.name]
        entry, known = store(self._context.project, key, self._worktree, own)
        self._account.known |= known
        for path, digest in entry.digests.items():
            self._note(recipe, path, INSTALLED, digest, key=key)

    def _remove_own(self, recipe: Recipe) -> None:
        for _, path in list(self._paths_in(self._worktree, recipe)):
            if not self._is_tracked(path):
                remove(self._worktree / path)

    def _command(self, command: str) -> None:
        self._place.prove()
        env = verification_environment(os.environ, {**self._environment(), **self._place.mark}, self._main)
        run_setup(self._worktree, [command], env, self._log(), SETUP_TIMEOUT_S, self._context.stopping.is_set)

    def _log(self) -> Path:
        project = self._context.project
        return make_own_folder(project.logs_dir / "worktrees", project.root) / f"{self._place.name}.log"

    def _met_no_network(self, begun_at: int) -> bool:
        with self._log().open("rb") as file:
            file.seek(max(begun_at, self._log().stat().st_size - _TAIL_BYTES))
            output = file.read().decode("utf-8", "replace")
        return any(word in output for word in _NO_NETWORK)

    def _environment(self) -> dict[str, str]:
        """Variables for every process in the worktree, by what it has now."""
        values, own = variables(
            self._main.name,
            self._worktree,
            self._place.name,
            self._place.port_base,
            self._settings.worktrees.ports_each,
        )
        provided = Provisioned(own)
        progress = Progress(self._main, self._worktree, self._worktree, self._cow, self._left, provided)
        for recipe in self._recipes:
            describe(recipe, list(self._paths_in(self._worktree, recipe)), progress, values)
        path = os.pathsep.join([*provided.path_prefixes, str(self._context.project.run_dir / "bin")])
        marks = {WORKTREE_MARK: str(self._worktree), PROJECT_MARK: self._context.project_id}
        return {**provided.env, "PATH": path, "CORRAL_PROJECT": str(self._context.project.root), **marks}

    # -- the rest

    def _progress(self, aside: Path) -> Progress:
        return Progress(self._main, self._worktree, aside, self._cow, self._left, self._made)

    def _patterns(self) -> str:
        blob = self._context.repo.run("cat-file", "blob", f"{self._tip}:{INCLUDE_FILE}")
        return blob.text if blob.ok else ""

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        """Take up what an earlier run has brought; stored anew when all of this one is there."""
        file = self._checkout.git_dir / _RECORD
        try:
            stored_at = file.stat().st_mtime_ns
            for path, known in json.loads(file.read_text()).items():
                proven = {
                    name: entry
                    for name, entry in known.items()
                    if not any(is_racy(look, stored_at) for look in entry[:2])
                }
                self._before[path] = proven
        except (FileNotFoundError, ValueError):
            self._before = {}
        file.unlink(missing_ok=True)
        yield
        file.write_text(json.dumps(self._account.known))


# -- Symlinks of a dependency folder that lead into the person's checkout: they lead into the worktree instead, or are
# left out


def into(main: Path, worktree: Path) -> Callable[[Path], str]:
    """Where the copy of a link is to lead, from the link in the main checkout.

    Args:
        main: The main checkout, resolved.
        worktree: The worktree, resolved.
    """

    def lead(link: Path) -> str:
        text = as_written(link)
        target = Path(os.path.normpath(link.parent / text))
        if target.is_relative_to(main):
            return text if not Path(text).is_absolute() else str(worktree / target.relative_to(main))
        real = Path(os.path.realpath(link))
        if real.is_relative_to(main):  # by another name of the checkout, or by a link elsewhere that leads back
            return str(worktree / real.relative_to(main))
        return str(target)

    return lead


def leave_out(place: Path, links: Sequence[str], main: Path, worktree: Path) -> list[str]:
    """Remove those links of a copied folder that lead into the main checkout all the same, and name them."""
    left_out = []
    for link in links:
        real = Path(os.path.realpath(place / link))
        if real.is_relative_to(main) and not real.is_relative_to(worktree):
            (place / link).unlink()
            left_out.append(link)
    return left_out


# -- What decides the content of dependency folders: the tracked files that a recipe calls ``locks``


def tracked(checkout: Git, globs: Sequence[str], *words: str) -> list[str]:
    """Files in the index that match one of some globs, as ``ls-files`` prints them; none without a glob.

    Raises:
        GitFailed: Git could not list them.
    """
    if not globs:
        return []
    return checkout.check("ls-files", "-z", *words, "--", *(f":(glob){glob}" for glob in globs)).names


def key(checkout: Git, worktree: Path, recipe: Recipe, path: str) -> str:
    """Names what the recipe's own command makes of a checkout: the same key, the same folders.

    Args:
        checkout: Its index holds the commit.
        worktree: Where it stands: folders may hold that path.
        path: The ``PATH`` on which the recipe's programs are found.

    Raises:
        GitFailed: Git could not list the files.
    """
    locks = tracked(checkout, recipe.locks, "-s")
    machine = [platform.system(), platform.machine(), *(_program(name, path) for name in recipe.programs)]
    text = json.dumps([recipe.model_dump(mode="json"), locks, machine, str(worktree)])
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def named(checkout: Git, commands: Sequence[str]) -> list[str]:
    """The files of the commit that commands name, scripts of the project mostly, with their content's ids.

    Raises:
        GitFailed: Git could not list them.
    """
    words = {os.path.normpath(word) for command in commands for word in re.split(r"[\s;|&()<>'\"=]+", command)}
    paths = {word for word in words if word != "." and not word.startswith(("/", ".."))}
    if not paths:
        return []
    listed = checkout.check("ls-files", "-s", "-z", "--", *(f":(literal){path}" for path in sorted(paths))).names
    return [line for line in listed if line.partition("\t")[2] in paths]


def copied_sources(checkout: Git, worktree: Path, own: Sequence[str]) -> str:
    """Why what was installed may hold copies of the commit's own files, which no lock file tells; empty: it does not.

    Pip says for each package where it came from (``direct_url.json``). Yarn and pnpm copy what ``file:`` names; npm links it.

    Raises:
        GitFailed: Git could not list the files.
        OSError: One could not be read.
    """
    for path in own:
        for file in sorted((worktree / path).glob("lib*/python*/site-packages/*.dist-info/direct_url.json")):
            origin = json.loads(file.read_text())
            if origin["url"].startswith("file:") and not origin.get("dir_info", {}).get("editable"):
                return f"{file.parent.name} was made of files of the commit"
    for path in tracked(checkout, ("**/yarn.lock", "**/pnpm-lock.yaml")):
        if b"file:" in (_bytes(worktree / path) or b""):
            return f"{path} names files of the commit"
    return ""


def differing(checkout: Git, worktree: Path, main: Path, recipe: Recipe) -> list[str]:
    """Those of the candidate's locks that are not, byte for byte, what the person's checkout has there.

    Raises:
        GitFailed: Git could not list the files.
        OSError: One could not be read.
    """
    return [path for path in tracked(checkout, recipe.locks) if _bytes(worktree / path) != _bytes(main / path)]


def _program(name: str, path: str) -> list[object]:
    program = shutil.which(name, path=path)
    if program is None:
        return [name]
    info = Path(program).stat()
    return [os.path.realpath(program), info.st_size, info.st_mtime_ns]


def _bytes(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


# -- Dependency folders as a recipe's own command made them, by the key of what decided them (`locks`).
#
# An entry is written aside and renamed in: it is whole or not there. An entry that has changed since it was
# written is removed.

MOST = 4
"""Entries that are kept; the one that was not used for longest goes first."""

_META = "folders.json"


@dataclass(frozen=True)
class Entry:
    """What is stored under a key.

    Attributes:
        digests: By the folder's path in the worktree, the digest of what it holds.
    """

    place: Path
    digests: dict[str, str]

    def folder(self, path: str) -> Path:
        """Where the copy of one of the folders is."""
        return self.place / str(list(self.digests).index(path))


def find(project: Project, key: str) -> Entry | None:
    """The entry of a key, which counts as used now; None: there is none."""
    place = _root(project) / key
    try:
        digests = json.loads((place / _META).read_text())
        os.utime(place)
    except (FileNotFoundError, ValueError):
        return None
    return Entry(place, digests)


def store(project: Project, key: str, worktree: Path, paths: Sequence[str]) -> tuple[Entry, dict[str, Known]]:
    """Copy folders of a worktree into the cache.

    Returns:
        The entry, and by path what is known of it and of the worktree's folder as its copy.

    Raises:
        OSError: The disk is full, say; nothing half-made counts.
    """
    root = make_own_folder(_root(project), project.root)
    aside = root / f"{key}.new"
    remove(aside)
    aside.mkdir(mode=0o700)
    mirrors = {
        path: mirror(worktree / path, aside / str(number), {}, keep=(MARKER,)) for number, path in enumerate(paths)
    }
    digests = {path: mirrored.digest for path, mirrored in mirrors.items()}
    (aside / _META).write_text(json.dumps(digests))
    place = root / key
    remove(place)
    aside.rename(place)
    newest_first = sorted(_entries(root), key=lambda folder: folder.stat().st_mtime_ns, reverse=True)
    for old in newest_first[MOST:]:
        if old != place:
            remove(old)
    entry = Entry(place, digests)
    return entry, {path: swapped(look_again(mirrored, entry.folder(path))) for path, mirrored in mirrors.items()}


def forget(entry: Entry) -> None:
    """Remove an entry.

    Raises:
        OSError: It could not be removed.
    """
    remove(entry.place)


def _root(project: Project) -> Path:
    return project.home / CACHE / "dependencies"


def _entries(root: Path) -> list[Path]:
    return [entry for entry in root.iterdir() if entry.is_dir() and not entry.is_symlink()]
