"""Candidates: the commit that would be the target's next tip, created without a checkout.

The merge reads ``.gitattributes`` from a scratch folder with the tip's files only, so that no dirty checkout can change
its result; names and dates are arguments, so that the same merge is the same commit.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from corral.core.errors import GitFailed, Unsupported
from corral.core.identifiers import check_name
from corral.git import commits, refs
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


@dataclass(frozen=True)
class Candidate:
    """A commit to verify and land."""

    sha: str
    tree: str


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


def build(
    repo: Git,
    tip_sha: str,
    head_sha: str,
    message: str,
    identity: Identity,
    at: datetime,
    *,
    begun_on: Iterable[str] = (),
) -> Candidate | Conflicted | None:
    """Merge ``head_sha`` into ``tip_sha`` as a commit that no ref names yet; hold it before relying on it.

    If the tip is an ancestor of the head, the candidate is the head itself; None: the head is already part of the tip.

    Args:
        tip_sha: The target's tip, first parent of the merge.
        head_sha: The commit to land.
        begun_on: Commits that the head was made on and the tip lacks, although it has what became of their work (squashed,
            or done in another way): the changes since them are merged alone.
        identity: Author and committer.
        at: Both dates (aware).

    Raises:
        Unsupported: The histories are unrelated, or too shallow to tell; or git is too old.
        GitFailed: The merge could not be tried, which says nothing about the head.
    """
    base = refs.merge_base(repo, tip_sha, head_sha)
    if base == head_sha:
        return None
    below = [
        sha for sha in begun_on if refs.is_ancestor(repo, sha, head_sha) and not refs.is_ancestor(repo, sha, tip_sha)
    ]
    if base == tip_sha and not below:
        tree = repo.must("rev-parse", "--verify", f"{head_sha}^{{tree}}")
        return Candidate(head_sha, tree)
    if base is None:
        raise _no_common_history(repo)
    ours = _as_if_merged(repo, tip_sha, below, identity, at) if below else tip_sha
    with _attributes_of(repo, tip_sha) as scratch:
        for attempt in range(_ATTEMPTS):
            result = scratch.run("merge-tree", "--write-tree", "-z", "--messages", ours, head_sha, timeout_s=300)
            merged = _parse(result)
            if isinstance(merged, Conflicted):
                return merged
            try:
                sha = commits.create(repo, merged, (tip_sha, head_sha), message, identity, at)
            except GitFailed:  # a user's `gc --prune=now` may delete the new tree before the commit names it
                if attempt + 1 == _ATTEMPTS:
                    raise
                continue
            return Candidate(sha, merged)
    raise AssertionError("unreachable")


def _as_if_merged(repo: Git, tip_sha: str, below: list[str], identity: Identity, at: datetime) -> str:
    """A commit with the tip's tree that has these commits among its parents: what git before 2.40, which has no
    ``merge-tree --merge-base``, takes them for merge bases by. No ref ever names it."""
    tree = repo.must("rev-parse", "--verify", f"{tip_sha}^{{tree}}")
    return commits.create(repo, tree, (tip_sha, *below), "What became of the work below", identity, at)


def hold(repo: Git, merge_id: str, sha: str) -> None:
    """Protect a candidate from garbage collection, and make it findable after a crash."""
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


@contextlib.contextmanager
def _attributes_of(repo: Git, tip_sha: str) -> Iterator[Git]:
    """A scratch work tree with the tip's ``.gitattributes`` files; git 2.39 has no other option for their source."""
    changes = refs.raw_changes(repo, refs.empty_tree(tip_sha), tip_sha, ":(glob)**/.gitattributes")
    with scratch.folder(repo) as folder:
        for path, _, _, mode, blob in changes:
            if mode.startswith("100"):  # git reads no attributes through a symbolic link
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
            # A message also names paths that only one side had; those with stages are the ones to resolve.
            for path in [path for path in paths if path in stages] or paths:
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
