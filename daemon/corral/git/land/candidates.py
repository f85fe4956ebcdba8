"""Candidates: the commit that would be the target's next tip, created without a checkout, in one of four shapes.

``merge``
    The head itself where that only moves the target forward, else a commit with the tip and the head as parents.
``squash``
    One commit upon the tip, with all that the head brings.
``rebase``
    The head's own commits, one upon the other. A merge among them cannot be replayed: what its author resolved is in no
    other commit. So all up to the last merge becomes one commit, and what follows is replayed. Commits that change
    nothing any more are left out.
``fast-forward``
    The head itself, or nothing.

Every merge reads ``.gitattributes`` and ``.gitmodules`` from a scratch folder with the tip's files only, so that no checkout
can change its result; names and dates are arguments, so that the same merge is the same commit.
"""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from corral.core.errors import GitFailed, Unsupported
from corral.core.identifiers import check_name
from corral.git import commits, refs
from corral.git.commits import CORRAL, Author, is_usable
from corral.git.process import scratch
from corral.git.process.command import Git, Identity, Outcome, Result

_KINDS = {
    "contents": "content",
    "distinct modes": "mode",
    "rename involved in collision": "rename/collision",
    "directory rename suggested": "directory rename",
    "directory rename unclear split": "directory rename",
    "file location": "directory rename",
}
_ATTEMPTS = 3
_GITS_OWN_FAULT = "merge-ort.c:"
"""Names the place in an assertion that failed."""

Style = Literal["merge", "squash", "rebase", "fast-forward"]

MOST_REPLAYED = 200
"""Commits of one branch that are replayed, each by a handful of processes."""


@dataclass(frozen=True)
class Candidate:
    """A commit to verify and land, and the shape that it has come to have."""

    sha: str
    tree: str
    style: Style = "merge"


@dataclass(frozen=True)
class PathConflict:
    """One path that could not be merged, and how: ``content``, ``add/add``, ``modify/delete``, ``binary``, …"""

    path: str
    kind: str


@dataclass(frozen=True)
class Conflicted:
    """The merge has conflicts; ``text`` is git's description of them."""

    paths: list[PathConflict]
    text: str

    @property
    def in_words(self) -> str:
        """What conflicts, in one line."""
        return ", ".join(f"{item.path} ({item.kind})" for item in self.paths) or self.text


class Behind(Conflicted):
    """The head lacks commits of the tip, so that it cannot land by a fast-forward: it has to be merged first."""


class Aborted(Conflicted):
    """Git fails at these two commits by a fault of its own, here and in any checkout, however often; no path is to blame."""


def build(
    repo: Git,
    tip_sha: str,
    head_sha: str,
    message: str,
    identity: Identity,
    at: datetime,
    *,
    style: Style = "merge",
    begun_on: Iterable[str] = (),
    plain: set[str] | None = None,
) -> Candidate | Conflicted | None:
    """Bring ``head_sha`` upon ``tip_sha`` as a commit that no ref names yet; hold it before relying on it.

    None: nothing of the head is missing in the tip.

    Args:
        tip_sha: The target's tip, first parent of what is built.
        head_sha: The commit to land.
        message: Of the one commit that a shape makes; commits that are replayed keep theirs.
        identity: The committer, and the author of a merge. Other commits keep their authors.
        at: The date of the commit, and of a merge's author (aware).
        begun_on: Commits that the head was made on and the tip lacks, although it has what became of their work (squashed,
            or done in another way): the changes since them are brought alone.
        plain: Commits that are known to have no ``.gitattributes``; grows.

    Raises:
        Unsupported: The histories are unrelated, or too shallow to tell; there are too many commits to replay; or git is too old.
        GitFailed: The merge could not be tried, which says nothing about the head.
    """
    base = refs.merge_base(repo, tip_sha, head_sha)
    below = [
        sha for sha in begun_on if refs.is_ancestor(repo, sha, head_sha) and not refs.is_ancestor(repo, sha, tip_sha)
    ]
    if base == head_sha or head_sha in below:
        return None
    if base == tip_sha and not below and style in ("merge", "fast-forward"):
        tree = repo.must("rev-parse", "--verify", f"{head_sha}^{{tree}}")
        return Candidate(head_sha, tree, "fast-forward")
    if base is None:
        raise _no_common_history(repo)
    if style == "fast-forward":
        return Behind([], "")
    known = set[str]() if plain is None else plain
    with _scratch_of(repo, tip_sha, known) as scratch:
        for attempt in range(_ATTEMPTS):
            try:
                built = _SHAPES[style](
                    _Work(repo, scratch, tip_sha, head_sha, (tip_sha, *below) if below else (), message, identity, at)
                )
                if (
                    isinstance(built, Candidate)
                    and tip_sha in known
                    and not _brings_attributes(repo, tip_sha, built.sha)
                ):
                    known.add(built.sha)
                return built
            except GitFailed as error:  # a user's `gc --prune=now` may delete what no ref names yet
                if attempt + 1 == _ATTEMPTS or error.details.get("rc", 0) < 0:
                    raise
    raise AssertionError("unreachable")


@dataclass(frozen=True)
class _Work:
    """What is to be built, see :func:`build`."""

    repo: Git
    scratch: Git
    tip: str
    head: str
    bases: tuple[str, ...]
    message: str
    identity: Identity
    at: datetime

    def tree(self, sha: str) -> str:
        return self.repo.must("rev-parse", "--verify", f"{sha}^{{tree}}")

    def merged(self, ours: str, theirs: str, bases: tuple[str, ...] = ()) -> Conflicted | str:
        """The tree of a merge; ``bases``: what to take for what both have in common."""
        if bases:  # git before 2.40 has no `merge-tree --merge-base`: our side becomes a child of them
            ours = commits.create(self.repo, self.tree(ours), bases, "", CORRAL, self.at)
        return _parse(self.scratch.run("merge-tree", "--write-tree", "-z", "--messages", ours, theirs, timeout_s=300))

    def commit(self, tree: str, *parents: str, message: str | None = None, author: Author | None = None) -> str:
        text = self.message if message is None else message
        return commits.create(self.repo, tree, parents, text, self.identity, self.at, author=author)


class _Step(NamedTuple):
    sha: str
    tree: str
    parents: list[str]
    author: Author | None
    message: str


_FIELDS = "%H%x00%T%x00%P%x00%an%x00%ae%x00%ad%x00%B"


def _steps(work: _Work) -> list[_Step]:
    """The commits of the head that the tip lacks, along its first parents, oldest first."""
    without = [f"^{sha}" for sha in (work.tip, *work.bases)]
    options = (
        "--first-parent",
        "--reverse",
        f"--max-count={MOST_REPLAYED + 1}",
        "--date=raw",
        "--encoding=UTF-8",
        "-z",
    )
    parts = work.repo.check("log", *options, f"--format={_FIELDS}", work.head, *without, "--").text.split("\0")
    steps = list[_Step]()
    for at in range(0, len(parts) - 1, 7):
        sha, tree, parents, name, email, date, message = parts[at : at + 7]
        writer = Identity(name, email)
        steps.append(
            _Step(sha, tree, parents.split(), Author(writer, f"@{date}") if is_usable(writer) else None, message)
        )
    return steps


def _as_merge(work: _Work) -> Candidate | Conflicted | None:
    tree = work.merged(work.tip, work.head, work.bases)
    return tree if isinstance(tree, Conflicted) else Candidate(work.commit(tree, work.tip, work.head), tree)


def _as_squash(work: _Work) -> Candidate | Conflicted | None:
    tree = work.merged(work.tip, work.head, work.bases)
    if isinstance(tree, Conflicted):
        return tree
    if tree == work.tree(work.tip):
        return None
    return Candidate(work.commit(tree, work.tip, author=_steps(work)[-1].author), tree, "squash")


def _as_rebase(work: _Work) -> Candidate | Conflicted | None:
    steps, current, tree = _steps(work), work.tip, work.tree(work.tip)
    if len(steps) > MOST_REPLAYED:
        raise Unsupported(
            f"The branch has more than {MOST_REPLAYED} commits to replay.",
            cause="`landing.style` is `rebase`.",
            remedy="Make them fewer (`git rebase --interactive`) and submit the branch again, or let it land by `squash`.",
        )
    last_merge = max((place for place, step in enumerate(steps) if len(step.parents) != 1), default=-1)
    for place, step in enumerate(steps[max(last_merge, 0) :], max(last_merge, 0)):
        is_merge = place == last_merge
        if not is_merge and step.parents == [current]:
            current, tree = step.sha, step.tree
            continue
        merged = work.merged(current, step.sha, work.bases if is_merge else (step.parents[0],))
        if isinstance(merged, Conflicted):
            return merged
        if merged != tree:
            message = work.message if is_merge else step.message
            current, tree = work.commit(merged, current, message=message, author=step.author), merged
    style: Style = "fast-forward" if current == work.head else "rebase"
    return Candidate(current, tree, style) if current != work.tip else None


_SHAPES: dict[str, Callable[[_Work], Candidate | Conflicted | None]] = {
    "merge": _as_merge,
    "squash": _as_squash,
    "rebase": _as_rebase,
}


def hold(repo: Git, merge_id: str, sha: str) -> None:
    """Protect a commit from garbage collection and power cuts, and make it findable after a crash."""
    repo.flush()
    repo.check("update-ref", "-m", "corral: candidate", _hold_ref(merge_id), refs.oid(sha))


def release(repo: Git, merge_id: str) -> None:
    """Delete the ref of a candidate; it may be gone already."""
    repo.check("update-ref", "--no-deref", "-d", _hold_ref(merge_id))


def _hold_ref(merge_id: str) -> str:
    return f"refs/corral/mq/{check_name(merge_id, 'merge request')}"


def _no_common_history(repo: Git) -> Unsupported:
    if (repo.common_dir / "shallow").exists():
        return Unsupported(
            "The branch and its target have no common history in this shallow clone.",
            cause="The clone was made with --depth.",
            remedy="Run `git fetch --unshallow`, then `corral merge retry`.",
        )
    return Unsupported(
        "The branch and its target have no history in common.",
        cause="The branch was made from another repository, or as an orphan.",
        remedy="Recreate the work on a branch of the target.",
    )


def _brings_attributes(repo: Git, before: str, after: str) -> bool:
    """Whether two commits differ in a file that says how to merge, or where submodules are."""
    names = (".gitattributes", ".gitmodules")
    return any(path.rpartition("/")[2] in names for path in refs.changed_paths(repo, before, after))


@contextlib.contextmanager
def _scratch_of(repo: Git, tip_sha: str, plain: set[str]) -> Iterator[Git]:
    """A scratch work tree with those files of the tip that decide merges; git 2.39 has no other option for their source.

    By ``.gitmodules`` git finds the commits of a submodule, of which it takes the later one where both sides moved it.

    Args:
        plain: Commits that are known to have no such file; this one is added if it has none.
    """
    changes = list[refs.RawChange]()
    if tip_sha not in plain:
        changes = refs.raw_changes(repo, refs.empty_tree(tip_sha), tip_sha, ":(glob)**/.gitattributes", ".gitmodules")
    if not changes:
        plain.add(tip_sha)
    with scratch.folder(repo) as folder:
        for path, _, _, mode, blob in changes:
            if mode.startswith("100"):  # git reads neither through a symbolic link
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(repo.check("cat-file", "blob", blob).stdout)
        yield Git(repo.common_dir, folder)


def _parse(merged: Result) -> Conflicted | str:
    """Parse the output: the conflict, or the tree."""
    if merged.rc == 129:
        raise Unsupported(
            "This git is too old to merge without a checkout.",
            cause="`git merge-tree --write-tree` came with git 2.38.",
            remedy="Install git 2.38 or newer, then `corral daemon restart`.",
        )
    if merged.rc == -signal.SIGABRT and _GITS_OWN_FAULT in merged.stderr:
        return Aborted([], merged.stderr.strip())
    if merged.outcome not in (Outcome.OK, Outcome.CONFLICT):
        raise merged.failure()
    tree, *rest = merged.text.split("\0")
    return tree if merged.ok else _parse_conflicts(*_sections(rest))


_Stages = dict[str, dict[int, tuple[str, str]]]
"""path -> stage -> (mode, object)."""
_Message = tuple[list[str], str, str]
"""(paths, type, text)."""


def _sections(tokens: list[str]) -> tuple[_Stages, list[_Message]]:
    stages: _Stages = {}
    position = 0
    while position < len(tokens) and tokens[position]:
        meta, _, path = tokens[position].partition("\t")
        mode, blob, stage = meta.split(" ")
        stages.setdefault(path, {})[int(stage)] = (mode, blob)
        position += 1
    messages: list[_Message] = []
    position += 1
    while position < len(tokens) and tokens[position]:
        if not tokens[position].isdigit():  # advice about submodules follows the records, in no fixed form
            messages.append(([], "", tokens[position]))
            break
        count = int(tokens[position])
        paths = tokens[position + 1 : position + 1 + count]
        kind, text = tokens[position + 1 + count : position + 3 + count]
        messages.append((paths, kind, text))
        position += 3 + count
    return stages, messages


def _parse_conflicts(stages: _Stages, messages: list[_Message]) -> Conflicted:
    kinds: dict[str, str] = {}
    for paths, kind, _ in messages:
        match = re.fullmatch(r"CONFLICT \((.*)\)", kind)
        if match:
            # A message also names paths of which nothing is left to resolve; only a conflict that is of no file has no others.
            for path in [path for path in paths if path in stages or not stages]:
                name = _KINDS.get(match[1], match[1])
                if kinds.get(path, "content") == "content":
                    kinds[path] = "submodule" if name.startswith("submodule") else name
    for path, by_stage in stages.items():
        if kinds.get(path, "content") == "content":
            kinds[path] = _kind_by_stages(by_stage)
    text = "".join(message if message.endswith("\n") else message + "\n" for _, _, message in messages)
    return Conflicted([PathConflict(path, kinds[path]) for path in sorted(kinds)], text)


def _kind_by_stages(stages: dict[int, tuple[str, str]]) -> str:
    if any(mode == "160000" for mode, _ in stages.values()):
        return "submodule"
    if set(stages) == {2, 3}:
        return "add/add"
    if 2 in stages and 3 in stages and stages[2][1] == stages[3][1]:
        return "mode"
    return "content"


# -- Merge drivers: programs of this clone's configuration that merge the files for which ``.gitattributes`` names
# them.
#
# They cannot be switched off, and no other clone need have them: what they may have merged is told.


def used(checkout: Git, tip_sha: str) -> dict[str, list[str]]:
    """The files in which the commit of a checkout differs from a tip and that a configured driver merges, by its name."""
    listed = checkout.run("config", "--name-only", "--get-regexp", r"^merge\..*\.driver$").text.splitlines()
    drivers = {key.removeprefix("merge.").removesuffix(".driver") for key in listed}
    head = checkout.head()
    if not drivers or head is None:
        return {}
    paths = "\0".join(refs.changed_paths(checkout, tip_sha, head)).encode("utf-8", "surrogateescape")
    fields = checkout.check("check-attr", "-z", "--stdin", "merge", input=paths).text.split("\0")
    paths_of: dict[str, list[str]] = {}
    for path, driver in zip(fields[::3], fields[2::3], strict=False):
        if driver in drivers:
            paths_of.setdefault(driver, []).append(path)
    return paths_of
