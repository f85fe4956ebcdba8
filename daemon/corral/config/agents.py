"""Agent definitions: the project's ``.claude/agents/*.md``, and the plugin's own.

They are Claude Code's files: a front matter, then the instructions. Corral reads these further fields:

```yaml
capabilities: [python, sql]       # what its tasks may require
runner: opencode                  # executes its tasks instead of Claude Code: `anthropic`, or a name for `command`
runner_model: google/gemini-3-flash
command: [opencode, run, --model, "{model}", --auto]    # an argument list; no shell; the prompt is its standard input
runner_env: {OPENCODE_DISABLE_AUTOUPDATE: "1"}          # variables for that command
limits: {timeout_s: 900, max_cost_usd: 2}               # of an attempt; also max_turns, max_tokens, memory_mb
version: 1.2.0                    # of this text, and what it changes; see `corral agent versions`
changelog: Asks for a test first.
```
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from corral.config.document import DocumentError, message_of, read_mapping, reason_of
from corral.config.load import read_file
from corral.config.paths import Project, bundle_dir
from corral.config.teams import Line, Name, Words, field_path
from corral.core.errors import ConfigInvalid

# -- Limits of one attempt, as an agent's definition and a task give them


class TaskLimits(BaseModel):
    """Limits of one attempt; None is no limit. The time limit is ``TaskSubmission.timeout_s``."""

    model_config = ConfigDict(extra="forbid")

    max_turns: int | None = Field(default=None, gt=0, description="Turn limit of a task with a prompt.")
    max_tokens: int | None = Field(default=None, gt=0, description="Token limit of a task with a prompt.")
    max_cost_usd: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="Cost limit in USD of a task with a prompt."
    )
    memory_mb: int | None = Field(default=None, gt=0, description="Memory limit of its processes.")


CLAUDE = "claude"
"""The default runner of an agent."""
ANTHROPIC = "anthropic"
"""The other runner that needs no command of a definition's own."""
MODEL = "{model}"
"""Placeholder for the model in an agent's command."""
MAX_BYTES = 60_000
"""Maximum size: the whole becomes one argument of a program, and Linux allows 128 KiB."""
MAX_LISTED = 4096
"""Separators in a list that is written as words with commas."""
MAX_NOTE = 2000
"""Characters of a version or a changelog."""
MAX_FILES = 1000
"""Matches a folder and everything below it; the folder may be a link to anywhere."""
PLUGIN = "plugin"
PROJECT = "project"

_FENCE = re.compile(r"---[ \t]*\n(.*?\n)??---[ \t]*(?:\n|$)", re.DOTALL)
_LOOSE = re.compile(r"^([\w-]+):[ \t]+(?=[*&!%@`]|[^\"'\[{|>\s].*:(?:[ \t]|$))(.*\S)[ \t]*$", re.MULTILINE)
_COMMA = re.compile(r",(?![^(]*\))")
_PROGRAM = re.compile(r"/.*|[^/]+")


def _split_list(value: Any) -> Any:
    """Parse ``Read, Bash(git *)`` as a list; ``*`` means all tools, as if the field were missing."""
    if isinstance(value, str) and len(value) <= MAX_LISTED:
        names = [name.strip() for name in _COMMA.split(value) if name.strip()]
        return None if names == ["*"] else names
    return value


def _line(value: Any) -> Any:
    """Other programs may use a field of the same name for anything: only a short text counts."""
    return value.strip() if isinstance(value, str) and 0 < len(value.strip()) <= MAX_NOTE else None


def _own_choice(value: Any) -> Any:
    return None if value == "inherit" else value


Listed = Annotated[list[Line] | None, BeforeValidator(_split_list)]
Argument = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=r"^[^\x00]*$")]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class AgentLimits(TaskLimits):
    """Limits of one attempt of an agent, with its time limit in seconds."""

    timeout_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class AgentDefinition(BaseModel):
    """One agent, as its file defines it.

    Attributes:
        instructions: The text below the front matter.
        model: The model inside Claude Code; None leaves it to the settings.
        runner: The runner of its tasks: ``claude``, ``anthropic``, or a name for ``command``.
        runner_model: The model of that command, or of ``anthropic`` instead of ``model``.
        command: A program and its arguments; ``{model}`` stands for the model.
        runner_env: Environment variables; Corral's own win.
        limits: Limits of an attempt; a task's own win.
        content: The whole text of the file.
        file: That file.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    name: Name
    description: Words
    instructions: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    model: Annotated[Line | None, BeforeValidator(_own_choice)] = None
    tools: Listed = None
    disallowedTools: Listed = None
    skills: Listed = None
    mcpServers: Any = None
    hooks: Any = None
    effort: Any = None
    maxTurns: Annotated[int, Field(ge=1)] | None = None
    capabilities: Annotated[list[Line], BeforeValidator(_split_list)] = []
    runner: Line = CLAUDE
    runner_model: Line | None = None
    command: list[Argument] = []
    runner_env: dict[Variable, Argument] = {}
    limits: AgentLimits = AgentLimits()
    version: Annotated[str | None, BeforeValidator(_line)] = None
    changelog: Annotated[str | None, BeforeValidator(_line)] = None
    content: str = Field(default="", repr=False)
    file: Path | None = None

    @model_validator(mode="after")
    def _check_startable(self) -> AgentDefinition:
        if self.runner in (CLAUDE, ANTHROPIC) and self.command:
            raise ValueError(f"the runner {self.runner} takes no `command`: name a `runner` of its own for it")
        if self.runner not in (CLAUDE, ANTHROPIC) and not self.command:
            text = "use claude or anthropic, or name the program in `command`"
            raise ValueError(f"there is no runner {self.runner!r}: {text}")
        if self.command and not _PROGRAM.fullmatch(self.command[0]):
            raise ValueError("the program of `command` must be a name on the PATH, or absolute")
        if MODEL in self.command and self.runner_model is None:
            raise ValueError(f"`command` uses {MODEL}, but `runner_model` is missing")
        return self

    @property
    def content_hash(self) -> str:
        """SHA-256 of its text, hexadecimal: the identity of this version of it."""
        return hashlib.sha256(self.content.encode()).hexdigest()

    @property
    def own_limits(self) -> dict[str, float]:
        """The limits that it sets, by name."""
        limits: dict[str, float] = self.limits.model_dump(exclude_none=True)
        return {**({"max_turns": self.maxTurns} if self.maxTurns else {}), **limits}

    def for_claude(self) -> dict[str, Any]:
        """The definition as Claude Code reads it, without isolation and permission mode: Corral sets both."""
        fields = {"tools", "disallowedTools", "skills", "mcpServers", "hooks", "effort"}
        values = self.model_dump(mode="json", include=fields, exclude_none=True)
        return {"description": self.description, "prompt": self.instructions, **values}


@dataclass(frozen=True)
class DefinitionFile:
    """A file with a definition, or its error.

    Attributes:
        source: ``project`` or ``plugin``.
    """

    name: str
    file: Path
    source: str
    definition: AgentDefinition | None = None
    error: ConfigInvalid | None = None


ON_REQUEST = frozenset({"OpenCode-Builder.md"})
"""Shipped definitions that send code to another provider; offered only to users who ask."""


def find_definitions(project: Project) -> list[DefinitionFile]:
    """Every definition of the project, then of the plugin; a file without a front matter is none.

    Of the plugin only those that it also offers to Claude Code: a definition that sends code to another provider counts
    only if a person asked ``corral init`` for a copy in the project.
    """
    own = [] if project.bare else _below(project.root / ".claude" / "agents", PROJECT)
    shipped = _below(bundle_dir() / ".claude" / "agents", PLUGIN)
    return [*own, *(item for item in shipped if item.file.name not in ON_REQUEST)]


def read_definition(file: Path) -> AgentDefinition | None:
    """Read one file; None if it is missing, or has no front matter.

    Raises:
        ConfigInvalid: ``details["errors"]`` lists every error: ``field`` and ``reason``.
    """
    try:
        data = read_file(file)
    except OSError as error:
        raise _invalid(file, [("", f"cannot be read: {error.strerror or error}")]) from error
    if data is None:
        return None
    if len(data) > MAX_BYTES:
        raise _invalid(file, [("", f"is larger than {MAX_BYTES // 1000} KB")])
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise _invalid(file, [("", f"is not UTF-8 (byte {error.start})")]) from error
    return parse_definition(text, file)


def parse_definition(text: str, file: Path) -> AgentDefinition | None:
    """Read the text of a definition; None if it has no front matter.

    Args:
        file: The file that it is, or was, in.

    Raises:
        ConfigInvalid: As :func:`read_definition`.
    """
    fenced = _FENCE.match(text)
    if fenced is None:
        return None
    try:
        body = {"instructions": text[fenced.end() :], "content": text, "file": file}
        return AgentDefinition.model_validate({**_front(fenced[1] or ""), **body})
    except DocumentError as error:
        raise _invalid(file, [("", str(error))]) from error
    except ValidationError as error:
        faults = [
            (field_path(item["loc"]), reason_of(item) if item["loc"] else message_of(item))
            for item in error.errors(include_url=False)
        ]
        raise _invalid(file, faults) from error


def _below(folder: Path, source: str) -> list[DefinitionFile]:
    files = sorted(islice(folder.rglob("*.md"), MAX_FILES))
    return [item for file in files if (item := _read_definition_file(file, source)) is not None]


def _read_definition_file(file: Path, source: str) -> DefinitionFile | None:
    try:
        definition = read_definition(file)
    except ConfigInvalid as error:
        return DefinitionFile(file.stem, file, source, error=error)
    return DefinitionFile(definition.name, file, source, definition) if definition else None


def _front(text: str) -> dict[str, Any]:
    """Parse the front matter. If it is not YAML (``description: Use when: …``), values are plain text, as in Claude
    Code.
    """
    try:
        return read_mapping(text.encode())
    except DocumentError:
        loose = _LOOSE.sub(lambda line: f"{line[1]}: {json.dumps(line[2], ensure_ascii=False)}", text)
        if loose == text:
            raise
        return read_mapping(loose.encode())


def _invalid(file: Path, faults: list[tuple[str, str]]) -> ConfigInvalid:
    return ConfigInvalid(
        f"The agent definition {file.name} is not valid.",
        cause="; ".join(f"{field}: {reason}" if field else reason for field, reason in faults),
        remedy=f"Correct {file}.",
        details={"file": str(file), "errors": [{"field": field, "reason": reason} for field, reason in faults]},
    )
