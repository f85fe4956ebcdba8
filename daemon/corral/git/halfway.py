"""What a fast-forward that failed half-way has left in a checkout: known for what it is, and given back.

Git writes the files, then the index, then the ref, and undoes nothing when a folder is read-only, the disk is full or it is
killed. A note beside the index says which of the paths were the user's before; it outlives a crash. Only what is, byte
for byte, the commit's (a file may have been cut short) is taken for git's work: nothing that exists nowhere else goes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from corral.git import refs, status
from corral.git.command import Git, Outcome

_NOTE = "corral.landing"
_GITLINK = "160000"
_ABSENT = "000000"


@dataclass(frozen=True)
class _Step:
    """One path of the fast-forward, a submodule's excepted: what it is before and after (``_ABSENT``: not there)."""

    path: str
    old_mode: str
    old_blob: str
    new_mode: str
    new_blob: str


def remember(checkout: Git, old_sha: str, new_sha: str) -> None:
    """Note, before a fast-forward from ``old_sha`` (``""``: no commit yet), which of its paths are the user's.

    Raises:
        OSError: The note cannot be written.
    """
    dirty = {change.path for change in status.changes(checkout, untracked=False)}
    users = [
        step.path
        for step in _steps(checkout, old_sha, new_sha)
        if step.path in dirty or (step.old_mode == _ABSENT and _is_file(_top(checkout) / step.path))
    ]
    unfinished = checkout.git_dir / f"{_NOTE}.part"
    unfinished.write_bytes(os.fsencode("\0".join((old_sha, new_sha, *users))))
    unfinished.replace(checkout.git_dir / _NOTE)


def forget(checkout: Git) -> None:
    """The fast-forward has arrived: what it wrote is the checkout's."""
    (checkout.git_dir / _NOTE).unlink(missing_ok=True)


def give_back(checkout: Git) -> list[str]:
    """Put back what a noted fast-forward changed, if it did not arrive; without a note nothing happens.

    Returns:
        Paths that could not be put back yet; the note stays for them. Empty: the checkout is the user's own again.

    Raises:
        GitFailed: It could not be found out.
    """
    try:
        old_sha, new_sha, *users = os.fsdecode((checkout.git_dir / _NOTE).read_bytes()).split("\0")
    except FileNotFoundError:
        return []
    head = checkout.head()
    collected = checkout.run("cat-file", "-e", new_sha).rc == 1
    stuck: list[str] = []
    if not collected and not (head and refs.is_ancestor(checkout, new_sha, head)):
        steps = [step for step in _steps(checkout, old_sha, new_sha) if step.path not in users]
        if (head or "") == old_sha:
            stuck = _index_back(checkout, new_sha, steps)
        stuck = stuck or _files_back(checkout, new_sha, steps)
    if not stuck:
        forget(checkout)
    return stuck


def _index_back(checkout: Git, new_sha: str, steps: Sequence[_Step]) -> list[str]:
    """The index was written, but the ref did not move: its entries that are the commit's become the old ones again."""
    staged = {change.path for change in status.changes(checkout, untracked=False) if change.code[0] != "."}
    if not any(step.path in staged for step in steps):
        return []
    others = _names(checkout, "diff-index", "--cached", "-z", "--name-only", "--no-renames", new_sha)
    back = [step for step in steps if step.path in staged and step.path not in others]
    back.sort(key=lambda step: step.old_mode != _ABSENT)  # a file makes room for a folder of its name, or the reverse
    lines = "".join(f"{step.old_mode} {step.old_blob}\t{step.path}\0" for step in back)
    result = checkout.run("update-index", "-z", "--index-info", input=os.fsencode(lines))
    if result.ok:
        return []
    if result.outcome is Outcome.LOCK:
        return sorted(step.path for step in back)
    raise result.failure()


def _files_back(checkout: Git, new_sha: str, steps: Sequence[_Step]) -> list[str]:
    tracked = _names(checkout, "ls-files", "-z")
    differs = _unstaged(checkout)
    # All are compared before any changes: what a file is compared with may depend on a .gitattributes among them.
    added = [
        step.path
        for step in steps
        if step.path not in tracked and step.new_mode != _ABSENT and _is_commits(checkout, new_sha, step)
    ]
    changed = [
        step.path
        for step in steps
        if step.path in tracked & differs
        and (not _is_file(_top(checkout) / step.path) or _is_commits(checkout, new_sha, step))
    ]
    stuck = [path for path in added if not _removed(_top(checkout), path)]
    changed = [path for path in changed if _is_free(_top(checkout), path)]
    if changed and not checkout.run(
        "checkout-index", "--force", "-z", "--stdin", input=os.fsencode("".join(f"{path}\0" for path in changed)),
        timeout_s=600,
    ).ok:  # fmt: skip
        stuck += _unstaged(checkout).intersection(changed)
    return sorted(stuck)


def _unstaged(checkout: Git) -> set[str]:
    """Paths whose index entry is HEAD's, and whose file is not."""
    return {change.path for change in status.changes(checkout, untracked=False) if change.code[0] == "."}


def _is_commits(checkout: Git, new_sha: str, step: _Step) -> bool:
    """Whether what is at a path was written there from the commit, as a whole or up to where git was stopped."""
    place = _top(checkout) / step.path
    if not _is_file(place) or step.new_mode == _ABSENT:
        return False
    if step.new_mode == "120000":
        blob = checkout.check("cat-file", "blob", step.new_blob).stdout
        return place.is_symlink() and os.fsencode(os.readlink(place)) == blob  # noqa: PTH115 (a Path drops `./`)
    if place.is_symlink() or not place.is_file():  # a pipe would be waited for
        return False
    whole = checkout.run("cat-file", "--filters", f"{new_sha}:{step.path}", timeout_s=600)
    if whole.ok:
        return whole.stdout.startswith(place.read_bytes())
    # The filter that makes the file's content may be what failed; the one for the other direction needs no network.
    cleaned = checkout.run("hash-object", f"--path={step.path}", "--", step.path, timeout_s=600)
    return cleaned.text.strip() == step.new_blob


def _removed(top: Path, path: str) -> bool:
    place = top / path
    try:
        place.unlink(missing_ok=True)
    except OSError:
        return False
    with suppress(OSError):  # the first folder that is not empty
        for folder in place.parents:
            if folder == top:
                break
            folder.rmdir()
    return True


def _is_free(top: Path, path: str) -> bool:
    """Whether ``checkout-index --force`` would replace nothing at or above a path but, at most, the file itself."""
    place = top / path
    above = [folder for folder in place.parents if top in folder.parents]
    return (_is_file(place) or not os.path.lexists(place)) and not any(_is_file(folder) for folder in above)


def _is_file(place: Path) -> bool:
    """Whether something other than a folder is there."""
    return os.path.lexists(place) and (place.is_symlink() or not place.is_dir())


def _steps(checkout: Git, old_sha: str, new_sha: str) -> list[_Step]:
    old = old_sha or status.empty_tree(checkout)
    raw = checkout.check("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", old, refs.oid(new_sha)).text
    tokens = raw.split("\0")
    found = []
    for meta, path in zip(tokens[0::2], tokens[1::2], strict=False):
        old_mode, new_mode, old_blob, new_blob, _ = meta.removeprefix(":").split(" ")
        if _GITLINK not in (old_mode, new_mode):  # git moves no submodule with the rest
            found.append(_Step(path, old_mode, old_blob, new_mode, new_blob))
    return found


def _names(checkout: Git, *command: str) -> set[str]:
    return set(checkout.check(*command).text.split("\0")) - {""}


def _top(checkout: Git) -> Path:
    assert checkout.work_tree is not None
    return checkout.work_tree
