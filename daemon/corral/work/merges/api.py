"""Merge requests: what is answered of their changes."""

from __future__ import annotations

from typing_extensions import TypedDict


class FileChange(TypedDict):
    """A changed file and the numbers of its lines; null for a binary file, and for one that is over 1 MiB."""

    path: str
    added: int | None
    removed: int | None


class Changes(TypedDict):
    """The changes of a task or a merge request; ``state``: the status of the task, or the state of the request.

    ``head_sha`` is null where they end in a worktree; ``uncommitted`` says so. ``files`` are the first 1,000, ``files_changed``
    is the number of all. ``patch`` is in git's format, null where only the numbers were asked for; ``truncated``: it or the list
    of files is cut. ``note`` says why there are no changes, where none can be there.
    """

    merge_id: str | None
    task_id: str | None
    title: str
    state: str
    base_sha: str | None
    head_sha: str | None
    uncommitted: bool
    files: list[FileChange]
    files_changed: int
    lines_added: int
    lines_removed: int
    patch: str | None
    truncated: bool
    note: str | None
