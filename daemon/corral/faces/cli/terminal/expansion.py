"""Expand an alias at the place of a command, before the command line is read."""

from __future__ import annotations

import os
from typing import Any

from corral.config import account
from corral.config.custom.aliases import Alias, aliases_of, check, expand, must_be_approved
from corral.config.paths import Project
from corral.core.errors import CorralError, NotTrusted
from corral.faces.cli.terminal.context import Common, project

_WITH_VALUE = {"-C", "--profile", "--output"}


def command_at(arguments: list[str]) -> int | None:
    """The index of the command, behind the options before it; None if there is none."""
    at = 0
    while at < len(arguments):
        if not arguments[at].startswith("-"):
            return at
        at += 2 if arguments[at] in _WITH_VALUE else 1
    return None


def expanded(arguments: list[str], commands: frozenset[str]) -> list[str]:
    """The command line with its alias expanded; unchanged if it has none.

    Raises:
        CorralError: The alias cannot be used.
    """
    at = command_at(arguments)
    if at is None or arguments[at] in commands:
        return arguments
    for number, word in enumerate(arguments[:at]):
        if word == "-C":
            Common.update(directory=arguments[number + 1])
    try:
        where = project()
    except CorralError:
        return arguments  # the command itself says that there is no project
    known = aliases_of(layers_of(where))
    name = arguments[at]
    if name not in known:
        return arguments
    words = expand(known, name, arguments[at + 1 :], commands)
    _require_approval(where, known, name, commands)
    return [*arguments[:at], *words]


def layers_of(where: Project) -> dict[str, dict[str, Any]]:
    """The content of each configuration file by its name, later wins.

    Raises:
        ConfigInvalid: One is not accepted.
    """
    from corral.config.load import read_layers

    return read_layers(where, account.home())


def _require_approval(where: Project, known: dict[str, Alias], name: str, commands: frozenset[str]) -> None:
    """Refuse an alias of the repository whose commands nobody on this machine has approved."""
    while name in known and name not in commands:
        if claims := unapproved(where, known[name]):
            from corral.config.trust import origin_of  # most commands are no alias

            raise NotTrusted(
                f"The alias {name!r} of {known[name].source} was not approved on this machine.",
                cause=f"{origin_of(claims)} It executes a command of its own: corral {known[name].command}",
                remedy="Look at it and approve it: `corral trust`.",
                details={"untrusted": [vars(claim) for claim in claims]},
            )
        name = check(name, known[name].command)[0]


def unapproved(where: Project, *aliases: Alias) -> list[Any]:
    """The claims of these aliases that the user has not approved on this machine."""
    if not any(must_be_approved(alias) for alias in aliases):
        return []
    from corral.config.trust import TrustStore, of_aliases, trust_file

    return list(TrustStore(trust_file(os.environ, account.home())).missing(where.common_dir, of_aliases(aliases)))
