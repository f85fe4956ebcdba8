"""The folder of the worktrees: beside the repository, never in it. Standard library only.

Tools search upward from where they run (npm, pytest, TypeScript, Cargo, git itself), so a worktree inside a checkout would mix
its own files with a person's; and some tools refuse every path below a folder whose name begins with a dot. The folder is
``<repository>.worktrees`` beside the repository; if that cannot be used, or an upward search from there would find something,
``~/corral-worktrees/<name>-<project id>``. ``worktrees.root`` names another one.

A folder that Corral chose is marked with the project's id and with its own inode. It is used only if it is a real folder of this
user that nobody else can write to, and is so marked.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from corral.config import ownership
from corral.config.paths import Project, is_git_directory
from corral.core import files
from corral.core.errors import PathReplaced, Unsupported
from corral.core.identifiers import new_id

MARKER = "corral-worktrees.json"
"""A file in a folder that Corral chose: the project's id, and the folder's inode, which a copy does not have."""

MOST_CHOICES = 100
"""Maximum number of folders that Corral tries: a command may put something in the place of each, which must not stop others."""

UNKNOWN_ID = "PROJECT-ID"
AT_HOME = "corral-worktrees"
"""The folder in the user's home for repositories whose own side folder cannot be used."""

SEARCHED = (
    "package.json", "node_modules", "pnpm-workspace.yaml", ".npmrc", ".yarnrc.yml", ".pnp.cjs", "tsconfig.json",
    "jsconfig.json", "babel.config.js", "babel.config.json", ".babelrc", ".eslintrc", ".eslintrc.js", ".eslintrc.cjs",
    ".eslintrc.json", ".eslintrc.yml", "eslint.config.js", "eslint.config.mjs", "eslint.config.cjs", "jest.config.js",
    "deno.json", "nx.json", "pyproject.toml", "pytest.ini", "tox.ini", "setup.cfg", "setup.py", "conftest.py",
    "mypy.ini", "ruff.toml", "Cargo.toml", ".cargo/config.toml", ".cargo/config", "rust-toolchain",
    "rust-toolchain.toml", "go.mod", "go.work", "composer.json", "Gemfile", "build.gradle", "settings.gradle",
    "settings.gradle.kts", "pom.xml", "CMakeLists.txt", ".git",
)  # fmt: skip
"""Names that tools look for in the folders above where they run."""
_OF_THE_USER = (".npmrc", ".yarnrc.yml", ".cargo/config.toml", ".cargo/config")
"""Those that count in the user's home folder wherever a tool runs, also in a fresh clone."""

CLEANER = "Move these away, or name a folder below which nothing is found: `corral config set worktrees.root /PATH`."
"""The remedy of :meth:`Place.warning`."""

_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True)
class Place:
    """The folder of a project's worktrees.

    Attributes:
        path: Absolute; it may not exist yet.
        is_configured: Whether a person named it (``worktrees.root``); then it need not be marked, and may hold other things.
        passed_over: Why an earlier choice was not used, one line each.
        finds: What an upward search from a worktree there finds, and folders above it that are hidden.
    """

    path: Path
    is_configured: bool
    passed_over: tuple[str, ...] = ()
    finds: tuple[str, ...] = ()

    def warning(self) -> str | None:
        """The problem with this folder, in one sentence; None: there is none."""
        if not self.finds:
            return None
        more = f" and {len(self.finds) - 3} more" if self.finds[3:] else ""
        return (
            f"Tools that search upward from the worktrees in {self.path} find what is not part of any candidate: "
            f"{', '.join(self.finds[:3])}{more}."
        )


def beside(project: Project) -> Path:
    """The folder beside the project's repository."""
    return beside_root(project.root, bare=project.bare)


def beside_root(root: Path, *, bare: bool) -> Path:
    """The folder beside a repository. Of ``shop/`` and of a bare ``shop.git`` it is ``shop.worktrees``.

    A git directory with a hidden name, such as ``shop/.bare``, belongs to the folder around it.

    Args:
        root: The main worktree's top; where there is none (``bare``), the git directory.
    """
    if bare:
        stem = root.name.removesuffix(".git")
        root = root.parent if not stem or stem.startswith(".") else root.with_name(stem)
    return root.parent / f"{root.name.lstrip('.') or 'repository'}.worktrees"


def at_home(project: Project, project_id: str, home: Path) -> Path:
    """The folder in the user's home, for a repository beside which there is no place."""
    stem = beside(project).name.removesuffix(".worktrees")
    return home / AT_HOME / f"{stem}-{project_id[:8]}"


def choose(project: Project, configured: str | None, project_id: str, home: Path) -> Place:
    """The place of new worktrees, from what is on the disk now; nothing is written.

    Args:
        configured: ``worktrees.root``, relative to the project's root or absolute; None: Corral chooses.
        home: The user's home folder.

    Raises:
        Unsupported: Corral is to choose, and no folder can be used.
    """
    if configured is not None:
        path = Path(os.path.normpath(project.root / configured))
        return Place(path, True, finds=tuple(upward_finds(path, home)))
    usable: list[Place] = []
    passed_over: list[str] = []
    for number, path in enumerate(_choices(project, project_id, home)):
        if number > 1 and usable:
            break
        refusal = _refusal(path, project_id)
        finds = tuple(upward_finds(path, home)) if refusal is None else ()
        if refusal is None:
            usable.append(Place(path, False, tuple(passed_over), finds))
            if not finds:
                return usable[-1]
        passed_over.append(f"{path}: {refusal or 'an upward search from there finds ' + finds[0]}")
        if number and not os.path.lexists(path):  # it is free, but cannot be created; the next could not either
            break
    if not usable:
        raise Unsupported(
            "There is no folder for worktrees.",
            cause="; ".join(passed_over),
            remedy="Name one outside of every repository: `corral config set worktrees.root /PATH`.",
        )
    # None is clean: take the first usable one; its warning is shown wherever it matters.
    return usable[0]


def _choices(project: Project, project_id: str, home: Path) -> Iterator[Path]:
    """The folders that Corral may choose, in order; the numbered ones are for when the others' names are taken."""
    yield beside(project)
    last = at_home(project, project_id, home)
    yield last
    yield from (last.with_name(f"{last.name}-{number}") for number in range(2, MOST_CHOICES))


def upward_finds(path: Path, home: Path) -> Iterator[str]:
    """The files of :data:`SEARCHED` and the hidden folders that a tool in a worktree in ``path`` finds above it."""
    for folder in (path, *path.parents):
        for name in SEARCHED:
            if os.path.lexists(f"{folder}/{name}") and not (folder == home and name in _OF_THE_USER):
                yield str(folder / name)
        if folder.name.startswith("."):
            yield f"{folder}, a hidden folder"


def establish(place: Place, project_id: str, repository: Path) -> None:
    """Make the folder, and mark it; safe to repeat, and after a kill in the middle.

    Raises:
        PathReplaced: It is not this project's any more.
        OSError: It cannot be made.
    """
    path = place.path
    if place.is_configured:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return
    if not os.path.lexists(path) or (_is_only_marked(path) and not _is_ours(path, project_id)):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        _require_private(path)
        path.chmod(0o700)
        _mark(path, project_id, repository)
    prove(path, project_id)


def known_id(project: Project) -> str:
    """The project's id from the mark beside its repository; a new project has none before its daemon's first start."""
    marks = _marks(beside(project))
    return str(marks.get("project_id")) if marks.get("repository") == str(project.common_dir) else UNKNOWN_ID


def hand_over(project: Project, former_id: str, project_id: str) -> None:
    """Change the mark of the folder beside the repository to a new project id, if it has the former one (an adopted database)."""
    if _is_ours(beside(project), former_id):
        _mark(beside(project), project_id, project.common_dir)


def _mark(path: Path, project_id: str, repository: Path) -> None:
    marks = {"project_id": project_id, "repository": str(repository), "inode": path.lstat().st_ino}
    partial = path / f"{MARKER}.{new_id()}"  # several worktrees may be the first at the same moment
    partial.write_text(json.dumps(marks, indent=2) + "\n")
    files.settle(partial)  # without it nothing in the folder is Corral's
    partial.replace(path / MARKER)


def prove(path: Path, project_id: str) -> None:
    """Prove that a folder that Corral chose is this project's; call it right before each effect in it.

    Raises:
        PathReplaced: It is not.
    """
    _require_private(path)
    marks = _marks(path)
    if marks.get("project_id") != project_id or marks.get("inode") != path.lstat().st_ino:
        raise _replaced(path, "its mark is missing, or is of another folder or project")


@dataclass(frozen=True)
class WorktreeRoot:
    """The folder of one project's worktrees, computed at each call: settings and folders change while a daemon lives.

    Args:
        configured: Gives ``worktrees.root``.
        home: The user's home folder.
    """

    project: Project
    project_id: str
    configured: Callable[[], str | None]
    home: Path

    def choose(self) -> Place:
        """The folder of new worktrees.

        Raises:
            Unsupported: Corral is to choose, and no folder can be used.
        """
        return choose(self.project, self.configured(), self.project_id, self.home)

    @property
    def volume(self) -> Path:
        """An existing folder on the volume where new worktrees are made."""
        try:
            path = self.choose().path
        except Unsupported:
            path = self.project.root
        return next((folder for folder in (path, *path.parents) if folder.exists()), path)

    @property
    def verification(self) -> str:
        """The name of the folder of verification worktrees in it; no other worktree may have it."""
        return f"verification-{self.project_id[:8]}"

    def establish(self, path: Path) -> Path:
        """Create the folder in which a new worktree at ``path`` is created; returns what :meth:`top_of` does.

        Raises:
            PathReplaced: It is not this project's any more.
            OSError: It cannot be made.
        """
        place = self.choose()
        if path.is_relative_to(place.path):
            establish(place, self.project_id, self.project.common_dir)
        return self.top_of(path)

    def top_of(self, path: Path) -> Path:
        """The folder below which no link may stand on the way to a worktree; proven, if Corral chose it.

        Raises:
            PathReplaced: It is one that Corral chose, and not this project's any more.
        """
        for folder in self._chosen():
            if path.is_relative_to(folder):
                if os.path.lexists(folder):  # a missing folder is reported for each path in it
                    prove(folder, self.project_id)
                return folder
        return self.project.root

    def remove(self) -> list[Path]:
        """Remove the folders that Corral chose for this project if they are empty; returns those that are not."""
        remaining = []
        if (configured := self.configured()) is not None:
            with contextlib.suppress(OSError):  # there, and empty
                (self.project.root / configured / self.verification).rmdir()
        for folder in self._chosen():
            was_ours = _is_only_marked(folder) and _marks(folder).get("repository") == str(self.project.common_dir)
            if not was_ours and not _is_ours(folder, self.project_id):  # the former: under an id that was forgotten
                continue
            with contextlib.suppress(OSError):  # there, and empty
                (folder / self.verification).rmdir()
            if not _is_only_marked(folder):
                remaining.append(folder)
                continue
            _remove_marked(folder)
            if folder.parent == self.home / AT_HOME:
                with contextlib.suppress(OSError):
                    folder.parent.rmdir()
        return remaining

    def leave(self, folder: Path) -> None:
        """Remove an empty folder of this project's at a former place: its repository was moved away from beside it."""
        if folder not in self._chosen() and _is_only_marked(folder) and _is_ours(folder, self.project_id):
            _remove_marked(folder)

    def _chosen(self) -> Iterator[Path]:
        return _choices(self.project, self.project_id, self.home)


def _refusal(path: Path, project_id: str) -> str | None:
    """Why a folder of Corral's choice cannot be used; None if it can."""
    if not os.path.lexists(path):
        around = next((folder for folder in path.parents if os.path.lexists(folder)), path.parent)
        if not around.is_dir() or not os.access(around, os.W_OK | os.X_OK):
            return f"{around} cannot be written"
        if around not in (path.parent, path.parent.parent):
            return f"{around} holds no folder {path.parent.relative_to(around)}"
        return _in_git_directory(path)
    if not _is_private(path):
        return "the name is taken by what is not a private folder of yours"
    # In this order: whoever is marking it just now makes a worktree in it only after that.
    if not _is_only_marked(path) and not _is_ours(path, project_id):
        return "the name is taken"
    return _in_git_directory(path)


def _in_git_directory(path: Path) -> str | None:
    """The refusal of a folder inside a git directory (as beside a submodule's repository); None: it is not in one."""
    inside = next((folder for folder in path.parents if is_git_directory(folder)), None)
    return f"it lies in the git directory {inside}" if inside is not None else None


def _is_ours(path: Path, project_id: str) -> bool:
    try:
        prove(path, project_id)
    except (PathReplaced, OSError):
        return False
    return True


def _is_private(path: Path) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and ownership.is_own(status.st_uid) and not status.st_mode & _OTHERS_MAY_WRITE


def _is_only_marked(path: Path) -> bool:
    """Whether a folder holds at most a mark, of any project: nobody's work is in it."""
    try:
        return _is_private(path) and all(entry.name.startswith(MARKER) for entry in path.iterdir())
    except OSError:
        return False


def _remove_marked(path: Path) -> None:
    """Remove a folder that holds at most a mark, with what a killed marking left."""
    for entry in path.iterdir():
        entry.unlink()
    path.rmdir()


def _marks(path: Path) -> dict[str, object]:
    try:
        marks = json.loads((path / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return marks if isinstance(marks, dict) else {}


def _require_private(path: Path) -> None:
    if not _is_private(path):
        raise _replaced(path, "it is no real folder of yours that only you can write to")


def _replaced(path: Path, why: str) -> PathReplaced:
    quoted = shlex.quote(str(path))
    return PathReplaced(
        f"{path} is not the folder of worktrees that Corral made.",
        cause=f"Corral touches nothing in it: {why}.",
        remedy=f"Put the folder back, or move what is there away (`mv {quoted} {quoted}.mine`): Corral then goes on.",
    )
