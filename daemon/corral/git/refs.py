"""Refs and commits: validate names, read values, move values by compare-and-swap."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import NamedTuple

from corral.core.errors import Conflict, GitFailed, InvalidInput, NotFound
from corral.core.instants import UTC
from corral.git.process.command import OID, Git, Outcome, Result

_EMPTY_TREE = {
    40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    64: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")


@dataclass(frozen=True)
class Ref:
    """A ref, the object it names, and when the commit or tag there was made (aware UTC)."""

    name: str
    sha: str
    created_at: datetime


def branch_ref(name: str) -> str:
    """The full ref of a branch: ``main`` or ``refs/heads/main`` becomes ``refs/heads/main``.

    Raises:
        InvalidInput: Git refuses the name, or a command could take it for an option.
    """
    short = name.removeprefix("refs/heads/")
    parts = short.split("/")
    if (
        _FORBIDDEN.search(short)
        or short in ("@", "HEAD")
        or len(short.encode(errors="surrogateescape")) > 200
        or any(not p or p.startswith((".", "-")) or p.endswith((".lock", ".")) for p in parts)
    ):
        raise InvalidInput(
            f"{name[:80]!r} is not a usable branch name.",
            cause="Git does not allow it, or it could be mistaken for an option.",
            remedy="Use letters, digits, dots, dashes, underscores and slashes, e.g. `feature/login`.",
        )
    return f"refs/heads/{short}"


def resolve(git: Git, ref: str) -> str:
    """The commit that a user's text names: a branch, tag, remote branch, ``HEAD``, ``HEAD~2`` or an object name.

    Raises:
        InvalidInput: The text is an option, a range, a reflog or path expression, or contains control characters.
        NotFound: It names no commit.
    """
    if not ref or ref.startswith("-") or "/-" in ref or re.search(r"[\x00-\x20\x7f:?*\[\\]|\.\.|@\{", ref):
        raise InvalidInput(
            f"{ref[:80]!r} does not name a commit.",
            cause="Only a branch, a tag, HEAD or an object name is accepted.",
            remedy="Name a branch, e.g. `main`.",
        )
    result = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
    sha = result.text.strip()
    if not result.ok or not OID.fullmatch(sha):
        raise NotFound(
            f"There is no commit {ref[:80]!r}.",
            cause="The branch or tag does not exist here, or the repository has no commits yet.",
            remedy="`git branch --all` lists the branches.",
        )
    return sha


def oid(text: str) -> str:
    """Return ``text`` if it is a whole object name.

    Raises:
        InvalidInput: It is not.
    """
    if not OID.fullmatch(text):
        raise InvalidInput(f"{text[:80]!r} is not a whole object name.", remedy="Resolve it first.")
    return text


def full_ref(text: str) -> str:
    """Return ``text`` if it is a full ref that no command can misread.

    Raises:
        InvalidInput: It is not.
    """
    if not text.startswith("refs/") or _FORBIDDEN.search(text) or "/-" in text or text.endswith(("/", ".", ".lock")):
        raise InvalidInput(f"{text[:80]!r} is not a full ref.", remedy="Use a name such as `refs/heads/main`.")
    return text


def read(git: Git, ref: str) -> str | None:
    """The object that a full ref names, or None if the ref does not exist.

    Raises:
        GitFailed: Git was killed before it answered.
    """
    stored = git.stored(full_ref(ref))
    if stored is not None:
        return stored or None
    result = git.run("show-ref", "--verify", "--hash", ref)
    if result.rc < 0:
        raise result.failure()
    return result.text.strip() if result.ok else None


def followed(git: Git, ref: str) -> str:
    """The full ref that a symbolic one stands for, such as an old name of a branch; any other itself."""
    if git.stored(full_ref(ref)) is not None:
        return ref
    result = git.run("symbolic-ref", "-q", ref)
    return result.text.strip() if result.ok else ref


def checked_out(checkout: Git) -> str | None:
    """The full ref of the branch that the commits of a checkout go to, also under an old name; None: detached."""
    branch = checkout.branch()
    return followed(checkout, branch) if branch else None


def exists(git: Git, sha: str) -> bool:
    """Whether git still has a commit."""
    return git.run("cat-file", "-e", f"{oid(sha)}^{{commit}}").ok


def compare_and_swap(git: Git, ref: str, new: str, old: str, *, why: str = "corral") -> bool:
    """Move a ref from ``old`` to ``new`` in one transaction; ``old=""``: the ref must not exist.

    Returns:
        False if the ref was not at ``old``; then nothing changed.

    Raises:
        GitFailed: It could not be tried.
    """
    before = oid(old) if old else "0" * len(new)
    return _update(git, f"update {full_ref(ref)}\0{oid(new)}\0{before}\0", why)


def delete(git: Git, ref: str, old: str) -> bool:
    """Delete a ref that is at ``old``; False if it is not."""
    return _update(git, f"option no-deref\0delete {full_ref(ref)}\0{oid(old)}\0", "corral")


class Change(NamedTuple):
    """A ref that is to move from ``old`` (``""``: it must not exist) to ``new`` (``""``: it is to be deleted)."""

    ref: str
    new: str
    old: str


def change(git: Git, changes: Iterable[Change], *, why: str = "corral") -> bool:
    """Make several changes in one transaction: all of them, or, if a ref was not where it was to be, none.

    Returns:
        Whether they were made.

    Raises:
        GitFailed: It could not be tried.
    """
    lines = []
    for ref, new, old in changes:
        before = oid(old) if old else "0" * len(new)
        verb = f"update {full_ref(ref)}\0{oid(new)}" if new else f"delete {full_ref(ref)}"
        lines.append(f"option no-deref\0{verb}\0{before}\0")
    return not lines or _update(git, "".join(lines), why)


def _update(git: Git, command: str, why: str) -> bool:
    result = git.run("update-ref", "-m", why, "--stdin", "-z", input=command.encode("utf-8", "surrogateescape"))
    if result.outcome in (Outcome.OK, Outcome.REFUSED):
        return result.ok
    raise result.failure()


def is_ancestor(git: Git, a: str, b: str) -> bool:
    """Whether commit ``a`` is ``b`` or is reachable from it."""
    if oid(a) == oid(b):
        return True
    result = git.run("merge-base", "--is-ancestor", a, b)
    if result.outcome in (Outcome.OK, Outcome.REFUSED):
        return result.ok
    raise result.failure()


def merge_base(git: Git, a: str, b: str) -> str | None:
    """A best common ancestor of two commits, or None where they share no history."""
    result = git.run("merge-base", oid(a), oid(b))
    if result.outcome in (Outcome.OK, Outcome.REFUSED):
        return result.text.strip() or None
    raise result.failure()


def fork_point(git: Git, ref: str, sha: str) -> str | None:
    """The commit at which ``sha`` left a branch, also one that the branch has only had; None if that is not certain."""
    result = git.run("merge-base", "--fork-point", full_ref(ref), oid(sha))
    if result.outcome in (Outcome.OK, Outcome.REFUSED):
        return result.text.strip() or None
    raise result.failure()


def holder(git: Git, sha: str, *, besides: str = "") -> str | None:
    """A ref, other than ``besides``, from which a commit is reachable; None if only a HEAD or nothing holds it."""
    text = git.must("for-each-ref", f"--contains={oid(sha)}", "--count=2", "--format=%(refname)")
    return next((ref for ref in text.splitlines() if ref != besides), None)


def listing(git: Git, prefix: str) -> list[Ref]:
    """All refs under ``prefix`` (``refs/corral/salvage/``), in order of name."""
    text = git.must(
        "for-each-ref", "--format=%(refname)%00%(objectname)%00%(creatordate:unix)", full_ref(prefix + "x")[:-1]
    )
    listed = []
    for line in text.splitlines():
        name, sha, created = line.split("\0")
        listed.append(Ref(name, sha, datetime.fromtimestamp(int(created or 0), UTC)))
    return listed


def newest(git: Git, prefix: str) -> Ref | None:
    """The ref under ``prefix`` whose commit was made last."""
    return max(listing(git, prefix), key=lambda ref: (ref.created_at, ref.name), default=None)


def default_branch(git: Git) -> str | None:
    """The full ref that HEAD of the main checkout (or of the bare repository) names, even unborn; None: detached."""
    return Git(git.common_dir).branch()


def changed_paths(git: Git, a: str, b: str) -> list[str]:
    """Paths whose content or mode differs between two commits or trees; a rename is its two paths."""
    if (few := _few_changes(git, a, b)) is not None:
        return [change.path for change in few]
    return git.check("diff-tree", "-r", "-z", "--name-only", "--no-renames", oid(a), oid(b)).names


def make_branch(repo: Git, ref: str, sha: str) -> None:
    """Create a branch (a full ref) that does not exist.

    Raises:
        Conflict: It exists.
        GitFailed: Git could not create it.
    """
    refuse_taken_folder(repo, ref)
    if read(repo, ref) is not None or not _try_to_create(repo, ref, sha):
        raise Conflict(
            f"Cannot create the branch {ref.removeprefix('refs/heads/')!r}.",
            cause="It exists, or another branch has it as a folder.",
            remedy="Choose another name.",
        )


def refuse_taken_folder(repo: Git, ref: str) -> None:
    """Refuse a branch (a full ref) for which there is no place, since a branch has the name of one of its folders.

    Raises:
        Conflict: There is one.
    """
    folders = [folder.as_posix() for folder in PurePosixPath(ref).parents if folder.is_relative_to("refs/heads")]
    taken = next((name for name in folders[:-1] if read(repo, name) is not None), "").removeprefix("refs/heads/")
    if taken:
        raise Conflict(
            f"Cannot create the branch {ref.removeprefix('refs/heads/')!r}: there is a branch {taken!r}.",
            cause="Git cannot have a branch whose folder has the name of another one.",
            remedy=f"Give that one another name: git branch -m {quote(taken)} NAME",
        )


def _try_to_create(repo: Git, ref: str, base_sha: str) -> bool:
    try:
        return compare_and_swap(repo, ref, base_sha, "", why="corral: worktree")
    except GitFailed:
        delete(repo, ref, base_sha)  # a killed git may have created it anyway
        raise


class RawChange(NamedTuple):
    """How a path differs between two commits or trees; a mode of six zeros: it is missing on that side."""

    path: str
    old_mode: str
    old_blob: str
    new_mode: str
    new_blob: str


def raw_changes(git: Git, a: str, b: str, *specs: str) -> list[RawChange]:
    """The paths that differ between two commits or trees, of these pathspecs if there are any; a rename is its two paths."""
    if not specs and (few := _few_changes(git, a, b)) is not None:
        return list(few)
    return _parsed(git.check("diff-tree", *_RAW, oid(a), oid(b), "--", *specs))


_RAW = ("-r", "-z", "--raw", "--no-abbrev", "--no-renames")
_FEW = 1 << 16
"""Bytes of git's answer up to which it is remembered."""


def _few_changes(git: Git, a: str, b: str) -> tuple[RawChange, ...] | None:
    """What is known of two commits already, or is asked now; None: that is too much to remember."""
    return _asked_once(git.git_dir, oid(a), oid(b)) if git.work_tree is None else None


@lru_cache(maxsize=256)
def _asked_once(git_dir: Path, a: str, b: str) -> tuple[RawChange, ...] | None:
    result = Git(git_dir).run("diff-tree", *_RAW, a, b, "--", most=_FEW)
    if not result.ok and len(result.stdout) <= _FEW:
        raise result.failure()
    return tuple(_parsed(result)) if result.ok else None


def _parsed(result: Result) -> list[RawChange]:
    tokens = result.names
    parts = ((path, meta.removeprefix(":").split(" ")) for meta, path in zip(tokens[0::2], tokens[1::2], strict=True))
    return [RawChange(path, old, old_blob, new, new_blob) for path, (old, new, old_blob, new_blob, _) in parts]


def empty_tree(like: str) -> str:
    """The object name of the empty tree, as long as another one; git knows it without storing it."""
    return _EMPTY_TREE[len(like)]


def diff(git: Git, a: str, b: str, paths: Sequence[str], *, most: int) -> bytes:
    """The difference between two commits or trees in these paths, as a patch; runs no external programs.

    Args:
        most: Bytes of it; of a longer one there is a little more than that.
    """
    literal = [f":(literal){path}" for path in paths]
    options = ("--no-renames", "--no-ext-diff", "--no-textconv")
    result = git.run("diff-tree", "-r", "-p", *options, oid(a), oid(b), "--", *literal, most=most)
    if not result.ok and len(result.stdout) <= most:
        raise result.failure()
    return result.stdout


def blobs(git: Git, shas: Iterable[str]) -> list[str]:
    """The contents of blobs as text, in the given order."""
    return [content.decode("utf-8", "surrogateescape") for content in contents(git, shas)]


def contents(git: Git, shas: Iterable[str]) -> list[bytes]:
    """The contents of blobs, in the given order.

    Raises:
        GitFailed: One is missing: the clone is a partial one, or damaged.
    """
    names = [oid(sha) for sha in shas]
    answer = git.check("cat-file", "--batch", input="".join(f"{sha}\n" for sha in names).encode()).stdout
    read, at = list[bytes](), 0
    for sha in names:
        begin = answer.index(b"\n", at) + 1
        if answer[at:begin].endswith(b" missing\n"):
            raise GitFailed(f"git cat-file failed: {sha} is missing.", cause="The clone is a partial one, or damaged.")
        at = begin + int(answer[at:begin].split()[2])
        read.append(answer[begin:at])
        at += 1
    return read


def show_file(git: Git, commit: str, path: str) -> bytes | None:
    """The content of a file in a commit, or None where there is no such file."""
    if path.startswith(("/", "./", "../")) or "\0" in path:
        raise InvalidInput(f"{path[:80]!r} is not a path inside the repository.")
    result = git.run("cat-file", "blob", f"{oid(commit)}:{path}")
    if result.ok:
        return result.stdout
    if result.rc == 128 and git.run("cat-file", "-e", f"{commit}^{{commit}}").ok:
        return None
    raise result.failure()


def branch_tip(repo: Git, branch: str) -> str | None:
    """The commit of a branch; None if there is none, or this cannot be the name of one."""
    try:
        return read(repo, branch_ref(branch))
    except InvalidInput:
        return None
