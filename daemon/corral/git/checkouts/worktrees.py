"""Allocated worktrees: created whole or not at all, repaired after a kill, removed only with proof.

While a worktree is being created its entry is locked with the reason ``initializing``, as git itself does; a caller
that finds that after a crash calls :func:`repair`. The list of worktrees is changed under a lock (a file in the git
directory); files are checked out outside that lock, by several workers.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from corral.config.inodes import folder_id
from corral.core import files
from corral.core.errors import Conflict, CorralError, GitFailed, NotFound, Unsupported, WorkAtRisk
from corral.git import refs
from corral.git.checkouts import head_log, status, submodules, whole
from corral.git.checkouts.identity import OwnWorktree, is_same_place, prove
from corral.git.checkouts.listing import admin_dirs, folder_of, holding, list_lock
from corral.git.checkouts.repointing import CHECKOUT_S
from corral.git.commits import CORRAL
from corral.git.process import stale
from corral.git.process.command import OID, Git, Outcome, as_env, discovered_top, open_checkout

if TYPE_CHECKING:
    from corral.git.checkouts.salvage import Snapshot
import os
import stat

from corral.git.checkouts.identity import prove_folder, prove_remains

Check = Callable[[], object]
"""Raises :class:`~corral.core.errors.PathReplaced` if the folder is not Corral's any more; called right before each effect."""

Remake = Callable[[Path], object]
"""Creates the folder again after a failing git has removed it."""

INITIALIZING = "initializing"

_TIES = ("gitdir", "commondir")
"""The files in an entry that tie it to its folder and to the repository; git writes them once, and never through."""

_ATTEMPTS = 10


def add(
    repo: Git, path: Path, branch: str, base_sha: str, remake: Remake = Path.mkdir, *, sparse: bool = False
) -> None:
    """Create a worktree on a new branch; on failure nothing stays.

    Args:
        path: Absolute; must not exist, or be an empty folder.
        base_sha: The first commit of the branch.
        remake: Called before another attempt; its exceptions propagate.
        sparse: Whether it has the sparse patterns of the main checkout, and not every file.

    Raises:
        Conflict: The folder or the branch exists.
        Unsupported: The repository's configuration would send a git in the new folder elsewhere.
        GitFailed: Git could not create it.
    """
    ref = refs.branch_ref(branch)
    _must_be_free(path)
    # The branch is created first, by compare-and-swap, so that undoing never deletes somebody else's; `worktree add -b`
    # would also write tracking configuration, and fail on the lock of `.git/config` when many are created at once.
    refs.make_branch(repo, ref, base_sha)
    try:
        _make(repo, path, [ref.removeprefix("refs/heads/")], remake, partial(_fill, sparse=sparse))
    except CorralError:
        refs.delete(repo, ref, base_sha)
        raise


def add_detached(repo: Git, path: Path, sha: str, remake: Remake = Path.mkdir) -> None:
    """Create a worktree on no branch and without files, for :func:`whole.lay_out`; otherwise like :func:`add`."""
    _must_be_free(path)
    _make(repo, path, ["--detach", refs.oid(sha)], remake, end_filling)


def _must_be_free(path: Path) -> None:
    if path.is_symlink() or (path.exists() and (not path.is_dir() or any(path.iterdir()))):
        raise Conflict(
            f"{path} exists already.",
            cause="A new worktree would have this folder, and what is in it is not overwritten.",
            remedy="Choose another name, or move the folder away.",
        )


def _make(repo: Git, path: Path, what: list[str], remake: Remake, fill: Callable[[Git], None]) -> None:
    *options, commit = what
    path.mkdir(parents=True, exist_ok=True)
    own = OwnWorktree(path, path.parent, folder_id(path), None)
    try:
        for attempt in range(_ATTEMPTS):
            if not path.exists():
                remake(path)
                own = replace(own, folder_id=folder_id(path))
            with list_lock(repo):
                _forget_missing(repo, path)
                result = repo.run(
                    "worktree", "add", "--no-checkout", "--lock", "--reason", INITIALIZING, *options, "--", str(path), commit
                )  # fmt: skip
            if result.ok:
                break
            # A user's `worktree prune`, for example in a gc, can remove a new entry before git has locked it.
            if result.rc < 0 or result.outcome is Outcome.REFUSED or attempt + 1 == _ATTEMPTS:
                raise result.failure()
        top = discovered_top(path)
        if top is None:
            raise GitFailed(
                f"Git did not say which folder {path} belongs to.", cause="Git was killed, or the folder is gone."
            )
        if top.resolve() != path.resolve():
            raise Unsupported(
                f"A git started in {path} would work on {top}.",
                cause="core.worktree is set in the repository's shared configuration.",
                remedy="`git config --unset core.worktree`, or move it to the main worktree's own configuration.",
            )
        checkout = prove(repo, own)
        files.settle(path / ".git", *(checkout.git_dir / name for name in _TIES))
        fill(checkout)
    except CorralError:
        _undo(repo, own)
        raise


def begin_filling(checkout: Git) -> None:
    """Mark a worktree as incomplete: a repair fills it to its HEAD, and git's `worktree prune` keeps it."""
    (checkout.git_dir / "locked").write_text(INITIALIZING)


def end_filling(checkout: Git) -> None:
    """Remove the mark of :func:`begin_filling`: the worktree is complete."""
    (checkout.git_dir / "locked").unlink(missing_ok=True)


def _fill(checkout: Git, *, sparse: bool) -> None:
    whole.fill(checkout, sparse=sparse)
    end_filling(checkout)


def _undo(repo: Git, own: OwnWorktree) -> None:
    """Remove a worktree that never became usable: only git has written to it."""
    path = own.path
    with list_lock(repo):
        if path.is_symlink() or (path.exists() and folder_id(path) != own.folder_id):
            return
        admin = _admin_of(repo, path)
        if admin is not None and not _is_initializing(admin):
            return
        if admin is not None or not (path / ".git").exists():
            shutil.rmtree(path, ignore_errors=True)
        if admin is not None:
            shutil.rmtree(admin, ignore_errors=True)
        _forget_missing(repo, path)  # killed before it wrote the entry's folder


def remove(repo: Git, path: Path, check: Check = lambda: None) -> None:
    """Remove a worktree without work of its own; its branch stays.

    Raises:
        PathReplaced: From ``check``.
        NotFound: There is no such linked worktree.
        WorkAtRisk: It has changes, untracked files, initialised submodules, or a commit that no ref holds.
        Conflict: It is locked.
        GitFailed: Git refused for another reason.
    """
    entry = _unlocked(repo, path)
    head = entry.head() if entry.branch() is None else None
    if head and refs.holder(repo, head) is None:
        raise WorkAtRisk(f"{path} is on a commit that no branch holds.", details={"head": head})
    with list_lock(repo):
        check()
        result = repo.run("worktree", "remove", str(path), timeout_s=CHECKOUT_S)
    if result.ok:
        return
    if "contains modified or untracked" in result.stderr or "containing submodules" in result.stderr:
        files = [change.path for change in status.changes(open_checkout(path))]
        raise WorkAtRisk(f"{path} holds work that exists nowhere else.", details={"files": files[:100]})
    raise result.failure()


def remove_salvaged(
    repo: Git, path: Path, snapshot: Snapshot, *, keep_branch: bool = False, check: Check = lambda: None
) -> None:
    """Remove a worktree whose state is, provably, salvaged; and its branch, which the salvage contains.

    Args:
        keep_branch: The caller deletes the branch.

    Raises:
        PathReplaced: From ``check``.
        NotFound: There is no such linked worktree.
        Conflict: It is locked.
        WorkAtRisk: Its state is no longer that of the snapshot, or a submodule holds work that no snapshot has.
    """
    entry = _unlocked(repo, path)
    checkout = open_checkout(path)
    changes = status.changes(checkout)
    with status.copied_index(checkout) as index:
        unread = status.add_all(checkout, changes, snapshot.exclude, index)
        tree = checkout.must("write-tree", index_file=index)
    saved = repo.must("rev-parse", "--verify", f"{snapshot.sha}^{{tree}}")
    nested = [change.path for change in changes if change.nested]
    if unread or nested or tree != saved or (checkout.head() or "") != snapshot.base_sha:
        raise WorkAtRisk(
            f"{path} has changed since it was salvaged.",
            cause="A process is still working there, or it contains another repository or unreadable files.",
            details={"nested": nested, "unread": unread},
        )
    inside = submodules.at_risk(checkout, changes)
    if inside:
        raise WorkAtRisk(
            f"Submodules of {path} hold work that exists nowhere else: {', '.join(inside[:10])}.",
            cause="It is uncommitted, or committed and not pushed; removing the worktree would delete the "
            "submodule's repository.",
            remedy="Push it from there, or discard it there; then remove the worktree.",
            details={"submodules": inside},
        )
    branch = entry.branch()
    with list_lock(repo):
        check()
        repo.check("worktree", "remove", "--force", str(path), timeout_s=CHECKOUT_S)
    if branch is not None and not keep_branch:
        drop_branch(repo, branch)


def repair(
    repo: Git,
    path: Path,
    branch: str | None,
    check: Check = lambda: None,
    *,
    keeps: bool = True,
    sparse: bool = False,
) -> bool:
    """Repair one worktree of ours after a crash, or after part of it was deleted.

    A half-created one is completed; one without its folder is removed from the list, after work that only its entry
    held is salvaged; one without its entry gets a new one, its files untouched. Only this path's entry and this branch
    are used.

    Args:
        path: Absolute.
        branch: The branch it was created on, None for a detached one.
        check: Proves that the remains are Corral's.
        keeps: Whether to salvage what only its entry held; False if it holds nobody's work.
        sparse: As :func:`add` takes it; for one that was half created.

    Returns:
        True: there is a usable worktree at ``path``. False: nothing is left there, and the branch is gone unless it has
        commits of its own.

    Raises:
        WorkAtRisk: The folder holds files and neither its entry nor its branch exists.
        PathReplaced: From ``check``.
        Conflict: A git is still running there.
    """
    check()
    ref = refs.branch_ref(branch) if branch is not None else None
    occupied = path.is_dir() and any(path.iterdir())
    admin = _admin_of(repo, path)
    if admin is not None and occupied and not (path / ".git").exists():
        (path / ".git").write_text(f"gitdir: {admin}\n", errors="surrogateescape")
    if admin is not None and occupied and (admin / "HEAD").exists():
        head_log.restore(Git(admin, path), ref)
    if admin is not None and occupied and _names_a_commit(admin):
        if _is_initializing(admin):
            _finish(Git(admin, path), sparse=sparse)
        return True
    if occupied and not _is_bare_beginning(path):
        _adopt(repo, path, ref)
        return True
    with list_lock(repo):
        if admin is not None and admin.is_dir() and not _is_on_another_branch(admin, ref):
            if keeps:
                _keep_what_only_it_holds(repo, admin, path.name)
            shutil.rmtree(admin)
        _forget_missing(repo, path)
    check()
    (path / ".git").unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        path.rmdir()
    if ref is not None:
        drop_branch(repo, ref)
    return False


def _finish(checkout: Git, *, sparse: bool) -> None:
    """Check out the files of a worktree, unless a git that outlived its daemon is doing it."""
    busy = Conflict(
        f"A git process is still running in {checkout.work_tree}.",
        cause="It was started there before, and outlived the daemon that started it.",
        remedy="Wait until it has finished.",
    )
    lock = checkout.git_dir / "index.lock"
    if lock.exists():
        if stale.is_open(lock):
            raise busy
        lock.unlink(missing_ok=True)
    try:
        _fill(checkout, sparse=sparse)
    except GitFailed as error:
        if error.details["outcome"] == Outcome.LOCK.value:
            raise busy from error
        raise


def _adopt(repo: Git, path: Path, ref: str | None) -> None:
    """Give a folder whose entry was deleted a new one. The index is built from the branch; no file is touched."""
    if ref is None or refs.read(repo, ref) is None:
        raise WorkAtRisk(
            f"{path} contains files, but git knows neither the worktree nor its branch.",
            remedy="Copy the files you need, then delete the folder.",
        )
    spare = path.with_name(f".{path.name}.corral-adopt")
    with list_lock(repo):
        if spare.is_dir():  # from an adoption that was killed; it never contains more than the .git file
            (spare / ".git").unlink(missing_ok=True)
            spare.rmdir()
        _forget_missing(repo, spare)
        repo.check("worktree", "add", "--no-checkout", "--", str(spare), ref.removeprefix("refs/heads/"))
        (spare / ".git").replace(path / ".git")
        repo.check("worktree", "repair", str(path))
        spare.rmdir()
    checkout = open_checkout(path)
    whole.complete(checkout)
    checkout.check("read-tree", "HEAD")


def _keep_what_only_it_holds(repo: Git, admin: Path, name: str) -> None:
    """Salvage a detached HEAD, and staged content, of a worktree whose folder is gone."""
    if not _names_a_commit(admin):
        return
    entry = Git(admin)
    head = entry.head() or ""
    staged = entry.run("write-tree") if (admin / "index").exists() else None
    sha = head if refs.holder(repo, head) is None else None
    if staged is not None and staged.ok and staged.text.strip() != entry.must("rev-parse", f"{head}^{{tree}}"):
        text = b"the worktree's folder was deleted; this is what was staged in it\n"
        sha = repo.must("commit-tree", staged.text.strip(), "-p", head, "-F", "-", input=text, env=as_env(CORRAL))
    if sha is not None:
        ref = refs.full_ref(f"refs/corral/salvage/{name}/{sha}")
        if refs.read(repo, ref) is None and not refs.compare_and_swap(repo, ref, sha, ""):
            raise GitFailed(f"Cannot write {ref}.")


def drop_branch(repo: Git, ref: str) -> None:
    """Delete a branch (a full ref) that is checked out nowhere and whose commit another ref holds; else keep it."""
    sha = refs.read(repo, ref)
    if sha is not None and refs.holder(repo, sha, besides=ref) is not None and not holding(repo, ref):
        refs.delete(repo, ref, sha)


def _linked(repo: Git, path: Path) -> Git:
    """The entry of a linked worktree, as a git directory."""
    admin = _admin_of(repo, path)
    if admin is None:
        raise NotFound(
            f"{path} is not a linked worktree of this repository.", cause="Git has no entry for this folder."
        )
    return Git(admin)


def _unlocked(repo: Git, path: Path) -> Git:
    """The same of one that nobody has locked."""
    entry = _linked(repo, path)
    if (entry.git_dir / "locked").exists():
        raise Conflict(
            f"{path} is locked, so it stays.",
            cause="Somebody locked it with `git worktree lock`.",
            remedy=f"Once nobody needs it: git worktree unlock {quote(str(path))}",
        )
    return entry


def _admin_of(repo: Git, path: Path) -> Path | None:
    usual = repo.common_dir / "worktrees" / path.name  # as git calls it, unless the name is taken
    if _names(usual, path):
        return usual
    return next((admin for admin in admin_dirs(repo)[1:] if _names(admin, path)), None)


def _names(admin: Path, path: Path) -> bool:
    """Whether an entry names this very folder; a link in its place leads to another one."""
    folder = folder_of(admin) if (admin / "gitdir").exists() else None
    return folder is not None and is_same_place(folder, path)


def _forget_missing(repo: Git, path: Path) -> None:
    """Remove an entry that git itself cannot see, because it does not name its folder.

    Git writes ``gitdir`` before HEAD: without both the entry was being created, with HEAD alone it was being removed.
    """
    admin = repo.common_dir / "worktrees" / path.name
    gitdir = admin / "gitdir"
    if admin.is_dir() and not (gitdir.exists() and gitdir.stat().st_size):
        shutil.rmtree(admin)


def _is_on_another_branch(admin: Path, ref: str | None) -> bool:
    """Whether an entry without its folder may belong to a user's worktree that was moved away by hand."""
    with suppress(CorralError):
        return ref is not None and Git(admin).branch() not in (None, ref)
    return False


def _is_initializing(admin: Path) -> bool:
    try:
        return (admin / "locked").read_text(errors="replace").strip() == INITIALIZING
    except OSError:
        return False


def _names_a_commit(admin: Path) -> bool:
    try:
        head = Git(admin).head()
    except CorralError:
        return False
    return bool(head and OID.fullmatch(head) and head.strip("0"))


def _is_bare_beginning(path: Path) -> bool:
    """Whether a folder contains only the .git file."""
    return [item.name for item in path.iterdir()] == [".git"] and (path / ".git").is_file()


# -- Remove a worktree that holds nobody's work, in whatever state commands left it


def discard(repo: Git, own: OwnWorktree) -> None:
    """Empty the folder that was recorded, remove it, and let git forget it; safe to repeat.

    Its ``.git`` may name somebody's checkout by now: it is not followed. The folder is removed last, so that after a kill it is
    still the recorded one.

    Raises:
        PathReplaced: Something else stands there; it is not touched.
        OSError: One of its files could not be removed.
    """
    if os.path.lexists(own.path) and (own.folder_id is not None or any(own.path.iterdir())):
        prove_folder(own)
        make_writable(own.path)
        for entry in sorted(own.path.iterdir(), key=lambda entry: entry.name == ".git"):
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    repair(repo, own.path, None, lambda: prove_remains(repo, own), keeps=False)


def make_writable(path: Path) -> None:
    """Make ``path`` and every folder below it writable for us: e.g. a module cache is read-only.

    Raises:
        OSError: One is not ours to give.
    """
    path.chmod(path.stat().st_mode | stat.S_IRWXU)
    for parent, folders, _files in os.walk(path):
        for folder in folders:
            mode = os.lstat(os.path.join(parent, folder)).st_mode  # noqa: PTH118 - there are many
            if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
                os.chmod(os.path.join(parent, folder), stat.S_IMODE(mode) | stat.S_IRWXU)  # noqa: PTH101, PTH118
