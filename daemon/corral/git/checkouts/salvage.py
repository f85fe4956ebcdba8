"""Salvage: the whole state of a worktree as one commit under ``refs/corral/salvage/``, its index untouched.

The commit's tree is the work tree (with untracked files, without ignored ones), its first parent is HEAD; if the index
holds content that the work tree no longer has, a second parent holds the index.
"""

from __future__ import annotations

import itertools
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from corral.core.errors import NotFound
from corral.core.identifiers import check_name
from corral.core.instants import UTC
from corral.git import commits, refs
from corral.git.checkouts import status, worktrees
from corral.git.commits import CORRAL
from corral.git.process import scratch
from corral.git.process.command import Git
from corral.git.refs import Ref

PREFIX = "refs/corral/salvage/"
MOST_KEPT = 200
"""Maximum number of files that :func:`keep` copies at once."""
LARGEST_KEPT = 8 * 1024 * 1024
"""Maximum size of a file that it copies, bytes."""
LARGEST_IN_ALL = 32 * 1024 * 1024
"""Maximum total size that it copies at once, bytes."""


@dataclass(frozen=True)
class Snapshot:
    """A saved state. ``base_sha`` is HEAD's commit, ``""`` if there was none; ``files`` differ from it."""

    sha: str
    ref: str
    files: list[str]
    base_sha: str
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kept:
    """Copies of files: ``files`` are on ``ref``, unchanged; files beyond the limits are missing."""

    sha: str
    ref: str
    files: frozenset[str]


@dataclass(frozen=True)
class Salvage:
    """A snapshot as it is listed. ``at`` is aware UTC, to the second."""

    name: str
    ref: str
    sha: str
    at: datetime
    reason: str
    files: list[str]


def snapshot(
    checkout: Git, name: str, at: datetime, *, reason: str, exclude: Sequence[str] = (), always: bool = False
) -> Snapshot | None:
    """Save the state of a checkout.

    Args:
        checkout: Any checkout; nothing in it changes.
        name: The worktree's name, part of the ref.
        at: Now (aware).
        reason: One line for a person.
        exclude: Repository-relative paths (files or folders, literally) that are not work.
        always: Save it even if a ref holds all of it already.

    Returns:
        None if refs hold everything already.

    Raises:
        GitFailed: It could not be saved; then nothing may be removed.
    """
    changes = status.committable(all_changes := status.changes(checkout), exclude)
    head = checkout.head()
    if not changes and not always and (head is None or checkout.branch() or refs.holder(checkout, head)):
        return None
    parents = [head] if head else []
    with status.copied_index(checkout) as index:
        staged = checkout.run("write-tree", index_file=index)  # refused while conflicts are unresolved
        unread = status.add_all(checkout, all_changes, exclude, index)
        tree = checkout.must("write-tree", index_file=index)
    differs = staged.ok and staged.text.strip() != tree and any(c.code[0] not in ".?" for c in changes)
    staged_tree = staged.text.strip() if differs else None
    files = sorted({c.path for c in changes})
    if always and (saved := _saved_before(checkout, name, tree, head, staged_tree)) is not None:
        return Snapshot(saved.sha, saved.name, files, head or "", tuple(exclude))
    if staged_tree is not None:
        message = "The index of the salvaged worktree\n"
        parents.append(commits.create(checkout, staged_tree, parents, message, CORRAL, at))
    subject = " ".join(reason.split()) or "salvaged"
    text = f"{subject}\n\nState of the worktree {name}, saved by Corral.\n"
    text += f"\nNot readable:\n{unread}" if unread else ""
    sha = commits.create(checkout, tree, parents, text, CORRAL, at)
    return Snapshot(sha, publish(checkout, PREFIX, name, sha, at), files, head or "", tuple(exclude))


def keep(checkout: Git, name: str, at: datetime, paths: Sequence[str], *, reason: str) -> Kept | None:
    """Save copies of some files of a checkout on top of its HEAD; the checkout and its index do not change.

    Args:
        at: Now (aware).
        paths: Repository-relative; missing files, and files beyond the limits above, are skipped.
        reason: One line for a person.

    Returns:
        None if there is nothing to save.

    Raises:
        GitFailed: It could not be saved.
    """
    chosen = _affordable(checkout, paths)
    if not chosen:
        return None
    head = checkout.head()
    stdin = "".join(f"{path}\0" for path in chosen).encode("utf-8", "surrogateescape")
    with scratch.folder(checkout) as folder:
        index = folder / "index"
        if head:
            checkout.must("read-tree", head, index_file=index)
        # `--remove`: a file that vanished a moment ago is no error.
        arguments = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
        checkout.must(*arguments, input=stdin, index_file=index, config={"core.sparseCheckout": "false"})
        tree = checkout.must("write-tree", index_file=index)
    if (saved := _saved_before(checkout, name, tree, head)) is not None:
        return Kept(saved.sha, saved.name, frozenset(chosen))
    text = f"{' '.join(reason.split())}\n\nFiles with uncommitted content, saved by Corral.\n"
    sha = commits.create(checkout, tree, [head] if head else [], text, CORRAL, at)
    return Kept(sha, publish(checkout, PREFIX, name, sha, at), frozenset(chosen))


def changed_since(checkout: Git, copies: Kept, paths: Sequence[str]) -> list[str]:
    """Those of the copied files whose content, or mode, is no longer that of the copies."""
    specs = [f":(top,literal){path}" for path in paths if path in copies.files]
    if not specs:
        return []
    with scratch.folder(checkout) as folder:
        index = folder / "index"
        checkout.must("read-tree", copies.sha, index_file=index)
        checkout.must(
            "add", "--refresh", "--sparse", "--", *specs, index_file=index
        )  # of these alone: a filter may be slow
        return checkout.check("diff-files", "--name-only", "-z", "--", *specs, index_file=index).names


def _affordable(checkout: Git, paths: Sequence[str]) -> list[str]:
    """The paths that are files, within the limits."""
    chosen, remaining = list[str](), LARGEST_IN_ALL
    for path in paths[:MOST_KEPT]:
        try:
            info = os.lstat(checkout.top / path)
        except OSError:
            continue
        if stat.S_ISLNK(info.st_mode) or (stat.S_ISREG(info.st_mode) and info.st_size <= min(LARGEST_KEPT, remaining)):
            chosen.append(path)
            remaining -= info.st_size
    return chosen


def _saved_before(
    checkout: Git, name: str, tree: str, head: str | None, staged_tree: str | None = None
) -> refs.Ref | None:
    """The newest salvage of a worktree, if it has the same files, commit and index."""
    newest = refs.newest(checkout, f"{PREFIX}{name}/")
    if newest is None:
        return None
    saved_tree, *parents = checkout.must("show", "-s", "--format=%T %P", newest.sha).split()
    index = [parent for parent in parents if parent != head]
    if saved_tree != tree or parents[:1] != ([head] if head else index[:1]):
        return None
    indexes = [checkout.must("rev-parse", f"{parent}^{{tree}}") for parent in index]
    return newest if indexes == ([staged_tree] if staged_tree else []) else None


def listing(repo: Git, name: str | None = None) -> list[Salvage]:
    """All salvages, oldest first for each name; of one worktree if ``name`` is given."""
    prefix = PREFIX if name is None else f"{PREFIX}{check_name(name, 'worktree')}/"
    text = repo.must(
        "for-each-ref", "--format=%(refname)%00%(objectname)%00%(committerdate:unix)%00%(parent)%00%(subject)", prefix
    )
    rows = [line.split("\0", 4) for line in text.splitlines()]
    files = changed_files(repo, [(sha, parents.split(" ")[0]) for _, sha, _, parents, _ in rows])
    salvages = []
    for ref, sha, when, _, subject in rows:
        at, worktree = datetime.fromtimestamp(int(when), UTC), ref.removeprefix(PREFIX).partition("/")[0]
        salvages.append(Salvage(worktree, ref, sha, at, subject, files[sha]))
    return salvages


def restore(repo: Git, ref: str, into: Path, branch: str, remake: worktrees.Remake = Path.mkdir) -> None:
    """Create a worktree with a new branch at a salvaged state.

    Args:
        ref: The full ref of the snapshot.
        remake: As :func:`worktrees.add` takes it.

    Raises:
        NotFound: No such snapshot.
        Conflict: The folder or the branch exists.
    """
    sha = refs.read(repo, ref) if ref.startswith(PREFIX) else None
    if sha is None:
        raise NotFound(f"There is no saved work {ref[:200]!r}.", remedy="`corral worktree recover` lists it.")
    worktrees.add(repo, into, branch, sha, remake)


def publish(repo: Git, prefix: str, name: str, sha: str, at: datetime) -> str:
    """Give a state of a worktree its ref, named for the instant, and numbered where that is taken."""
    stem = f"{prefix}{check_name(name, 'worktree')}/{at.astimezone(UTC):%Y%m%dT%H%M%S%fZ}"
    numbered = itertools.chain((stem,), (f"{stem}-{number}" for number in itertools.count(1)))
    for ref in numbered:
        if refs.read(repo, ref) == sha or refs.compare_and_swap(repo, ref, sha, "", why="corral: salvage"):
            return ref
    raise AssertionError("unreachable")


def changed_files(repo: Git, pairs: list[tuple[str, str]]) -> dict[str, list[str]]:
    """The changed files of each ``(commit, parent or "")``, in one process."""
    by_commit: dict[str, list[str]] = {sha: [] for sha, _ in pairs}
    if not pairs:
        return by_commit
    stdin = "".join(f"{sha} {parent}".strip() + "\n" for sha, parent in pairs).encode()
    result = repo.check(
        "diff-tree", "--stdin", "--root", "-r", "-z", "--name-only", "--no-renames", "--always", input=stdin
    )
    current = ""
    for token in result.text.split("\0"):
        if token in by_commit:
            current = token
        elif token:
            by_commit[current].append(token)
    return by_commit


# -- Which salvaged work may be deleted: only what a branch or tag contains too

DURABLE = ("refs/heads/", "refs/tags/", PREFIX)
"""Refs that keep work until a person deletes them; refs of the merge queue and of remotes come and go."""


def old_salvage(repo: Git, before: datetime) -> list[Ref]:
    """Salvage saved before an instant, oldest first."""
    return sorted(
        (ref for ref in refs.listing(repo, PREFIX) if ref.created_at < before), key=lambda ref: ref.created_at
    )


def trees_since(repo: Git, since: datetime) -> frozenset[str]:
    """The trees of all commits that branches and tags got since an instant."""
    text = repo.must("log", "--format=%T", f"--since={since.timestamp():.0f}", "--branches", "--tags", timeout_s=120)
    return frozenset(text.split())


def is_held_elsewhere(repo: Git, ref: Ref, trees: frozenset[str]) -> bool:
    """Whether everything in a salvage is also on a branch, a tag, or another salvage.

    Either another durable ref reaches its commit, or every commit that only it reaches has the same tree as a commit
    that a branch got since: the same files were committed under another name.

    Args:
        trees: From :func:`trees_since`, for an instant before it was saved.
    """
    holders = repo.must("for-each-ref", f"--contains={ref.sha}", "--format=%(refname)", *DURABLE).splitlines()
    if any(holder != ref.name for holder in holders):
        return True
    others = [f"--exclude={ref.name}", f"--glob={PREFIX}*", "--branches", "--tags"]
    alone = repo.must("log", "--format=%T", "--max-count=100", ref.sha, "--not", *others).split()
    return bool(alone) and len(alone) < 100 and trees.issuperset(alone)
