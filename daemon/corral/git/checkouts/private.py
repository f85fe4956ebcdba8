"""Copies of files that git ignores: commits in a repository of Corral's own, inside the git directory of the user's.

The refs are ``refs/corral/private/<worktree>/<UTC timestamp>``. They stand in ``corral-private``, which only the user may enter:
so no push, fetch, clone, bundle or log of the user's repository has them, whatever its refspec. A file is stored byte
for byte: neither filters nor line endings change it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from corral.core.errors import GitFailed, NotFound
from corral.core.identifiers import check_name
from corral.core.instants import UTC
from corral.git import commits, refs
from corral.git.checkouts.ignored import Ignored, read
from corral.git.checkouts.salvage import changed_files
from corral.git.checkouts.status import Signature
from corral.git.identity import CORRAL
from corral.git.process import scratch
from corral.git.process.command import Git
from corral.git.refs import Ref

PREFIX = "refs/corral/private/"
FOLDER = "corral-private"
_AT_ONCE = 8 * 1024 * 1024
"""Bytes of files that are in memory at a time; one file may be larger."""
_MOST_NAMED = 200
"""Paths that a copy names as left out; of more it says how many."""
_WASTE = {"gc.auto": "3000", "gc.autoDetach": "false", "gc.pruneExpire": "2.days.ago"}

Known = Mapping[str, tuple[Signature, str, str]]
"""By path: how a file looked when it was stored, its mode and its blob."""


@dataclass(frozen=True)
class Copy:
    """What was stored: ``known`` has every file of it, ``left_out`` the reason for each that is missing."""

    ref: str
    sha: str
    known: Known
    left_out: Mapping[str, str]


@dataclass(frozen=True)
class Saved:
    """A copy as it is listed. ``at`` is aware UTC, to the second; ``head_sha`` is where the worktree's HEAD was, or None."""

    name: str
    ref: str
    sha: str
    at: datetime
    reason: str
    files: list[str]
    left_out: dict[str, str]
    head_sha: str | None


@dataclass
class Restored:
    """The paths that were written, those that stood there already, and where what stood in the way made a file go."""

    files: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    aside: dict[str, str] = field(default_factory=dict)


def store_of(repo: Git) -> Git | None:
    """The repository with the copies; None while nothing was ever stored."""
    place = repo.common_dir / FOLDER
    return Git(place) if (place / "HEAD").is_file() and not place.is_symlink() else None


def _opened(repo: Git) -> Git:
    if (store := store_of(repo)) is not None:
        return store
    with scratch.folder(repo) as folder:  # it appears whole: others may look for it, or the daemon may be killed
        made = Git(folder / FOLDER)
        made.git_dir.mkdir(mode=0o700)
        made.check("init", "--quiet", "--bare", "--template=", str(made.git_dir))
        with contextlib.suppress(OSError):  # another thread was faster
            made.git_dir.rename(repo.common_dir / FOLDER)
    if (store := store_of(repo)) is None:
        raise GitFailed(f"{repo.common_dir / FOLDER} cannot be made.", cause="Something else stands there.")
    return store


def save(
    repo: Git, top: Path, name: str, at: datetime, found: Ignored, *, reason: str, head: str | None, known: Known
) -> Copy | None:
    """Store the ignored files of a checkout, which does not change.

    A file that vanishes, changes or cannot be read meanwhile is named as left out; the others are stored.

    Args:
        top: The checkout's top folder.
        name: The worktree's name, part of the ref.
        at: Now (aware).
        reason: One line for a person.
        head: The commit that HEAD is at.
        known: What was stored before and need not be read again.

    Returns:
        None if there is nothing to store.

    Raises:
        GitFailed: Nothing was stored.
        OSError: The same.
    """
    if not found.files and not found.left_out:
        return None
    store = _opened(repo)
    left_out, entries = dict(found.left_out), dict[str, tuple[Signature, str, str]]()
    fresh = [(path, seen) for path, seen in found.files.items() if known.get(path, (None,))[0] != seen]
    entries.update({path: known[path] for path, seen in found.files.items() if known.get(path, (None,))[0] == seen})
    for batch in _batches(top, fresh, left_out):
        shas = _store_blobs(store, [content for _, _, _, content in batch])
        entries.update({path: (seen, mode, sha) for (path, seen, mode, _), sha in zip(batch, shas, strict=True)})
    lines = "".join(f"{mode} {sha} 0\t{path}\0" for path, (_, mode, sha) in entries.items())
    with scratch.folder(repo) as folder:
        index = folder / "index"
        store.check("update-index", "-z", "--index-info", input=os.fsencode(lines), index_file=index)
        tree = store.must("write-tree", index_file=index)
    newest = newest_of(store, name)
    if newest is not None and store.must("rev-parse", f"{newest.sha}^{{tree}}") == tree:
        return Copy(newest.name, newest.sha, entries, left_out)
    named = dict(itertools.islice(left_out.items(), _MOST_NAMED))
    if len(left_out) > len(named):
        named["…"] = f"and {len(left_out) - len(named)} more"
    about = json.dumps({"head": head, "left_out": named})
    subject = " ".join(reason.split()) or "saved"
    text = f"{subject}\n\nFiles that git ignores in the worktree {name}, saved by Corral.\n\n{about}\n"
    sha = commits.create(store, tree, [], text, CORRAL, at)
    return Copy(_publish(store, name, sha, at), sha, entries, left_out)


def _batches(
    top: Path, files: Iterable[tuple[str, Signature]], left_out: dict[str, str]
) -> Iterator[list[tuple[str, Signature, str, bytes]]]:
    batch, size = list[tuple[str, Signature, str, bytes]](), 0
    for path, seen in files:
        try:
            mode, content, same = read(top, path, seen)
        except OSError as error:
            left_out[path] = error.strerror or str(error)
            continue
        if not same:
            left_out[path] = "it was changing; a part of it may be missing"
            seen = None  # read again with the next copy
        batch.append((path, seen, mode, content))
        size += len(content)
        if size >= _AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _store_blobs(store: Git, contents: list[bytes]) -> list[str]:
    """Store contents as they are: ``git add`` would convert what the repository's attributes name."""
    marks = range(1, len(contents) + 1)
    blobs = [
        b"blob\nmark :%d\ndata %d\n%b\n" % (mark, len(content), content)
        for mark, content in zip(marks, contents, strict=True)
    ]
    asked = [b"get-mark :%d\n" % mark for mark in marks]
    return store.check("fast-import", "--quiet", input=b"".join(blobs + asked), timeout_s=300).text.split()


def _publish(store: Git, name: str, sha: str, at: datetime) -> str:
    stem = f"{PREFIX}{check_name(name, 'worktree')}/{at.astimezone(UTC):%Y%m%dT%H%M%S%fZ}"
    numbered = itertools.chain((stem,), (f"{stem}-{number}" for number in itertools.count(1)))
    return next(ref for ref in numbered if refs.compare_and_swap(store, ref, sha, ""))


def newest_of(store: Git, name: str) -> Ref | None:
    """The newest copy of a worktree."""
    return max(refs.listing(store, f"{PREFIX}{name}/"), key=lambda ref: (ref.created_at, ref.name), default=None)


def drop_replaced(repo: Git, older: Copy, newer: Copy) -> bool:
    """Delete a copy every file of which the newer one has, be it with another content; returns whether it was so."""
    is_replaced = older.ref != newer.ref and older.known.keys() <= newer.known.keys()
    return is_replaced and forget(repo, older.ref, older.sha)


def forget(repo: Git, ref: str, sha: str) -> bool:
    """Delete a copy; False if its ref is not there any more."""
    store = store_of(repo)
    return store is not None and refs.delete(store, ref, sha)


def sweep(repo: Git) -> None:
    """Give back the disk space of deleted copies, once there is much of it.

    Raises:
        GitFailed: Git could not.
    """
    if (store := store_of(repo)) is not None:
        store.check("gc", "--auto", "--quiet", config=_WASTE, timeout_s=600)


def old(repo: Git, before: datetime) -> tuple[list[Ref], list[Ref]]:
    """The copies from before an instant: those that another copy of the same worktree contains, and the others.

    Raises:
        GitFailed: They could not be read.
    """
    store = store_of(repo)
    if store is None:
        return [], []
    held, alone = list[Ref](), list[Ref]()
    copies = refs.listing(store, PREFIX)
    for ref in copies:
        if ref.created_at >= before:
            continue
        others = [other for other in copies if _owner(other) == _owner(ref) and other not in held and other != ref]
        is_held = any(not _missing(store, ref.sha, other.sha) for other in reversed(others))
        (held if is_held else alone).append(ref)
    return held, alone


def _owner(ref: Ref) -> str:
    return ref.name.removeprefix(PREFIX).partition("/")[0]


def _missing(store: Git, of: str, there: str) -> list[str]:
    """The files of a copy that another one has not, or with another content."""
    options = ("-r", "-z", "--name-only", "--no-renames", "--diff-filter=DMT")
    return store.check("diff-tree", *options, refs.oid(of), refs.oid(there)).names


def listing(repo: Git, name: str | None = None) -> list[Saved]:
    """All copies, oldest first for each name; of one worktree if ``name`` is given."""
    store = store_of(repo)
    if store is None:
        return []
    prefix = PREFIX if name is None else f"{PREFIX}{check_name(name, 'worktree')}/"
    form = "%(refname)%00%(objectname)%00%(committerdate:unix)%00%(contents)%00%00"
    blocks = store.check("for-each-ref", f"--format={form}", prefix).text.split("\0\0")
    rows = [block.strip("\n").split("\0", 3) for block in blocks if block.strip("\n")]
    files = changed_files(store, [(sha, "") for _, sha, _, _ in rows])
    saved = []
    for ref, sha, when, text in rows:
        lines = text.strip().splitlines()
        about = json.loads(lines[-1])
        at, owner = datetime.fromtimestamp(int(when), UTC), ref.removeprefix(PREFIX).partition("/")[0]
        saved.append(Saved(owner, ref, sha, at, lines[0], files[sha], about["left_out"], about["head"]))
    return saved


def restore(repo: Git, ref: str, into: Path) -> Restored:
    """Write the files of a copy below a folder. Nothing that stands there is replaced: a file goes beside it, and is named.

    Args:
        into: The top of a checkout.

    Raises:
        NotFound: No such copy.
        OSError: A file could not be written.
    """
    store = store_of(repo)
    sha = refs.read(store, ref) if store is not None and ref.startswith(PREFIX) else None
    if store is None or sha is None:
        raise NotFound(f"There is no saved work {ref[:200]!r}.", remedy="`corral worktree recover` lists it.")
    done, top = Restored(), Path(os.path.realpath(into))
    lines = store.check("ls-tree", "-r", "-z", "-l", sha).names
    entries = [(*line.partition("\t")[0].split(), line.partition("\t")[2]) for line in lines]
    for batch in _by_size(entries):
        contents = refs.contents(store, [blob for _, _, blob, _, _ in batch])
        for (mode, _, _, _, path), content in zip(batch, contents, strict=True):
            _put(top, path, mode, content, done)
    return done


def _by_size(entries: list[tuple[str, ...]]) -> Iterator[list[tuple[str, ...]]]:
    batch, size = list[tuple[str, ...]](), 0
    for entry in entries:
        batch.append(entry)
        size += int(entry[3])
        if size >= _AT_ONCE:
            yield batch
            batch, size = [], 0
    yield batch


def _put(top: Path, path: str, mode: str, content: bytes, done: Restored) -> None:
    """Write a file, or beside what stands in its place; where a link or a file is in place of its folder, to the top."""
    is_open = os.path.realpath((top / path).parent) == str((top / path).parent) and _made_folder((top / path).parent)
    stem = path if is_open else path.replace("/", "+")
    beside = (f"{stem}.recovered{'' if number == 1 else f'-{number}'}" for number in itertools.count(1))
    for place in itertools.chain((path,) if is_open else (), beside):
        if _written(top / place, mode, content):
            done.files.append(path)
            if place != path:
                done.aside[path] = place
            return
        if place == path and _is_same(top / place, mode, content):
            done.present.append(path)
            return


def _made_folder(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        return False
    return True


def _written(target: Path, mode: str, content: bytes) -> bool:
    """Write a new file, which only the user may read; False if something stands there."""
    try:
        if mode == "120000":
            target.symlink_to(os.fsdecode(content))
            return True
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(target, flags, 0o700 if mode == "100755" else 0o600), "wb") as file:
            file.write(content)
    except FileExistsError:
        return False
    return True


def _is_same(target: Path, mode: str, content: bytes) -> bool:
    info = target.lstat()
    if mode == "120000":
        return stat.S_ISLNK(info.st_mode) and os.fsencode(os.readlink(target)) == content  # noqa: PTH115 - as it is written
    return stat.S_ISREG(info.st_mode) and info.st_size == len(content) and target.read_bytes() == content
