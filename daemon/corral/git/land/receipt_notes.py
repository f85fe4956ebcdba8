"""Receipts as git notes: what is known of a landed commit, in the repository itself, for every clone that fetches them.

A note is one JSON object about the commit that it is attached to. Whoever can write the ref can write any note: a check says
whether a note fits its commit and the history, never who wrote it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from corral.core.errors import NotFound
from corral.git import refs
from corral.git.commits import CORRAL
from corral.git.process.command import Git

REF = "refs/notes/corral/receipts"
PASSED, COVERED = "passed", "covered"
FETCH = "git fetch REMOTE 'refs/notes/corral/*:refs/notes/corral/*'"


@dataclass(frozen=True)
class Check:
    """What a commit's receipt says, and what of it does not fit.

    Attributes:
        status: ``passed``, ``covered``, ``unverified``, …; as the receipt has it.
        problems: What contradicts the repository; none: the receipt fits.
        receipt: All of it.
    """

    commit: str
    tree: str
    status: str
    problems: list[str]
    receipt: dict[str, Any]

    @property
    def is_proven(self) -> bool:
        """Whether it fits, and says that this commit was verified, or is below one that was."""
        return not self.problems and self.status in (PASSED, COVERED)


def write(repo: Git, receipts: Mapping[str, Mapping[str, Any]], at: datetime) -> None:
    """Attach receipts to commits, all in one commit of the notes' ref. One that proves less replaces no other.

    Raises:
        GitFailed: Git could not, for example since a commit is gone.
    """
    weaker = without(repo, [sha for sha, receipt in receipts.items() if receipt["status"] != PASSED])
    new = {sha: receipt for sha, receipt in receipts.items() if receipt["status"] == PASSED or sha in weaker}
    if not new:
        return
    before = refs.read(repo, REF)
    message = f"corral: {len(new)} receipt{'s' if len(new) > 1 else ''}\n"
    lines = [f"commit {REF}", f"committer {CORRAL.name} <{CORRAL.email}> {int(at.timestamp())} +0000", _data(message)]
    lines += [f"from {before}"] if before else []
    for sha, receipt in new.items():
        lines += [f"N inline {refs.oid(sha)}", _data(json.dumps(receipt, indent=2) + "\n")]
    repo.check("fast-import", "--quiet", "--done", input="\n".join([*lines, "done", ""]).encode())


def _data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}"


def without(repo: Git, shas: Sequence[str]) -> list[str]:
    """Which of these commits are there and have no receipt.

    Raises:
        GitFailed: The notes could not be read.
    """
    if not shas:
        return []
    has_notes = refs.read(repo, REF) is not None
    noted = repo.must("notes", f"--ref={REF}", "list").splitlines() if has_notes else []
    left = sorted(set(shas) - {line.split(" ")[1] for line in noted})
    names = "".join(f"{sha}\n" for sha in left).encode()
    kinds = repo.must("cat-file", "--batch-check=%(objecttype)", input=names).splitlines() if left else []
    return [sha for sha, kind in zip(left, kinds, strict=True) if kind == "commit"]


def _note(git: Git, sha: str) -> str | None:
    if refs.read(git, REF) is None:
        return None
    listed = git.run("notes", f"--ref={REF}", "list", refs.oid(sha))
    return git.check("cat-file", "blob", listed.text.strip()).text if listed.ok else None


def check(git: Git, commit: str) -> Check:
    """Hold the receipt of a commit against the repository; needs nothing else.

    Args:
        commit: What a user types for it.

    Raises:
        NotFound: There is no such commit, or no receipt of it here.
    """
    sha = refs.resolve(git, commit)
    tree = git.must("rev-parse", "--verify", f"{sha}^{{tree}}")
    text = _note(git, sha)
    if text is None:
        raise NotFound(
            f"There is no receipt of {sha[:12]} here.",
            cause="It did not land through Corral, or the notes were not fetched.",
            remedy=f"Fetch them: {FETCH}",
        )
    try:
        receipt = json.loads(text)
    except ValueError:
        receipt = None
    if not isinstance(receipt, dict):
        return Check(sha, tree, "", ["The note is no receipt."], {})
    status = str(receipt.get("status"))
    return Check(sha, tree, status, [*_problems(git, sha, tree, status, receipt)], receipt)


def _problems(git: Git, sha: str, tree: str, status: str, receipt: Mapping[str, Any]) -> Iterable[str]:
    if receipt.get("commit") != sha:
        yield f"It is the receipt of another commit: {str(receipt.get('commit'))[:12]}."
    if receipt.get("tree") != tree:
        yield f"It names the tree {str(receipt.get('tree'))[:12]}; the commit's is {tree[:12]}."
    verified = receipt.get("verified")
    by, verified_tree = (
        (str(verified.get(name)) for name in ("commit", "tree")) if isinstance(verified, dict) else ("", "")
    )
    if status in (PASSED, COVERED) and (receipt.get("exit_code") != 0 or not receipt.get("commands")):
        yield "It names no command that ended well."
    if status == PASSED and (by, verified_tree) != (sha, tree):
        yield "Not this commit's tree was verified."
    if status == COVERED:
        commit = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{by}^{{commit}}")
        if not commit.ok or commit.text.strip() != by:
            yield f"The commit that was verified is not here: {by[:12]}."
        elif git.must("rev-parse", "--verify", f"{by}^{{tree}}") != verified_tree:
            yield f"Not the tree of {by[:12]} was verified."
        elif by == sha or not refs.is_ancestor(git, sha, by):
            yield f"{by[:12]}, which was verified, does not contain it."
        elif not _says_passed(git, by):
            yield f"{by[:12]} has no receipt here that says that it passed."


def _says_passed(git: Git, sha: str) -> bool:
    try:
        receipt = json.loads(_note(git, sha) or "")
    except ValueError:
        return False
    return isinstance(receipt, dict) and receipt.get("status") == PASSED
