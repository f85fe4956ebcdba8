"""The team file ``.corral/teams.yaml``: names, roles and capabilities. Read as a whole; every error is reported at
once.

```yaml
agents:
  - name: Sisyphus
    role: coordinator
    capabilities: [planning, review]
    description: Hands out the work of a batch and merges the result.
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError

from corral.config.document import DocumentError, read_mapping, reason_of, shown, unknown_key
from corral.config.load import read_settings
from corral.config.paths import Project
from corral.core.errors import ConfigInvalid

EVERYBODY = "all"
"""The recipient that means everybody; no agent may have this name."""

_Loc = tuple[int | str, ...]


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must not contain a line break or a control character")
    return text


def _storable(text: str) -> str:
    """Refuse text that cannot be an argument of a program."""
    if "\0" in text or text.encode(errors="replace").decode() != text:
        raise ValueError("must not contain a NUL or a lone surrogate")
    return text


def _not_everybody(text: str) -> str:
    if text.casefold() == EVERYBODY:
        raise ValueError(f"cannot be `{EVERYBODY}`, which means everybody")
    return text


Words = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=20_000), AfterValidator(_storable)
]
Line = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=128), AfterValidator(_printable)
]
Name = Annotated[Line, AfterValidator(_not_everybody)]


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class TeamAgent(_Shape):
    """One agent of the team.

    Attributes:
        name: The name of its session; unique without case.
        role: A further address for messages; several agents may share it.
        capabilities: Its skills; used to find it.
        description: Its purpose.
        model: Its runner's model.
        runner: The runner of its tasks: ``claude``, ``anthropic``, ``command``, or an agent definition's own.
        instructions: Text it gets before its task.
    """

    name: Name
    role: Name
    capabilities: list[Line]
    description: Words
    model: Line | None = None
    runner: Line | None = None
    instructions: Words | None = None


class Team(_Shape):
    """The whole file; ``team`` is the team's name."""

    agents: list[TeamAgent]
    team: Line | None = None


def teams_file(project: Project) -> Path:
    """The path of the team file."""
    return project.home / "teams.yaml"


def read_team(file: Path) -> Team | None:
    """Read a team from a file; None if there is no such file.

    Raises:
        ConfigInvalid: ``details["errors"]`` lists every error: ``field`` (such as ``agents[1].role``) and ``reason``.
    """
    try:
        data = read_settings(file)
    except OSError as error:
        raise _invalid(file, [("", f"cannot be read: {error.strerror or error}")]) from error
    if data is None:
        return None
    try:
        content = read_mapping(data)
    except DocumentError as error:
        raise _invalid(file, [("", str(error))]) from error
    errors: list[tuple[str, str]] = []
    team: Team | None = None
    try:
        team = Team.model_validate(content)
    except ValidationError as error:
        errors += [(field_path(item["loc"]), _reason(item)) for item in error.errors(include_url=False)]
    errors += _check_across_fields(content.get("agents"))
    if errors or team is None:
        raise _invalid(file, errors)
    return team


def _check_across_fields(agents: Any) -> Iterator[tuple[str, str]]:
    """Checks across fields, made even if a field is invalid, so that one run reports everything."""
    if agents == []:
        yield "agents", "must name at least one agent"
    first: dict[str, int] = {}
    for at, agent in enumerate(agents if isinstance(agents, list) else []):
        name = agent.get("name") if isinstance(agent, dict) else None
        if isinstance(name, str) and name.strip():
            before = first.setdefault(name.strip().casefold(), at)
            if before != at:
                yield f"agents[{at}].name", f"is also the name of agents[{before}] ({shown(name)})"


def _reason(item: Any) -> str:
    if item["type"] == "extra_forbidden":
        return unknown_key(item, Team)
    if item["type"] == "model_type":
        required = [name for name, field in TeamAgent.model_fields.items() if field.is_required()]
        return f"must be a mapping with {', '.join(required)} (it is {shown(item['input'])})"
    return reason_of(item)


def field_path(loc: _Loc) -> str:
    """The location of a value, such as ``agents[1].role``."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _invalid(file: Path, errors: Sequence[tuple[str, str]]) -> ConfigInvalid:
    count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
    return ConfigInvalid(
        f"The team in {file.name} has {count}.",
        cause="\n".join(f"{field}: {reason}" if field else reason for field, reason in errors),
        remedy="Correct it; `corral team validate` checks it again. Until then the last valid team stays in force.",
        details={"file": str(file), "errors": [{"field": field, "reason": reason} for field, reason in errors]},
    )
