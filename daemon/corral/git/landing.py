"""Move a target branch to a commit that was built on it: by compare-and-swap, or through the checkout that has it.

Never forced, and never harmful to a checkout: ``merge --ff-only`` keeps changes that do not overlap and refuses the rest;
ignored files count as the user's, which for git they do not unless it is told. What it leaves when it fails half-way is
given back (``halfway``).
A ref that is moved under a checkout would make that checkout look as if it undid the landing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from corral.errors import InvalidInput
from corral.git import halfway, refs, worktree_list
from corral.git.command import Git, Outcome, Result, open_checkout

_LEFT_HALFWAY = "holds files of a landing that failed half-way and cannot be put back yet"


@dataclass(frozen=True)
class Landed:
    """The commit is reachable from the target."""

    sha: str


@dataclass(frozen=True)
class Moved:
    """The target is no longer where the candidate was built, or is gone."""


@dataclass(frozen=True)
class InTheWay:
    """A checkout has the target and cannot take the commit now. Nothing changed; trying again later is right."""

    reason: str
    paths: list[str]


def land(repo: Git, target_ref: str, new_sha: str, old_sha: str) -> Landed | Moved | InTheWay:
    """Land ``new_sha``, which descends from ``old_sha``, on a target that is at ``old_sha`` (``""``: has no commit yet).

    Safe to repeat after a crash: a commit that is reachable already has landed.

    Raises:
        InvalidInput: ``new_sha`` does not descend from ``old_sha``.
        GitFailed: It could not be tried.
    """
    current = refs.read(repo, target_ref)
    forward = (current or "") == old_sha and (not old_sha or refs.is_ancestor(repo, old_sha, new_sha))
    if current is not None and (new_sha == current or not forward) and refs.is_ancestor(repo, new_sha, current):
        return Landed(new_sha)
    if (current or "") != old_sha:
        return Moved()
    if not forward:
        raise InvalidInput(f"{new_sha} does not descend from {old_sha}.", cause="Landing never rewrites a branch.")
    blocked = _rewritten_elsewhere(repo, target_ref)
    if blocked:
        return blocked
    having = worktree_list.holding(repo, target_ref)
    if len(having) > 1:
        places = ", ".join(str(entry.path) for entry in having)
        return InTheWay(f"{target_ref} is checked out in several worktrees: {places}", [])
    if having and not having[0].path.is_dir():
        return InTheWay(f"{target_ref} is checked out in {having[0].path}, which cannot be reached", [])
    if having:
        return _through(repo, having[0].path, target_ref, new_sha, old_sha)
    if refs.compare_and_swap(repo, target_ref, new_sha, old_sha, why="corral: landed"):
        return Landed(new_sha)
    return Moved()


def _through(repo: Git, path: Path, target_ref: str, new_sha: str, old_sha: str) -> Landed | Moved | InTheWay:
    checkout = open_checkout(path)
    if checkout.branch() != target_ref:
        return InTheWay(f"{path} is just switching branches", [])
    stuck = halfway.give_back(checkout)  # of a landing that was killed
    if stuck:
        return InTheWay(f"{path} {_LEFT_HALFWAY}", stuck)
    try:
        halfway.remember(checkout, old_sha, new_sha)
    except OSError as error:
        return InTheWay(f"nothing can be written in {checkout.git_dir}: {error.strerror}", [])
    result = checkout.run(
        "merge", "--ff-only", "--no-overwrite-ignore", "--no-autostash", "--no-verify-signatures", "--no-stat", "--quiet",
        refs.oid(new_sha), timeout_s=600,
    )  # fmt: skip
    now = refs.read(repo, target_ref)
    if now is not None and refs.is_ancestor(repo, new_sha, now):
        halfway.forget(checkout)
        return Landed(new_sha)
    stuck = halfway.give_back(checkout)
    if stuck:
        return InTheWay(f"{_reason(path, result)}; {path} {_LEFT_HALFWAY}", stuck)
    if "Not possible to fast-forward" in result.stderr:
        return Moved()
    if result.outcome is Outcome.LOCK:
        return InTheWay(f"a git command is running in {path}, or was killed there and left its lock", [])
    # Without a word it is no refusal: an object is missing, e.g. taken by a `gc --prune=now` before it was held.
    if result.stderr.strip() and (result.outcome is Outcome.REFUSED or result.rc == 128):
        return InTheWay(_reason(path, result), _named_paths(result.stderr))
    raise result.failure()


def _reason(path: Path, result: Result) -> str:
    if "would be overwritten" in result.stderr or "would lose untracked" in result.stderr:
        return f"uncommitted changes in {path} overlap with what would land"
    said = next((line for line in result.stderr.splitlines() if line.strip()), f"exit code {result.rc}")
    return f"{path}: {said.removeprefix('error: ').removeprefix('fatal: ')}"


def _named_paths(stderr: str) -> list[str]:
    # Git lists the paths one a line, indented by a tab, unquoted.
    return sorted({line[1:] for line in stderr.split("\n") if line.startswith("\t")})


def _rewritten_elsewhere(repo: Git, target_ref: str) -> InTheWay | None:
    """A rebase of the target, somewhere: its end would fail, or undo the landing."""
    for admin in worktree_list.admin_dirs(repo):
        for state in ("rebase-merge", "rebase-apply"):
            try:
                name = (admin / state / "head-name").read_text(errors="surrogateescape").strip()
            except OSError:
                continue
            if name == target_ref:
                return InTheWay(f"{target_ref} is being rebased in {worktree_list.folder_of(admin)}", [])
    return None
