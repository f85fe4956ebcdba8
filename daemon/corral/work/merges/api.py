"""Merge requests: what is answered of their changes, and of sessions with what they made."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import NotRequired, TypedDict

from corral.coordination.sessions.api import NamedSession
from corral.work.merges.wire import MergeSummary

WithPatch = Annotated[
    bool, Field(description="Whether the patch is answered, beside how many lines of each file changed.")
]


class FileChange(TypedDict):
    """A changed file and the numbers of its lines; null for a binary file, and for one that is over 1 MiB."""

    path: str
    added: int | None
    removed: int | None


class ChangedFiles(TypedDict):
    """The changes between two states.

    ``uncommitted``: with what no commit has; ``files`` are the first 1,000, ``files_changed`` is the number of all. ``patch`` is
    in git's format, null where only the numbers were asked for; ``truncated``: it or the list of files is cut. ``note`` says why
    there are no changes, where none can be there.
    """

    uncommitted: bool
    files: list[FileChange]
    files_changed: int
    lines_added: int
    lines_removed: int
    patch: str | None
    truncated: bool
    note: str | None


class Changes(ChangedFiles):
    """The changes of a task or a merge request; ``state``: the status of the task, or the state of the request.

    ``head_sha`` is null where they end in a worktree, and where there are none.
    """

    merge_id: str | None
    task_id: str | None
    title: str
    state: str
    base_sha: str | None
    head_sha: str | None


class SessionCommit(TypedDict):
    """A commit that a session made; ``branch`` is null where none was checked out."""

    sha: str
    subject: str
    branch: str | None


class Changesets(TypedDict):
    """The last commits and merge requests of a session, the oldest first; ``left_out``: how many older ones there are."""

    commits: list[SessionCommit]
    merges: list[MergeSummary]
    left_out: NotRequired[int]


class SessionDetail(NamedSession):
    """A session with what it made."""

    changesets: Changesets
