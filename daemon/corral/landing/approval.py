"""Approval by a person: for changes to the files that agents obey (instructions, hooks, settings), and to the verification.

``landing.approve`` says for which requests: those that change such a path, all, or none. A candidate that needs it is ``held``
before anything of it is verified or landed, and later requests bypass it. A person approves exactly one head; a new head needs
a new approval. Which paths these are, the target decides and not the branch.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from corral.config.sections.sharing import Landing
from corral.coordination.locks.globs import Pattern, compile_pattern
from corral.core.errors import ConfigInvalid, Conflict, InvalidInput
from corral.core.events import EventKind
from corral.core.outcomes import NEEDS_APPROVAL
from corral.core.remedies import with_remedy
from corral.core.states import OPEN_MERGES
from corral.core.visible import embedded
from corral.git import refs, tree_names
from corral.git.process.command import Git
from corral.git.tree_names import Tree
from corral.store import events
from corral.store.rows import required
from corral.store.rows.merges import MergeRow
from corral.work.merges.store import merges

MOST_NAMED = 10
"""Paths that a reason names; the rest are counted."""
MOST_LISTED = 500
"""Paths that a review lists and whose diff it shows."""
MOST_SHOWN = 400_000
"""Bytes of that diff."""
_SEPARATORS = "=:,"
"""Between an option and the path that it is given, as in ``--config=tox.ini``."""


@dataclass(frozen=True)
class Review:
    """The details that a person sees before they approve.

    Attributes:
        merge_id: The whole id.
        head_sha: The commit that an approval would hold for.
        reason: Why it needs an approval, or that it does not.
        paths: Those that need it; empty: none does.
        diff: Of these paths, as it would land.
        truncated: Whether there is more than what is given.
    """

    merge_id: str
    head_sha: str
    reason: str
    paths: list[str]
    diff: str
    truncated: bool


def missing(repo: Git, landing: Landing, merge: MergeRow, tip_sha: str, linkless: set[str]) -> str:
    """Why a request has to wait for a person; empty if it has not, or if its candidate is not known yet.

    Args:
        landing: As the target has it, never as the branch has it.
        merge: The stored row.
        tip_sha: Where the target is. Where it has moved since the candidate was built, what it does not have yet counts.
        linkless: Commits that are known to have no symbolic links; grows.

    Raises:
        ConfigInvalid: ``landing.approve_paths`` holds what is no pattern.
    """
    approved = merge["approved_sha"] == merge["head_sha"]
    if merge["candidate_sha"] is None or approved or landing.approve == "never":
        return ""
    paths = needing_approval(repo, landing, required(merge["tip_sha"]), merge["candidate_sha"], linkless)
    # Upon another request's candidate all counts that differs from it; only a tip that the target had is an old one.
    if paths and merge["tip_sha"] != tip_sha and refs.is_ancestor(repo, required(merge["tip_sha"]), tip_sha):
        still = set(refs.changed_paths(repo, tip_sha, merge["head_sha"]))
        paths = [path for path in paths if path in still]
    return _reason(merge, landing, paths) if paths or landing.approve == "always" else ""


def protected(changed: Iterable[str], landing: Landing, trees: Sequence[Tree] = ()) -> list[str]:
    """Which of these paths need a person: those of ``landing.approve_paths``, and the files that the commands name.

    Args:
        trees: The trees that the paths differ between. A path counts by every name that a symbolic link in one of them gives it.

    Raises:
        ConfigInvalid: ``landing.approve_paths`` holds what is no pattern.
    """
    patterns = [_pattern(text) for text in landing.approve_paths]
    verified_paths = {path for command in commands(landing) for path in _files_named(command)}

    def needs_person(names: Iterable[str] | None) -> bool:
        return names is None or any(
            name in verified_paths or any(pattern.matches(name) for pattern in patterns) for name in names
        )

    return [
        path for path in changed if needs_person([path]) or any(needs_person(tree.names_of(path)) for tree in trees)
    ]


def commands(landing: Landing) -> list[str]:
    """All commands that judge a request."""
    return [*landing.verify, *landing.check, *([landing.affected] if landing.affected else [])]


def _settings_of(landing: Landing) -> str:
    """The settings that have these commands."""
    names = [name for name in ("check", "affected") if getattr(landing, name)]
    return " or ".join(f"landing.{name}" for name in ("verify", *names))


def needing_approval(
    repo: Git, landing: Landing, before: str, after: str, linkless: set[str] | None = None
) -> list[str]:
    """The paths that differ between two commits and that a person has to see, the protected ones first."""
    if landing.approve == "never":
        return []
    paths = protected_between(repo, landing, before, after, linkless)
    if landing.approve == "always":
        known = set(paths)
        paths += [path for path in refs.changed_paths(repo, before, after) if path not in known]
    return paths


def protected_between(
    repo: Git, landing: Landing, before: str, after: str, linkless: set[str] | None = None
) -> list[str]:
    """Which of the paths that differ between two commits need a person; ``linkless``: see :func:`missing`."""
    changed = refs.changed_paths(repo, before, after)
    return protected(changed, landing, _trees(repo, before, after, linkless) if changed else ())


def _trees(repo: Git, before: str, after: str, linkless: set[str] | None = None) -> list[Tree]:
    """Those of two trees that have symbolic links."""
    known, trees = set[str]() if linkless is None else linkless, []
    for commit in (before, after):
        if commit == after and before in known and not _is_linked(repo, before, after):
            known.add(after)
        if commit not in known and (tree := tree_names.read(repo, commit)).links:
            trees.append(tree)
        elif commit not in known:
            known.add(commit)
    return trees


def _is_linked(repo: Git, before: str, after: str) -> bool:
    """Whether the second of two commits has a symbolic link that the first one has not."""
    return any(change.new_mode == tree_names.LINK for change in refs.raw_changes(repo, before, after))


def review(repo: Git, landing: Landing, merge: MergeRow) -> Review:
    """The changes that an approval of this request would let in.

    Raises:
        GitFailed: A commit of it is gone.
    """
    if merge["candidate_sha"] is not None:
        before, after = required(merge["tip_sha"]), merge["candidate_sha"]
    else:
        tip = refs.read(repo, refs.branch_ref(merge["target"])) or merge["head_sha"]
        before, after = refs.merge_base(repo, tip, merge["head_sha"]) or tip, merge["head_sha"]
    paths = needing_approval(repo, landing, before, after)
    listed = paths[:MOST_LISTED]
    diff = refs.diff(repo, before, after, listed, most=MOST_SHOWN) if listed else b""
    text = diff[:MOST_SHOWN].decode("utf-8", "replace")
    truncated = len(diff) > MOST_SHOWN or len(paths) > MOST_LISTED
    why = _why(repo, landing, before, after, paths)
    return Review(merge["merge_id"], merge["head_sha"], why, [embedded(path) for path in listed], text, truncated)


def _why(repo: Git, landing: Landing, before: str, after: str, paths: list[str]) -> str:
    """Why a change of these paths needs an approval, or that it does not: the setting that says so."""
    if landing.approve == "always":
        return "Every change needs an approval: `landing.approve` is `always`."
    if landing.approve == "never":
        return "It needs no approval: `landing.approve` is `never`."
    without_commands = landing.model_copy(update={"verify": [], "check": [], "affected": None})
    by_pattern = protected(paths, without_commands, _trees(repo, before, after)) if paths else []
    by_command = [path for path in paths if path not in by_pattern]
    reasons = [
        f"It changes what `{setting}` names: {_listing(names)}."
        for setting, names in (("landing.approve_paths", by_pattern), (_settings_of(landing), by_command))
        if names
    ]
    return (
        " ".join(reasons)
        or f"It needs no approval: it changes nothing that landing.approve_paths or {_settings_of(landing)} names."
    )


def approve(conn: Connection, merge_id: str, head_sha: str, paths: list[str], now: datetime) -> MergeRow:
    """Store that a person has seen a head and approves it.

    Args:
        head_sha: The commit that the person saw.
        paths: The paths that needed it; for the event.

    Raises:
        NotFound: No such merge request.
        Conflict: It has ended, or has another head by now.
    """
    merge = merges.get(conn, merge_id)
    row = merges.approve(conn, merge["merge_id"], head_sha, now)
    if row is None and merge["state"] in OPEN_MERGES:
        raise Conflict(
            f"Merge request {merge['merge_id']} has another head than the one that was seen.",
            cause=f"Its head is {merge['head_sha'][:12]}.",
            remedy=f"Look at it again: `corral merge approve {merge['merge_id'][:8]}`.",
        )
    if row is None:
        message = f"Merge request {merge['merge_id']} is {merge['state']}: there is nothing to approve."
        raise Conflict(message, cause="It has ended.", remedy="Nothing to do.")
    approved = EventKind.MERGE_APPROVED({"head_sha": head_sha, "paths": paths[:MOST_NAMED]})
    events.record(conn, now, approved, task_id=row["task_id"], merge_id=row["merge_id"])
    return row


def _listing(paths: list[str]) -> str:
    more = f" and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
    return ", ".join(embedded(path) for path in paths[:MOST_NAMED]) + more


def _reason(merge: MergeRow, landing: Landing, paths: list[str]) -> str:
    command = f"corral merge approve {merge['merge_id'][:8]}"
    what = f"it changes {_listing(paths) if paths else 'no file'}"
    if landing.approve == "always":
        what = f"`landing.approve` is `always`, and {what}"
    return with_remedy(f"{NEEDS_APPROVAL}: {what}.", f"Look, and decide: {command}")


def _pattern(text: str) -> Pattern:
    """Everything in a folder, and any link in its place: it could lead anywhere.

    Case never counts: what lands here may be checked out where the file system ignores it.
    """
    try:
        return compile_pattern(text.removesuffix("/**") or text, fold=True)
    except InvalidInput as error:
        raise ConfigInvalid(
            f"landing.approve_paths holds {text[:80]!r}, which is no pattern.",
            cause=error.cause,
            remedy="Correct it on the target branch; until then nothing lands there.",
            details={"errors": [{"field": "landing.approve_paths", "reason": error.message}]},
        ) from error


def _files_named(command: str) -> Iterator[str]:
    """Every word of a command that could be a path in the repository; a command within quotes is read too."""
    for word in _words(command):
        if word != command and any(character.isspace() for character in word):
            yield from _files_named(word)
            continue
        for separator in _SEPARATORS:
            yield from (posixpath.normpath(part) if part else "" for part in word.split(separator))


def _words(command: str) -> list[str]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        return list(lexer)
    except ValueError:  # a quote is open: the shell will say so
        return command.split()
