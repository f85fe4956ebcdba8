"""The folder, project and session that a command acts on. Loads no framework: some commands run without it."""

from __future__ import annotations

import itertools
import os
from enum import Enum
from pathlib import Path
from typing import ClassVar

from corral.client.connection import Client
from corral.config.paths import Project, find_project
from corral.errors import InvalidInput


class Format(str, Enum):
    """The form of a command's output."""

    HUMAN = "human"
    JSON = "json"
    TABLE = "table"

    def __str__(self) -> str:
        return self.value


class Common:
    """The options that every command has; once per process."""

    directory: ClassVar[str] = ""
    output: ClassVar[Format | None] = None
    quiet: ClassVar[bool] = False
    verbose: ClassVar[bool] = False
    debug: ClassVar[bool] = False

    @classmethod
    def update(
        cls,
        *,
        directory: str = "",
        output: Format | None = None,
        quiet: bool = False,
        verbose: bool = False,
        debug: bool = False,
    ) -> None:
        """Add options of the command line to those that were given before."""
        cls.directory = directory or cls.directory
        cls.output = output or cls.output
        cls.quiet |= quiet
        cls.debug |= debug
        cls.verbose |= verbose or debug
        if cls.verbose:
            from corral.cli.terminal.trace import start_trace

            start_trace(in_full=cls.debug)


def wants_json(arguments: list[str]) -> bool:
    """Whether a command line asks for JSON, and so for its errors as JSON too."""
    pairs = itertools.pairwise(arguments)
    return bool({"--json", "--output=json"} & {*arguments}) or ("--output", "json") in pairs


def here() -> Path:
    """The folder that the command acts in."""
    try:
        folder = Path(Common.directory or Path.cwd())
    except FileNotFoundError as error:
        raise InvalidInput(
            "The current folder does not exist any more.", remedy="Change to an existing folder."
        ) from error
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a folder.")
    return folder


def project() -> Project:
    """The project that the command acts on."""
    return find_project(here())


def client(*, autostart: bool = True) -> Client:
    """A client of that project's daemon."""
    return Client(project(), autostart=autostart)


def session_id() -> str | None:
    """The Claude Code session that runs this command, if any."""
    return os.environ.get("CORRAL_SESSION_ID") or os.environ.get("CLAUDE_CODE_SESSION_ID") or None


def author() -> dict[str, str]:
    """The author of commits made for the caller where git's configuration has no identity."""
    name = os.environ.get("GIT_AUTHOR_NAME") or os.environ.get("GIT_COMMITTER_NAME")
    email = os.environ.get("GIT_AUTHOR_EMAIL") or os.environ.get("GIT_COMMITTER_EMAIL")
    return {"author_name": name, "author_email": email} if name and email else {}
