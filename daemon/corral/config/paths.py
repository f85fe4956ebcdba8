"""The paths of a project, found by reading files, without running git. Standard library only.

A project is a git common directory: every worktree, subfolder and session of a clone finds the same one. ``.corral/``
is in the root of the main worktree; in a bare repository, or one with a separate git directory (``--separate-git-dir``,
a submodule), inside the git directory.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import NamedTuple

from corral.config import account, ownership
from corral.core.errors import NotAProject

SOCKET_LIMIT = 100
"""Bytes that every system allows in a Unix socket path (the kernel's limit is 108 on Linux, 104 on macOS)."""

DATABASE_LIMIT = 480
"""Bytes allowed in the database's path: SQLite allows 512, including the suffix of a journal."""

SET_ASIDE = "corral.db.of-"
"""Prefix of the name of a database that was set aside; the first part of its project id follows."""

POINTER_LIMIT = 8192
"""Characters read of a file that names a folder."""

_LOOKS, _BETWEEN_LOOKS_S = 6, 0.05
"""Attempts to find missing settings in a repository that has a database, and the seconds between two."""


class Checkout(NamedTuple):
    """One worktree: its top folder, its own git directory, and the shared common directory."""

    top: Path
    git_dir: Path
    common_dir: Path


LOG_FOLDERS = ("tasks", "merges", "worktrees")
"""The folders in that of logs: of attempts, verifications and setups."""


class Project(NamedTuple):  # not a dataclass: their module takes as long to load as all that a command reads
    """The paths of one coordinated repository.

    Attributes:
        root: The main worktree's top folder; the git directory if there is no main worktree.
        common_dir: The git common directory.
        home: The ``.corral`` folder.
        bare: Whether there is no main worktree beside ``home``.
    """

    root: Path
    common_dir: Path
    home: Path
    bare: bool

    @property
    def initialised(self) -> bool:
        """Whether ``corral init`` has prepared the repository."""
        return (self.home / "config.yaml").is_file()

    @property
    def is_guarded(self) -> bool:
        """Whether edits are checked: it is initialised, or was, and a branch is checked out that has no settings."""
        return self.initialised or self.database.is_file()

    @property
    def config_file(self) -> Path:
        """The team's settings."""
        return self.home / "config.yaml"

    @property
    def database(self) -> Path:
        """The database; only the daemon opens it. Below the user's state folder if the usual path is too long."""
        usual = self.home / "corral.db"
        if len(os.fsencode(usual)) <= DATABASE_LIMIT:
            return usual
        return account.home() / ".local" / "state" / "corral" / _digest(self.home) / "corral.db"

    @property
    def run_dir(self) -> Path:
        """Socket, address and token; mode 0700."""
        return self.home / "run"

    @property
    def lock_file(self) -> Path:
        """Locked by the daemon for its whole life. In the git directory, where ``git clean`` does not reach it."""
        return self.common_dir / "corral.lock"

    @property
    def daemon_json(self) -> Path:
        """``{pid, socket, host, port, version, protocol, started_at}`` of the running daemon."""
        return self.run_dir / "daemon.json"

    @property
    def stopped_file(self) -> Path:
        """Exists after ``corral daemon stop``: read-only commands then start no daemon."""
        return self.run_dir / "stopped"

    @property
    def alive_file(self) -> Path:
        """Touched whenever the daemon checks live sessions."""
        return self.run_dir / "alive"

    @property
    def token_file(self) -> Path:
        """The bearer token for loopback TCP; mode 0600."""
        return self.run_dir / "token"

    @property
    def attempts_dir(self) -> Path:
        """A folder for the keeper of each attempt that is not closed."""
        return self.run_dir / "attempts"

    @property
    def verifications_dir(self) -> Path:
        """A folder for the keeper of each verification that runs."""
        return self.run_dir / "verifications"

    @property
    def logs_dir(self) -> Path:
        """The folder of all logs; while the usual one cannot be written, one in :attr:`run_dir`: logs stop no work."""
        return self.home / "logs" if self.unwritable_logs is None else self.run_dir / "logs"

    @property
    def unwritable_logs(self) -> Path | None:
        """The usual folder for logs, or one in it, that cannot be written; None: all can, or are links, which are refused."""
        usual = self.home / "logs"
        folders = [usual if os.path.lexists(usual) else self.home, *(usual / name for name in LOG_FOLDERS)]
        there = (folder for folder in folders if os.path.lexists(folder) and not folder.is_symlink())
        return next(
            (folder for folder in there if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK))), None
        )

    def known(self, checkout: Checkout | None) -> Checkout | None:
        """A checkout by the path that git knows it by; None if it is none of this project.

        One folder has several paths where it is mounted twice, or where the case of names is folded: the folder itself counts.
        """
        if checkout is None or checkout.common_dir == self.common_dir:
            return checkout
        with contextlib.suppress(OSError):
            if checkout.common_dir.samefile(self.common_dir):
                if checkout.git_dir == checkout.common_dir:
                    return Checkout(checkout.top if self.bare else self.root, self.common_dir, self.common_dir)
                git_dir = self.common_dir / "worktrees" / checkout.git_dir.name
                if (marker := _pointer(git_dir / "gitdir", "")) is not None:
                    return Checkout(marker.parent, git_dir, self.common_dir)
        return None

    def state_dir(self, chosen: str) -> Path:
        """The supervisor's folder: ``supervisor.state_dir``, relative to the project's root unless it is absolute."""
        return self.root / chosen


def find_checkout(start: Path) -> Checkout | None:
    """The worktree that contains ``start``, or None (outside any repository, or in a bare one)."""
    here = Path(os.path.abspath(start))  # noqa: PTH100 - resolve() would follow a symlink out of the checkout
    for folder in (here, *here.parents):
        marker = folder / ".git"
        git_dir: Path | None = marker
        if not os.path.isdir(marker):  # noqa: PTH112 - Path.is_dir() raises where another user allows no look
            git_dir = _pointer(marker, "gitdir: ") if os.path.isfile(marker) else None  # noqa: PTH113
        if git_dir is not None and os.path.isfile(git_dir / "HEAD"):  # noqa: PTH113
            return Checkout(folder, git_dir.resolve(), _common_dir(git_dir))
    return None


def find_project(start: Path, *, initialised: bool = True) -> Project:
    """The project that contains ``start``.

    Args:
        start: Any folder of any of its worktrees, or of a bare repository.
        initialised: Whether ``corral init`` must have prepared it.

    Raises:
        NotAProject: No git repository here, or not a coordinated one.
        DubiousOwnership: Another user owns the nearest repository, or Corral's files in it; parent folders are not
            tried.
    """
    checkout = find_checkout(start)
    common = checkout.common_dir if checkout is not None else None
    # Inside a git directory the nearest one counts: a submodule's is inside that of the outer repository.
    if common is None or Path(start).resolve().is_relative_to(common):
        common = _bare_repository(start) or common
    if common is None:
        raise NotAProject(
            f"{start} is not inside a git repository.",
            cause="There is no .git here or in any parent folder.",
            remedy="Change to a repository, or create one: `git init`, then a first commit.",
        )
    beside = common.parent if common.name == ".git" else None
    project = Project(beside or common, common, (beside or common) / ".corral", beside is None)
    _require_ownership(checkout, project)
    if initialised and not project.initialised and not _comes_back(project):
        if project.database.is_file():
            raise NotAProject(
                f"{project.root} is not coordinated by Corral while this branch is checked out.",
                cause="The branch has no .corral/config.yaml.",
                remedy="Check out a branch that has it, or run `corral init` on this one. A daemon that runs can be asked and "
                "stopped here too.",
            )
        raise NotAProject(
            f"{project.root} is not coordinated by Corral yet.",
            cause="There is no .corral/config.yaml.",
            remedy="Run `corral init` in the repository.",
        )
    return project


def find_guarded(start: Path) -> Project:
    """The project that contains ``start``, if edits in it are checked: a daemon may run for it, whatever branch is checked out.

    Raises:
        NotAProject: There is none; or another error of :func:`find_project`.
    """
    project = find_project(start, initialised=False)
    return project if project.is_guarded else find_project(start)


def _comes_back(project: Project) -> bool:
    """Whether the settings exist a moment later: git deletes a file before it writes the merged version."""
    for _ in range(_LOOKS if project.database.exists() else 0):
        time.sleep(_BETWEEN_LOOKS_S)
        if project.initialised:
            return True
    return False


def _require_ownership(checkout: Checkout | None, project: Project) -> None:
    """Refuse another user's files: the checkout, its repository, and what Corral reads from both.

    Raises:
        DubiousOwnership: See :mod:`corral.config.ownership`.
    """
    repository = project.root
    if checkout is not None:
        ownership.require_repository(checkout.top, (checkout.top / ".git", checkout.git_dir))
        if checkout.git_dir == project.common_dir:
            repository = checkout.top
    if checkout is None or repository != checkout.top:  # a bare repository, or a linked worktree's main one
        ownership.require_repository(repository, (project.common_dir,))
    ownership.require_files(repository, project.home, project.database)


def socket_path(project: Project) -> Path:
    """The path of the daemon's socket: in ``run/``, or in the user's runtime directory if that path is too long."""
    usual = project.run_dir / "corral.sock"
    if len(os.fsencode(usual)) <= SOCKET_LIMIT:
        return usual
    return runtime_dir() / f"{_digest(project.home)}.sock"


def find_socket(project: Project) -> Path:
    """The socket of the running daemon: :func:`socket_path`, or its ``daemon.json`` for a long path.

    A ``daemon.json`` that was copied with the project, or planted, names another project's socket: it is ignored.
    """
    usual = socket_path(project)
    if usual.parent == project.run_dir:
        return usual
    import json  # only for long paths

    try:
        named = Path(json.loads(project.daemon_json.read_text(encoding="utf-8"))["socket"])
    except (OSError, ValueError, KeyError, TypeError):
        return usual
    return named if named.name == usual.name else usual


def runtime_dir() -> Path:
    """A short folder of this user's own for sockets (the daemon creates it with mode 0700)."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if base and len(base) <= 60:
        return Path(base) / "corral"
    return Path("/tmp") / f"corral-{os.getuid()}"


def import_folders(*packages: str) -> list[str]:
    """The folders that an isolated interpreter needs to find Corral and these packages."""
    from importlib.util import find_spec  # seldom needed

    specs = (find_spec(name) for name in ("corral", *packages))
    return list(dict.fromkeys(str(Path(spec.origin).parent.parent) for spec in specs if spec and spec.origin))


def bundle_dir() -> Path:
    """The plugin bundle: the source checkout's root, or ``corral/_bundle`` of an installed wheel."""
    package = Path(__file__).resolve().parent.parent
    packed = package / "_bundle"
    return packed if packed.is_dir() else package.parent.parent


def set_aside_databases(project: Project) -> list[Path]:
    """The databases of other repositories that were set aside here and are still there."""
    candidates = project.database.parent.glob(f"{SET_ASIDE}*")
    return sorted(path for path in candidates if not path.name.endswith(("-wal", "-shm", "-journal")))


def is_git_directory(folder: Path) -> bool:
    """Whether git's own files are in a folder, as in ``.git`` or a bare repository."""
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir()


def _digest(path: Path) -> str:
    """A short name for a long path."""
    import hashlib  # slow to import for the bridge and the hooks' clients, and hardly ever needed

    return hashlib.sha256(os.fsencode(path)).hexdigest()[:20]


def _pointer(file: Path, prefix: str) -> Path | None:
    try:
        with file.open(encoding="utf-8", errors="surrogateescape") as opened:
            text = opened.read(POINTER_LIMIT).strip()  # it may be another user's, and of any size
    except OSError:
        return None
    if not text.startswith(prefix):
        return None
    return file.parent / text[len(prefix) :]


def _common_dir(git_dir: Path) -> Path:
    pointer = _pointer(git_dir / "commondir", "")
    return (pointer if pointer is not None else git_dir).resolve()


def _bare_repository(start: Path) -> Path | None:
    here = Path(start).resolve()
    return next((_common_dir(folder) for folder in (here, *here.parents) if is_git_directory(folder)), None)
