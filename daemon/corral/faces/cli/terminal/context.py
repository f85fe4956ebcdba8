"""The folder, project and session that a command acts on. Loads little: some commands run at each prompt."""

from __future__ import annotations

import itertools
import os
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from corral.config import account
from corral.config.paths import Project, find_guarded, find_project
from corral.core.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from corral.client.connection import Client

VARIABLE = "CORRAL_PROFILE"
"""The chosen profile; the same name as in :mod:`corral.config.custom.profiles`, which most commands need not load."""


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
    profile: ClassVar[str | None] = None
    ignored_told: ClassVar[bool] = False

    @classmethod
    def update(
        cls,
        *,
        directory: str = "",
        output: Format | None = None,
        quiet: bool = False,
        verbose: bool = False,
        debug: bool = False,
        profile: str | None = None,
    ) -> None:
        """Add options of the command line to those that were given before."""
        if profile:
            cls.profile = os.environ[VARIABLE] = (
                profile  # for what this command reads itself, and for a daemon it starts
            )
        cls.directory = directory or cls.directory
        cls.output = output or cls.output
        cls.quiet |= quiet
        cls.debug |= debug
        cls.verbose |= verbose or debug
        if cls.verbose:
            from corral.faces.cli.terminal.trace import start_trace

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


def guarded_project() -> Project:
    """The same, also while a branch without settings is checked out: its daemon may run, and can be asked and stopped."""
    return find_guarded(here())


def client(*, autostart: bool = True) -> Client:
    """A client of that project's daemon. Settings in the environment that do not count are told, once, on stderr.

    Raises:
        NotFound: The chosen profile does not exist.
        Conflict: The daemon runs with another profile.
    """
    from corral.client.connection import ONE_WORKERS, Client  # help pages need none

    where = guarded_project()
    profile = os.environ.get(VARIABLE) or None
    if profile:
        require_profile(where, profile)
    may_set = any(name.startswith("CORRAL_") and name not in (*ONE_WORKERS, VARIABLE) for name in os.environ)
    speaker = Client(where, autostart=autostart, profile=profile, on_daemon=_tell_ignored if may_set else None)
    if profile or may_set:
        speaker.health()
    return speaker


def _tell_ignored(speaker: Client) -> None:
    """Say which settings of this command's environment do not count, because the daemon runs with others."""
    from corral.faces.cli.terminal.variables import ignored  # loads all settings

    if not Common.ignored_told:
        Common.ignored_told = True
        for line in ignored(speaker):
            print(line, file=sys.stderr)


def require_profile(where: Project, name: str) -> None:
    """Refuse a profile that no configuration file has.

    Raises:
        NotFound: There is no such profile.
        InvalidInput: The profiles of a file are not usable.
    """
    from corral.config.custom.profiles import ProfileError, declared, named
    from corral.config.load import read_layers

    try:
        known = declared(read_layers(where, account.home()))
    except ProfileError as error:
        raise InvalidInput(
            f"{error.field}: {error}.", remedy="Correct it; `corral config validate` checks it."
        ) from error
    if name not in known:
        raise NotFound(
            f"There is no profile {name!r}.",
            cause=f"In the configuration files {named(known)}.",
            remedy="Name one of them, or add it below `profiles:`; `corral config profiles` lists them.",
        )


def session_id() -> str | None:
    """The Claude Code session that runs this command, if any."""
    return os.environ.get("CORRAL_SESSION_ID") or os.environ.get("CLAUDE_CODE_SESSION_ID") or None


def author() -> dict[str, str]:
    """The author of commits made for the caller where git's configuration has no identity."""
    name = os.environ.get("GIT_AUTHOR_NAME") or os.environ.get("GIT_COMMITTER_NAME")
    email = os.environ.get("GIT_AUTHOR_EMAIL") or os.environ.get("GIT_COMMITTER_EMAIL")
    return {"author_name": name, "author_email": email} if name and email else {}
