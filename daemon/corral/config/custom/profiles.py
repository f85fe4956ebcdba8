"""Profiles: named sets of settings that win over the base settings of every file, and may inherit from each other.

A daemon has one profile from its start to its end. The project remembers it in ``.corral/run/profile``, so that a daemon
that somebody else starts again (a hook, a session) has the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from corral.config.paths import Project

DEFAULT = "default"
VARIABLE = "CORRAL_PROFILE"
SECTION = "profiles"
INHERITS = "inherits"


class ProfileError(ValueError):
    """A profile is not usable; the message says why.

    Attributes:
        field: The dotted key that is wrong.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field = field


@dataclass(frozen=True)
class Profile:
    """A profile as the files declare it.

    Attributes:
        inherits: The profiles below it, the last one wins.
        files: The files that have it.
    """

    name: str
    inherits: tuple[str, ...]
    files: tuple[str, ...]


def chosen_profile(project: Project, environ: Mapping[str, str]) -> str:
    """The profile of a daemon that starts in this environment: that of the variable, else the one it had last."""
    if environ.get(VARIABLE):
        return environ[VARIABLE]
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return (project.run_dir / "profile").read_text(encoding="utf-8").strip() or DEFAULT
    return DEFAULT


def remember_profile(project: Project, name: str) -> None:
    """Store the daemon's profile for its next start.

    Raises:
        OSError: The folder cannot be written.
    """
    file = project.run_dir / "profile"
    if name == DEFAULT:
        file.unlink(missing_ok=True)
        return
    file.touch(0o600)
    file.write_text(f"{name}\n", encoding="utf-8")


def declared(layers: Mapping[str, Mapping[str, Any]]) -> dict[str, Profile]:
    """All profiles by name; ``default`` is always one.

    Args:
        layers: The content of each file by its name, later wins.

    Raises:
        ProfileError: One is no section, or its ``inherits`` names no profile.
    """
    inherits: dict[str, tuple[str, ...]] = {DEFAULT: ()}
    files: dict[str, list[str]] = {DEFAULT: []}
    for source, content in layers.items():
        for name, settings in sections_of(content).items():
            files.setdefault(name, []).append(source)
            inherits.setdefault(name, ())
            if INHERITS in settings:
                inherits[name] = _names(name, settings[INHERITS])
    return {name: Profile(name, parents, tuple(files[name])) for name, parents in inherits.items()}


def sections_of(content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The profiles of one file.

    Raises:
        ProfileError: One is no section with settings.
    """
    section = content.get(SECTION)
    if section is None:
        return {}
    if not isinstance(section, dict):
        raise ProfileError(SECTION, "must be a section with a section for each profile")
    for name, values in section.items():
        if values is not None and not isinstance(values, dict):
            raise ProfileError(f"{SECTION}.{name}", "must be a section with settings")
    return {name: values or {} for name, values in section.items()}


def _names(name: str, value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(parent, str) for parent in names):
        raise ProfileError(f"{SECTION}.{name}.{INHERITS}", "must be the name of a profile, or a list of names")
    return tuple(names)


def order_of(profiles: Mapping[str, Profile], name: str) -> list[str]:
    """The profiles that count for one, those that it inherits from first.

    Raises:
        ProfileError: There is no such profile, or one inherits from itself.
    """
    if name not in profiles:
        raise ProfileError(SECTION, f"there is no profile {name!r}: {named(profiles)}")
    order: list[str] = []
    _add(profiles, name, [], order)
    return order


def _add(profiles: Mapping[str, Profile], name: str, path: list[str], order: list[str]) -> None:
    if name in path:
        circle = " -> ".join([*path[path.index(name) :], name])
        raise ProfileError(f"{SECTION}.{name}.{INHERITS}", f"a profile inherits from itself: {circle}")
    if name not in profiles:
        raise ProfileError(f"{SECTION}.{path[-1]}.{INHERITS}", f"there is no profile {name!r}: {named(profiles)}")
    if name not in order:
        for parent in profiles[name].inherits:
            _add(profiles, parent, [*path, name], order)
        order.append(name)


def named(names: Iterable[str]) -> str:
    """The existing profiles, for an error."""
    return f"the profiles are {', '.join(sorted(names))}"
