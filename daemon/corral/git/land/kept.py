"""Landed work is held by refs of Corral's own, so that a target that is rewound loses nothing.

For each target ``refs/corral/landed/tips/<target>`` is at the last commit that landed on it. A commit of that ref that the
target has no more gets a ref of its own, named for the instant and the commit: below ``lost/`` until a person has decided
about it, below ``kept/`` afterwards, and where the target has the same content under other commits.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from corral.core.errors import GitFailed
from corral.core.instants import UTC
from corral.git import refs
from corral.git.process.command import Git
from corral.git.refs import Change

PREFIX = "refs/corral/landed/"
TIPS, LOST, KEPT = "tips", "lost", "kept"
_AT = "%Y%m%dT%H%M%SZ"
_ASIDE = re.compile(r"(\d{8}T\d{6}Z)-([0-9a-f]+)")
_LONGEST_FOLDER = 200
MOST_COMPARED = 2000
"""Commits whose content is compared; where more differ, all of them count as missing."""


@dataclass(frozen=True)
class Aside:
    """A tip that a target lost: its ref, its commit, and when that was noticed (aware UTC)."""

    ref: str
    sha: str
    at: datetime


@dataclass(frozen=True)
class Held:
    """The commits held of a target: the last landed tip (``""``: none), then lost and kept tips, oldest first."""

    tip: str
    lost: tuple[Aside, ...]
    kept: tuple[Aside, ...]


@dataclass(frozen=True)
class Reach:
    """The commits that a tip has and a target has not.

    Attributes:
        parents: Of each of these commits.
        absent: Those without a counterpart on the target: one with the same patch, or the same commit rewritten (the author,
            the author's time and the subject are the same); None: not compared, so that all count.
    """

    parents: dict[str, list[str]]
    absent: frozenset[str] | None

    def only(self, head: str, seen: set[str]) -> set[str]:
        """The commits that ``head`` reaches among these, but for those in ``seen``, which grows by them."""
        commits, rest = set[str](), [head]
        while rest:
            sha = rest.pop()
            if sha in self.parents and sha not in seen:
                seen.add(sha)
                commits.add(sha)
                rest += self.parents[sha]
        return commits

    def is_missing(self, commits: Collection[str]) -> bool:
        """Whether the content of some commits is missing; merges count only where nothing else is among them."""
        plain = {sha for sha in commits if len(self.parents[sha]) < 2}
        return self.absent is None or not plain or not plain.isdisjoint(self.absent)


def folder(target: str) -> str:
    """A target (short name) as one part of a ref, so that neither of the targets ``a`` and ``a/b`` is in the other's way."""
    quoted = target.replace("%", "%25").replace("/", "%2F")
    data = quoted.encode("utf-8", "surrogateescape")
    return quoted if len(data) <= _LONGEST_FOLDER else f"%{hashlib.sha256(data).hexdigest()}"


def tip_ref(target: str) -> str:
    """The ref at the last commit that landed on a target (short name)."""
    return f"{PREFIX}{TIPS}/{folder(target)}"


def aside_ref(target: str, state: str, sha: str, at: datetime) -> str:
    """The ref of a tip that a target lost; ``state`` is :data:`LOST` or :data:`KEPT`."""
    return f"{PREFIX}{state}/{folder(target)}/{at.astimezone(UTC):{_AT}}-{sha}"


def parse(ref: refs.Ref) -> Aside | None:
    """A ref below ``lost/`` or ``kept/``; None if its name is not one that Corral gives, or names another commit."""
    match = _ASIDE.fullmatch(ref.name.rpartition("/")[2])
    if match is None or match[2] != ref.sha:
        return None
    return Aside(ref.name, ref.sha, datetime.strptime(match[1], _AT).replace(tzinfo=UTC))


def held(repo: Git, target: str) -> Held:
    """The commits held of a target (short name)."""
    name, tip = folder(target), tip_ref(target)
    by_state = {state: list[Aside]() for state in (LOST, KEPT)}
    text = repo.must(
        "for-each-ref", "--format=%(refname) %(objectname)", tip, *(f"{PREFIX}{state}/{name}/" for state in by_state)
    )
    tip_sha = ""
    for line in text.splitlines():
        ref, _, sha = line.rpartition(" ")
        if ref == tip:
            tip_sha = sha
        elif (aside := parse(refs.Ref(ref, sha, datetime.now(UTC)))) is not None:
            by_state[ref.removeprefix(PREFIX).partition("/")[0]].append(aside)
    return Held(tip_sha, tuple(by_state[LOST]), tuple(by_state[KEPT]))


def advance(repo: Git, target: str, tip: str, descends_from: str, now: datetime) -> None:
    """Hold what has just landed on a target; what the ref had, and the target lost meanwhile, gets a ref of its own.

    Args:
        target: Short name.
        tip: The target's commit.
        descends_from: A commit that ``tip`` descends from for sure; ``""``: none.

    Raises:
        GitFailed: It is not held.
    """
    ref = tip_ref(target)
    before = refs.read(repo, ref) or ""
    if before == tip:
        return
    changes = [Change(ref, tip, before)]
    if before and before != descends_from and refs.exists(repo, before) and not refs.is_ancestor(repo, before, tip):
        changes.append(Change(aside_ref(target, LOST, before, now), before, ""))
    if not refs.change(repo, changes, why="corral: landed"):
        raise GitFailed(f"{ref} moved while {target} landed.")


def signature(repo: Git, ref: str) -> tuple[object, ...]:
    """A value that changes when a ref moves, computed without starting a process."""
    loose = repo.loose(ref)
    if loose is not None:
        return (loose,)
    parts: list[object] = []
    for place in (repo.common_dir / "packed-refs", repo.common_dir / "reftable" / "tables.list"):
        try:
            stat = place.stat()
        except OSError:
            parts.append(None)
        else:
            parts.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
    return tuple(parts)


def inside(repo: Git, target: str, tip: str) -> frozenset[str]:
    """The names of the refs that hold something of a target and that its tip contains."""
    prefixes = (f"{PREFIX}{state}/{folder(target)}/" for state in (LOST, KEPT))
    text = repo.must("for-each-ref", f"--merged={refs.oid(tip)}", "--format=%(refname)", tip_ref(target), *prefixes)
    return frozenset(text.splitlines())


def is_on_a_branch(repo: Git, sha: str) -> bool:
    """Whether any branch, here or as a remote's was last seen, contains a commit."""
    places = ("refs/heads/", "refs/remotes/")
    return bool(repo.must("for-each-ref", f"--contains={refs.oid(sha)}", "--count=1", *places))


def reach(repo: Git, lost: str, tip: str | None) -> Reach:
    """Compare a lost tip with what its target is at now; None: the target is gone."""
    without = [f"^{refs.oid(tip)}"] if tip else []
    lines = repo.must("rev-list", "--parents", refs.oid(lost), *without).splitlines()
    parents = {sha: rest for sha, *rest in (line.split(" ") for line in lines)}
    return Reach(parents, _absent(repo, lost, tip) if tip else None)


def _absent(repo: Git, lost: str, tip: str) -> frozenset[str] | None:
    sides = f"{tip}...{lost}"
    counts = repo.must("rev-list", "--left-right", "--count", sides).split()
    if sum(map(int, counts)) > MOST_COMPARED:
        return None
    tree = repo.must("rev-parse", "--verify", f"{lost}^{{tree}}")
    if tree in repo.must("log", "--format=%T", tip, f"^{lost}").split():
        return frozenset()  # squashed, or rewritten in another order: the target has, or had, exactly these files
    text = repo.must(
        "log", "--cherry-mark", "--left-right", "--no-merges", "--format=%m%x00%H%x00%ae%x00%at%x00%s", sides
    )
    rows = [line.split("\0") for line in text.split("\n") if line]
    rewritten = {tuple(row[2:]) for row in rows if row[0] == "<"}
    return frozenset(row[1] for row in rows if row[0] == ">" and tuple(row[2:]) not in rewritten)
