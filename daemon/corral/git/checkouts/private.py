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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath

from corral.core.errors import GitFailed
from corral.core.identifiers import check_name
from corral.core.instants import UTC
from corral.git import commits, refs
from corral.git.checkouts import ignored
from corral.git.checkouts.ignored import Ignored, read
from corral.git.checkouts.salvage import changed_files, publish
from corral.git.checkouts.status import Signature
from corral.git.commits import CORRAL
from corral.git.process import scratch
from corral.git.process.command import Git, open_checkout
from corral.git.refs import Ref

PREFIX = "refs/corral/private/"
FOLDER = "corral-private"
RECOVERED = ".corral-recovered"
"""The folder in a checkout for the files that git would see where they were, or whose place is taken; git ignores all of it."""
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
    """A copy as it is listed.

    ``at`` is aware UTC, to the second; ``head_sha`` is where the worktree's HEAD was, or None; ``identity`` tells the worktree
    from others that had its name, None where that is not known.
    """

    name: str
    ref: str
    sha: str
    at: datetime
    reason: str
    files: list[str]
    left_out: dict[str, str]
    head_sha: str | None
    identity: str | None


@dataclass
class Restored:
    """The paths that were written, those that stood there, where what stood in the way made a file go, and what is missing."""

    files: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    aside: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


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
    repo: Git,
    top: Path,
    name: str,
    at: datetime,
    survey: Ignored,
    *,
    reason: str,
    head: str | None,
    known: Known,
    identity: str | None = None,
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
        identity: Which worktree it is, whatever its name.

    Returns:
        None if there is nothing to store.

    Raises:
        GitFailed: Nothing was stored.
        OSError: The same.
    """
    if not survey.files and not survey.left_out:
        return None
    store = _opened(repo)
    left_out, entries = dict(survey.left_out), dict[str, tuple[Signature, str, str]]()
    fresh = [(path, seen) for path, seen in survey.files.items() if known.get(path, (None,))[0] != seen]
    entries.update({path: known[path] for path, seen in survey.files.items() if known.get(path, (None,))[0] == seen})
    with scratch.folder(repo) as folder:
        for batch in _batches(top, fresh, left_out, folder):
            shas = _store_blobs(store, [content for _, _, _, content in batch])
            entries.update({path: (seen, mode, sha) for (path, seen, mode, _), sha in zip(batch, shas, strict=True)})
    tree = _tree(repo, store, entries)
    newest = refs.newest(store, f"{PREFIX}{name}/")
    if newest is not None:
        stored, *_, about = store.must("show", "-s", "--format=%T%n%B", newest.sha).strip().splitlines()
        if stored == tree and json.loads(about).get("worktree") == identity:
            return Copy(newest.name, newest.sha, entries, left_out)
    known_as = {"head": head, "worktree": identity}
    sha = _commit(store, name, tree, " ".join(reason.split()) or "saved", known_as, left_out, at)
    return Copy(publish(store, PREFIX, name, sha, at), sha, entries, left_out)


def _tree(repo: Git, store: Git, entries: Known) -> str:
    lines = "".join(f"{mode} {sha} 0\t{path}\0" for path, (_, mode, sha) in entries.items())
    with scratch.folder(repo) as folder:
        index = folder / "index"
        store.check("update-index", "-z", "--index-info", input=os.fsencode(lines), index_file=index)
        return store.must("write-tree", index_file=index)


def _commit(
    store: Git,
    name: str,
    tree: str,
    reason: str,
    known_as: Mapping[str, str | None],
    left_out: Mapping[str, str],
    at: datetime,
) -> str:
    named = dict(itertools.islice(left_out.items(), _MOST_NAMED))
    if len(left_out) > len(named):
        named["…"] = f"and {len(left_out) - len(named)} more"
    about = json.dumps({**known_as, "left_out": named})
    text = f"{reason}\n\nFiles that git ignores in the worktree {name}, saved by Corral.\n\n{about}\n"
    return commits.create(store, tree, [], text, CORRAL, at)


def _batches(
    top: Path, files: Sequence[tuple[str, Signature]], left_out: dict[str, str], folder: Path
) -> Iterator[list[tuple[str, Signature, str, bytes]]]:
    """The files with what is in them. Storing takes time: those of later batches get a second name before the first is stored,
    so that they outlive a worktree that its client removes meanwhile."""
    batch, size = list[tuple[str, Signature, str, bytes]](), 0
    places = {path: top / path for path, _ in files}
    for number, (path, seen) in enumerate(files):
        try:
            mode, content, same = read(places[path], seen)
        except OSError as error:
            left_out[path] = error.strerror or str(error)
            continue
        if not same:
            left_out[path] = "it was changing; a part of it may be missing"
            seen = None  # read again with the next copy
        batch.append((path, seen, mode, content))
        size += len(content)
        if size >= _AT_ONCE:
            for later, (other, _) in enumerate(files[number + 1 :], number + 1):
                if places[other].parent != folder:
                    places[other] = _held(places[other], folder / str(later))
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _held(place: Path, name: Path) -> Path:
    """A second name of a file, or the only one where there can be no other."""
    try:
        os.link(place, name, follow_symlinks=False)
    except OSError:
        return place
    return name


def _store_blobs(store: Git, contents: list[bytes]) -> list[str]:
    """Store contents as they are: ``git add`` would convert what the repository's attributes name."""
    marks = range(1, len(contents) + 1)
    blobs = [
        b"blob\nmark :%d\ndata %d\n%b\n" % (mark, len(content), content)
        for mark, content in zip(marks, contents, strict=True)
    ]
    asked = [b"get-mark :%d\n" % mark for mark in marks]
    return store.check("fast-import", "--quiet", input=b"".join(blobs + asked), timeout_s=300).text.split()


def drop_replaced(repo: Git, older: Copy, newer: Copy) -> bool:
    """Delete a copy every file of which the newer one has, be it with another content; returns whether it was so.

    What was changing while it was stored may be torn: it takes the place only of what was torn as well.
    """
    torn = newer.left_out.keys() - older.left_out.keys()
    is_replaced = older.ref != newer.ref and older.known.keys() <= newer.known.keys() - torn
    return is_replaced and forget(repo, older.ref, older.sha)


def merge(repo: Git, older: Copy, newer: Copy) -> Copy | None:
    """Put the files of a copy that a newer one lacks, or has torn, into the newer one, under its ref; then delete the older one.

    Returns:
        The copy of both; None if they stay two: a file of one is a folder of the other, or somebody else changed a ref.

    Raises:
        GitFailed: The copies are as they were.
    """
    store = store_of(repo)
    whole = [copy.known.keys() - copy.left_out.keys() for copy in (older, newer)]
    entries = {**newer.known, **{path: older.known[path] for path in older.known.keys() - newer.known.keys()}}
    entries.update({path: older.known[path] for path in whole[0] - whole[1]})
    if store is None or any(str(above) in entries for path in entries for above in PurePosixPath(path).parents):
        return None
    left_out = {
        path: why for path, why in {**older.left_out, **newer.left_out}.items() if path not in whole[0] | whole[1]
    }
    made, *lines = store.must("show", "-s", "--format=%ct%n%B", newer.sha).strip().splitlines()
    at, name = datetime.fromtimestamp(int(made), UTC), _owner(newer.ref)
    sha = _commit(store, name, _tree(repo, store, entries), lines[0], json.loads(lines[-1]), left_out, at)
    if not refs.compare_and_swap(store, newer.ref, sha, newer.sha):
        return None
    forget(repo, older.ref, older.sha)
    return Copy(newer.ref, sha, entries, left_out)


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
        others = [
            other for other in copies if _owner(other.name) == _owner(ref.name) and other not in held and other != ref
        ]
        is_held = any(not _missing(store, ref.sha, other.sha) for other in reversed(others))
        (held if is_held else alone).append(ref)
    return held, alone


def _owner(ref: str) -> str:
    return ref.removeprefix(PREFIX).partition("/")[0]


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
        at = datetime.fromtimestamp(int(when), UTC)
        left_out, head, identity = about["left_out"], about["head"], about.get("worktree")
        saved.append(Saved(_owner(ref), ref, sha, at, lines[0], files[sha], left_out, head, identity))
    return saved


def of_the_newest(copies: list[Saved]) -> list[Saved]:
    """The newest of a name's copies, with the older ones of the same worktree, newest first.

    What was taken while something deleted the worktree lacks what was gone already: an older one may have it.
    """
    newest = copies[-1]
    same = [copy for copy in copies[:-1] if newest.identity is not None and copy.identity == newest.identity]
    return [newest, *reversed(same)]


def restore(repo: Git, copies: list[Saved], into: Path) -> Restored:
    """Write the files of copies into a checkout, each where it was and as the first copy has it that has it whole.

    Nothing that stands there is replaced, nothing is written through a link, and no file becomes one that git sees: such a file
    goes into :data:`RECOVERED`, and is named.

    Args:
        copies: The newest first; ``left_out`` of the answer is what none of them has whole.
        into: The top of a checkout.

    Raises:
        GitFailed: The copies could not be read.
        OSError: A file could not be written.
    """
    store = _opened(repo)
    done, top = Restored(), Path(os.path.realpath(into))
    whole, torn = dict[str, tuple[str, ...]](), dict[str, tuple[str, ...]]()
    for copy in copies:
        for line in store.check("ls-tree", "-r", "-z", "-l", refs.oid(copy.sha)).names:
            about, _, path = line.partition("\t")
            (torn if path in copy.left_out else whole).setdefault(path, (*about.split(), path))
        for path, why in copy.left_out.items():
            done.left_out.setdefault(path, why)
    for path in whole:
        done.left_out.pop(path, None)
    entries = list({**torn, **whole}.values())
    hidden = _hidden(top, [entry[-1] for entry in entries])
    for batch in _by_size(entries):
        contents = refs.contents(store, [blob for _, _, blob, _, _ in batch])
        for (mode, _, _, _, path), content in zip(batch, contents, strict=True):
            if _is_open(top, path) and _is_same(top / path, mode, content):
                done.present.append(path)
                continue
            done.files.append(path)
            if path not in hidden or not _written(top / path, mode, content):
                done.aside[path] = _put_aside(top, path, mode, content)
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


def _hidden(top: Path, paths: list[str]) -> set[str]:
    """The paths at which git sees no file, as this checkout's commit may lack an ignore rule; none where git cannot tell."""
    try:
        return ignored.ignored(open_checkout(top), [path for path in paths if _is_open(top, path)])
    except GitFailed:
        return set()


def _is_open(top: Path, path: str) -> bool:
    """Whether no link leads from a checkout to the folder of a path."""
    return os.path.realpath((top / path).parent) == str((top / path).parent)


def _put_aside(top: Path, path: str, mode: str, content: bytes) -> str:
    """Write a file into the folder that git ignores; returns its path."""
    folder = _recovered(top)
    stem = os.fsdecode(os.fsencode(path.replace("/", "+"))[-200:])
    numbered = itertools.chain((stem,), (f"{stem}-{number}" for number in itertools.count(2)))
    return f"{folder.name}/{next(name for name in numbered if _written(folder / name, mode, content))}"


def _recovered(top: Path) -> Path:
    """The folder for what has no place of its own, made if it is not there; numbered where something else bears its name."""
    for number in itertools.count(1):
        folder = top / (RECOVERED if number == 1 else f"{RECOVERED}-{number}")
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            (folder / ".gitignore").write_text("*\n")
        rule = folder / ".gitignore"
        if not folder.is_symlink() and not rule.is_symlink() and rule.is_file() and rule.read_bytes() == b"*\n":
            return folder
    raise AssertionError


def _written(target: Path, mode: str, content: bytes) -> bool:
    """Write a new file, which only the user may read; False if something stands there, or in place of its folder."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if mode == "120000":
            target.symlink_to(os.fsdecode(content))
            return True
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(target, flags, 0o700 if mode == "100755" else 0o600), "wb") as file:
            file.write(content)
    except (FileExistsError, NotADirectoryError):
        return False
    return True


def _is_same(target: Path, mode: str, content: bytes) -> bool:
    try:
        info = target.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    if mode == "120000":
        return stat.S_ISLNK(info.st_mode) and os.fsencode(os.readlink(target)) == content  # noqa: PTH115 - as it is written
    return stat.S_ISREG(info.st_mode) and info.st_size == len(content) and target.read_bytes() == content
