"""A dry run of the verification: what is asked for, and what is answered."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from corral.core.states import ReceiptStatus


class DryRunWanted(BaseModel):
    """How long a dry run may take."""

    timeout_s: float = Field(900, gt=0, le=86400, examples=[900])


class MissingFile(TypedDict):
    """A file that a fresh worktree lacks; one that git does not ignore is not committed. A folder ends in ``/``."""

    path: str
    ignored: bool


class DryRun(TypedDict):
    """How a dry run ended.

    ``reason``: of the first run that was not green; ``log``: the file; ``needed``: with these files of the main checkout the
    commands pass; ``suspected``: they fail still; ``unfinished``: the time that the caller gave was over before the commands
    ended, so nothing is known about them. ``inputs`` and ``note`` are a receipt's; the fields of ``inputs`` are free.
    """

    status: ReceiptStatus
    reason: str | None
    log: str
    inputs: dict[str, Any]
    needed: list[MissingFile]
    suspected: list[MissingFile]
    unfinished: bool
    note: str | None
