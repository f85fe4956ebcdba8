"""Templates of tasks, and the one that a project was prepared from: what is answered."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import NotRequired, TypedDict

from corral.core.answers import FieldError, Instant
from corral.core.states import Combine, RunnerName


class ListedTemplate(TypedDict):
    """A task template; ``kind``: what its tasks have, null where ``problem`` says why it cannot be used."""

    name: str
    file: str
    description: str
    kind: Literal["steps", "command", "prompt"] | None
    parameters: list[str]
    problem: str | None


class TemplateParameter(TypedDict):
    """A parameter; ``choices`` null: any value of its type; ``default``: there is one unless it is ``required``."""

    required: bool
    type: Literal["string", "integer", "number", "boolean", "list"]
    description: str
    choices: list[Any] | None
    default: NotRequired[Any]


class TemplateLimits(TypedDict, total=False):
    """The limits that a template sets for each attempt; null: none."""

    timeout_s: float | None
    max_turns: int | None
    max_tokens: int | None
    max_cost_usd: float | None
    memory_mb: int | None


class TemplateWork(TypedDict, total=False):
    """What is done, as the file says it; what it does not say is absent. ``loop`` has the fields of a task's."""

    title: str | None
    command: str | None
    prompt: str | None
    agent: str | None
    agent_version: str | None
    runner: RunnerName | None
    capabilities: list[str]
    agents: int | None
    combine: Combine | None
    claims: list[str]
    limits: TemplateLimits
    priority: int | None
    task_type: str | None
    target: str | None
    max_retries: int | None
    loop: dict[str, Any] | None


class TemplateStep(TemplateWork):
    """A step; ``for_each``: a list, or the parameter that has it."""

    name: str
    wait_for: NotRequired[list[str]]
    for_each: NotRequired[Any]
    ignore_dependency_failure: NotRequired[bool]


class TaskTemplate(TemplateWork):
    """A task template in full; ``parameters`` by name."""

    name: str
    description: NotRequired[str]
    parameters: dict[str, TemplateParameter]
    steps: NotRequired[list[TemplateStep] | None]
    file: str


class TemplateError(FieldError):
    """An error in a file of a template; ``line``: from 1, null: it belongs to none."""

    file: str
    line: int | None


class TemplatesChecked(TypedDict):
    """The errors of some templates; ``checked``: how many files were read."""

    valid: bool
    checked: int
    errors: list[TemplateError]


FileState = Literal["unchanged", "changed", "missing"]
"""How a file of a project stands to its template's."""


class FileDiff(TypedDict):
    """A file of the project beside the template's; ``diff`` is empty unless it was changed."""

    path: str
    state: FileState
    diff: str


class TemplateDiff(TypedDict):
    """What a project changed of its template's files."""

    source: str
    version: str
    commit: str
    files: list[FileDiff]


class TemplateVerified(TypedDict):
    """A template whose checksums hold; ``remote``: its version in the repository now, ``files``: the project's, by path.

    ``signer`` null: no signature was looked at.
    """

    source: str
    version: str
    commit: str
    signer: str | None
    remote: Literal["unknown", "same", "moved on"]
    files: dict[str, FileState]


UpdateAction = Literal["same", "add", "replace", "merge", "remove", "keep", "conflict"]


class FileUpdate(TypedDict):
    """What an update does with a file; ``reason`` is empty where nothing is to be said."""

    path: str
    action: UpdateAction
    reason: str


class Brought(TypedDict):
    """What a template runs on this machine, or permits."""

    file: str
    what: str
    runs: str


_From = TypedDict("_From", {"from": str})


class TemplatePlan(_From):
    """An update of a template; without ``files`` there is nothing newer. ``runs``: what the new version brings that runs."""

    source: str
    to: str
    commit: str
    files: list[FileUpdate]
    runs: list[Brought]
    remarks: list[str]


class TemplateUpdated(TemplatePlan):
    """An update that was made; ``backup``: the folder of the former files, ``left``: those that were changed meanwhile."""

    backup: str
    left: list[str]


class TemplateRolledBack(TypedDict):
    """The files that are as before the last update, and those that stay, since they were changed meanwhile."""

    restored: list[str]
    left: list[str]


TemplateUpdate = TemplateUpdated | TemplatePlan | TemplateRolledBack
"""An update that was made, planned or undone."""


class CachedTemplate(TypedDict):
    """A version in the user's cache; ``bytes``: all versions of its source together."""

    source: str
    version: str
    name: str
    kind: Literal["tag", "branch", "commit"]
    commit: str
    fetched_at: Instant
    bytes: int


class CacheCleared(TypedDict):
    """How many templates were removed from the cache."""

    cleared: int


TemplateCache = list[CachedTemplate] | CacheCleared
"""What the cache has, or had."""
