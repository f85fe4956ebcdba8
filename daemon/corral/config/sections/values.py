"""Types of single settings, and what every section has in common."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

DAY_S = 86_400
_BRANCH = re.compile(r"[^\x00-\x20\x7f~^:?*\[\\-][^\x00-\x20\x7f~^:?*\[\\]{0,199}")
"""Excludes options and revision expressions; git itself decides whether the name is valid."""
_REMOTE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
"""Neither an option nor an address, which git would take in place of a name."""


@dataclass(frozen=True)
class Places:
    """The folders that path settings are relative to; passed to validation as its context."""

    root: Path
    home: Path


def upper(value: Any) -> Any:
    """In capital letters, where it is text."""
    return value.upper() if isinstance(value, str) else value


def _as_list(value: Any) -> Any:
    """Accept a single command without a list, and treat a list whose entries are all commented out as empty."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else value


def _not_empty(command: str) -> str:
    lines = (line.strip() for line in command.splitlines())
    if not any(line and not line.startswith("#") for line in lines) or "\0" in command:
        raise ValueError("a command must not be empty")
    return command


def _branch(name: str) -> str:
    if not _BRANCH.fullmatch(name):
        raise ValueError("this cannot be the name of a branch")
    return name


def _remote(name: str) -> str:
    if not _REMOTE.fullmatch(name):
        raise ValueError("this cannot be the name of a remote")
    return name


def _address(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or not text.isascii() or not text.isprintable():
        raise ValueError("this is no address that begins with https:// or http://")
    if parts.username is not None or parts.password is not None:
        raise ValueError("an address with a name or a password in it is not used")
    _ = parts.port  # raises ValueError
    return text


MESSAGE_FIELDS = ("title", "branch", "target", "task", "merge", "commits")
_FIELD = re.compile(r"\{(\w*)\}")


def _message(template: str) -> str:
    if not template.strip().split("\n")[0] or "\0" in template:
        raise ValueError("a message must not be empty")
    if unknown := [name for name in _FIELD.findall(template) if name not in MESSAGE_FIELDS]:
        raise ValueError(
            f"there is no {{{unknown[0]}}}; there are {', '.join(f'{{{name}}}' for name in MESSAGE_FIELDS)}"
        )
    return template


def filled(template: str, values: Mapping[str, str]) -> str:
    """A message with its fields replaced; what stands in a value is no field."""
    return _FIELD.sub(lambda field: values[field[1]], template)


def expanded(path: str, info: ValidationInfo) -> str:
    """A path with the home folder for a ``~`` at its beginning."""
    if info.context is not None and (path == "~" or path.startswith("~/")):
        return f"{info.context.home}{path[1:]}"
    return path


def runnable(command: str, info: ValidationInfo) -> str:
    """Validate a program: a bare name is looked up on the PATH when it is needed; a path must name an existing file."""
    command = expanded(command, info)
    if info.context is None or "/" not in command:
        return command
    file = info.context.root / command
    if shutil.which(file) is None:
        raise ValueError("there is no such program" if not file.exists() else "the file is not executable")
    return str(file)


Command = Annotated[str, AfterValidator(_not_empty)]
Commands = Annotated[list[Command], BeforeValidator(_as_list)]
Globs = Annotated[list[Annotated[str, Field(min_length=1, max_length=512)]], BeforeValidator(_as_list)]
Address = Annotated[str, Field(max_length=2000), AfterValidator(_address)]
Branch = Annotated[str, AfterValidator(_branch)]
Remote = Annotated[str, AfterValidator(_remote)]
Seconds = Annotated[float, Field(gt=0, le=30 * DAY_S)]
Days = Annotated[int, Field(ge=1, le=36_500)] | None
MessageTemplate = Annotated[str, Field(max_length=4000), AfterValidator(_message)]
Pause = Annotated[float, Field(ge=0, le=30 * DAY_S)]


class Section(BaseModel):
    """A section of the settings. An unknown key is no error here: loading warns of it."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", allow_inf_nan=False)
