"""Write a value into one of the configuration files: validated first, with the user's comments kept."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from typing import Any

from corral.config import account
from corral.config.custom.edit import with_value
from corral.config.custom.profiles import DEFAULT
from corral.config.document import DocumentError
from corral.config.load import LOCAL_FILE, TEAM_FILE, USER_FILE, Loaded, config_files, load, read_file
from corral.config.paths import Project
from corral.config.trust import Claim, of_settings
from corral.core.errors import ConfigInvalid, InvalidInput, NotPermitted
from corral.faces.cli.project import trust as project_trust
from corral.faces.cli.project.own_files import replace_file
from corral.faces.cli.terminal.person import refuse_agents


class Place(str, Enum):
    """A configuration file."""

    TEAM = "team"
    USER = "user"
    LOCAL = "local"

    def __str__(self) -> str:
        return self.value

    @property
    def source(self) -> str:
        """The file's name in reports."""
        return {"team": TEAM_FILE, "user": USER_FILE, "local": LOCAL_FILE}[self.value]


PLACE_HELP = "File: team is .corral/config.yaml, user ~/.corral/config.yaml, local .corral/local.yaml"


def file_of(where: Project, place: Place) -> Path:
    """The path of a configuration file."""
    files = config_files(where, account.home())
    return files.get(place.source, files[TEAM_FILE])


def load_settings(where: Project, **more: Any) -> Loaded:
    """The settings as this shell's variables and the files have them.

    Raises:
        ConfigInvalid: See :func:`corral.config.load.load`.
    """
    return load(where, environ=os.environ, home=account.home(), **more)


def content_of(where: Project, place: Place) -> bytes:
    """The content of a configuration file; empty if it is missing.

    Raises:
        InvalidInput: It cannot be read.
    """
    file = file_of(where, place)
    try:
        return read_file(file) or b""
    except OSError as error:
        raise InvalidInput(f"Cannot read {file}.", cause=str(error.strerror or error)) from error


def change(where: Project, place: Place, edit: Callable[[bytes], bytes]) -> bool:
    """Change a configuration file; returns whether it has changed.

    Args:
        edit: Makes the new content from the present one.

    Raises:
        ConfigInvalid: The settings would be invalid; nothing was written.
        InvalidInput: The file cannot be edited, or cannot be written.
    """
    before = content_of(where, place)
    file = file_of(where, place)
    try:
        after = edit(before)
    except DocumentError as error:
        raise InvalidInput(
            f"Cannot change {file}: it {error}.", remedy=f"Edit it: `corral config edit --file {place}`."
        ) from error
    if after == before:
        return False
    validate(where, place, after)
    write(file, after)
    return True


def validate(where: Project, place: Place, content: bytes) -> None:
    """Check the settings with another content of a file, for each profile.

    Raises:
        ConfigInvalid: They would be invalid.
    """
    from corral.config.custom.profiles import ProfileError, declared
    from corral.config.document import read_mapping
    from corral.config.load import read_layers

    loaded = load_settings(where, instead={place.source: content}, profile=DEFAULT)
    assert loaded is not None
    try:
        layers = {**read_layers(where, account.home()), place.source: read_mapping(content)}
        names = [*declared(layers)]
    except ProfileError as error:
        raise ConfigInvalid(f"{error.field}: {error}.", details={"errors": []}) from error
    for name in names:
        load_settings(where, instead={place.source: content}, profile=name)


def write(file: Path, content: bytes) -> None:
    """Replace a configuration file.

    Raises:
        InvalidInput: It cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, content)
    except OSError as error:
        raise InvalidInput(
            f"Cannot write {file}.",
            cause=str(error.strerror),
            remedy="Make it writable, or free space; nothing was changed.",
        ) from error


def approve_own(where: Project, claims: Iterable[Claim]) -> None:
    """Approve what a person just wrote, whatever else decides there; what an agent wrote waits for ``corral trust``."""
    if not (own := list(claims)):
        return
    try:
        refuse_agents("Approving commands", "corral trust")
    except NotPermitted:
        print("Nothing runs it until a person has approved it: corral trust", file=sys.stderr)
        return
    project_trust.store().approve(where.common_dir, own)
    project_trust.tell_daemon(where)


def claims_of(where: Project, place: Place, key: str, value: Any) -> list[Claim]:
    """What one value would execute, if nothing but its file set it."""
    alone: dict[str, bytes] = {other.source: b"" for other in Place}
    alone[place.source] = with_value(b"", key.split("."), value)
    return of_settings(load(where, environ={}, home=account.home(), profile=DEFAULT, instead=alone), where.root)
