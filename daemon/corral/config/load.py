"""Load the settings: defaults, three files and the environment, merged field by field, then validated as a whole.

A value that a later layer overrides is not validated. Nothing here keeps state: to reload is to load again.
"""

from __future__ import annotations

import difflib
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from corral.config.custom.aliases import ALIASES
from corral.config.custom.profiles import (
    INHERITS,
    SECTION,
    ProfileError,
    chosen_profile,
    declared,
    order_of,
    sections_of,
)
from corral.config.document import MAX_BYTES, DocumentError, message_of, plain_scalar, read, read_mapping, shown
from corral.config.model import Setting, Settings, all_settings
from corral.config.ownership import is_foreign, is_safe
from corral.config.paths import Project
from corral.config.sections.values import Places
from corral.core.errors import ConfigInvalid

TEAM_FILE = ".corral/config.yaml"
USER_FILE = "~/.corral/config.yaml"
LOCAL_FILE = ".corral/local.yaml"
COMMITTED_FILE = f"{TEAM_FILE} on the target branch"
PREFIX = "CORRAL_"

_SETTINGS = {setting.key: setting for setting in all_settings()}
_SECTIONS = sorted({key[:end] for key in _SETTINGS for end, letter in enumerate(key) if letter == "."})
_SECTION_PREFIXES = tuple(f"{PREFIX}{section.upper().replace('.', '_')}_" for section in _SECTIONS)
_VARIABLES = {setting.variable: setting for setting in _SETTINGS.values()}
_RENAMED = {
    "sessions.stall_after_s": "agents.stalled_after_s",
    "tasks.backoff_initial_s": "tasks.retry_initial_s",
    "tasks.backoff_max_s": "tasks.retry_max_s",
    "tasks.max_queue": "queue.max_size",
}
"""Settings by their former names, which are still read; a layer that has both names means the new one."""

_END_OF_A_PIPE = re.compile(r"(?<!\|)\|&?\s*(cat|head|less|more|sort|tail|tee|ts)\b[^|\n]*(?:\|\||$)", re.MULTILINE)
"""A program that ends a pipe, and passes on what it reads whatever that is: it succeeds where what prints it failed."""
_RENAMED_VARIABLES = {PREFIX + old.upper().replace(".", "_"): _SETTINGS[new] for old, new in _RENAMED.items()}


@dataclass(frozen=True)
class Layer:
    """A value of one source.

    Attributes:
        source: The file, or the name of a variable.
        profile: The profile in that file; None: the base settings.
    """

    source: str
    value: Any
    profile: str | None = None


@dataclass(frozen=True)
class Loaded:
    """The settings in force and their sources.

    Attributes:
        settings: Validated.
        sources: The source of every dotted key: ``default``, a file, or the name of a variable.
        warnings: Ignored keys and variables, with the likely spelling.
        overrides: Dotted key to the variable that set it; the daemon logs them.
        profile: The profile that counts.
        of_profiles: Dotted key to the profile that set it.
        layers: Every value that a file or variable has, by dotted key, in order of precedence; the last one counts.
        errors: What is wrong, ``field``, ``reason`` and ``source`` of each; such a setting is as if nothing set it.
    """

    settings: Settings
    sources: dict[str, str]
    warnings: list[str]
    overrides: dict[str, str]
    profile: str
    of_profiles: dict[str, str]
    layers: dict[str, list[Layer]]
    errors: list[dict[str, str]]


@dataclass
class _Findings:
    """Values and errors of all layers, collected to be reported at once."""

    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    errors: list[dict[str, str]] = field(default_factory=list)
    layers: dict[str, list[Layer]] = field(default_factory=dict)

    def put(self, key: str, value: Any, source: str, profile: str | None = None) -> None:
        self.values[key] = value
        self.sources[key] = source
        self.layers.setdefault(key, []).append(Layer(source, value, profile))

    def refuse(self, key: str, reason: str, source: str) -> None:
        self.errors.append({"field": key, "reason": reason, "source": source})


def load(
    project: Project,
    *,
    environ: Mapping[str, str],
    home: Path,
    committed: bytes | None = None,
    profile: str | None = None,
    instead: Mapping[str, bytes] | None = None,
    refuse: bool = True,
) -> Loaded:
    """Merge and validate: defaults, the team's file, the user's, this machine's, their profiles, the environment; later wins.

    Args:
        environ: The environment; see :func:`_from_environment` for the names and values of variables.
        home: The user's home folder.
        committed: ``.corral/config.yaml`` of the target branch. Its ``landing`` section replaces that of the working copy
            and wins over every other file: a worker can write those, and must not choose its own verification. None: the
            branch has no such file, and the working copy counts.
        profile: The profile that counts; None: see :func:`~corral.config.custom.profiles.chosen_profile`.
        instead: Content to use in place of that of a file, by the file's name.
        refuse: Whether errors raise; else they are in :attr:`Loaded.errors`.

    Raises:
        ConfigInvalid: ``details["errors"]`` lists every error: ``field``, ``reason``, ``source``.
    """
    findings = _Findings()
    layers = {
        source: _read_content(path, source, findings, instead) for source, path in config_files(project, home).items()
    }
    profile_name = profile or chosen_profile(project, environ)
    order = _order(layers, profile_name, findings)
    replaced = set() if committed is None else {TEAM_FILE}
    _gather_layers(findings, layers, order, lambda source, key: key != "landing" or source not in replaced)
    if committed is not None:
        content = {COMMITTED_FILE: _parse(committed, COMMITTED_FILE, findings)}
        _gather_layers(findings, content, order, lambda _source, key: key == "landing")
    overrides = _from_environment(environ, findings)
    loaded = _validate(findings, project, home, overrides, profile_name)
    return _valid(loaded) if refuse else loaded


def parse_file(project: Project, data: bytes, home: Path) -> Loaded:
    """Parse one version of the team's file, with the defaults for the rest and the profile that is in use.

    Raises:
        ConfigInvalid: See :func:`load`.
    """
    findings = _Findings()
    layers = {TEAM_FILE: _parse(data, TEAM_FILE, findings)}
    name = chosen_profile(project, {})
    order = _order(layers, name, findings) if name in _profile_names(layers[TEAM_FILE]) else []
    _gather_layers(findings, layers, order)
    return _valid(_validate(findings, project, home, {}, name))


def read_layers(project: Project, home: Path) -> dict[str, dict[str, Any]]:
    """The content of each configuration file by its name, later wins; a missing one is empty.

    Raises:
        ConfigInvalid: One cannot be read, or is not accepted.
    """
    findings = _Findings()
    layers = {source: _read_content(path, source, findings) for source, path in config_files(project, home).items()}
    if findings.errors:
        raise invalid(findings.errors)
    return layers


def _order(layers: Mapping[str, Mapping[str, Any]], name: str, findings: _Findings) -> list[str]:
    try:
        return order_of(declared(layers), name)
    except ProfileError as error:
        findings.refuse(error.field, str(error), "")
        return []


def _profile_names(content: Mapping[str, Any]) -> set[str]:
    try:
        return {*sections_of(content)}
    except ProfileError:
        return set()


def _of_profile(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    try:
        values = sections_of(content).get(name, {})
    except ProfileError:
        return {}  # reported with the profiles
    return {key: value for key, value in values.items() if key != INHERITS}


def config_files(project: Project, home: Path) -> dict[str, Path]:
    """The configuration files by the name used in reports, later wins; a missing one is no error."""
    files = {TEAM_FILE: project.config_file, USER_FILE: home / ".corral" / "config.yaml"}
    if files[USER_FILE] == files[TEAM_FILE]:
        del files[USER_FILE]
    return {**files, LOCAL_FILE: project.home / "local.yaml"}


def read_file(path: Path) -> bytes | None:
    """A configuration file's bytes, at most one more than the limit; None if there is no such file.

    Raises:
        OSError: It cannot be read, or is not a file.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError("is not a file")
        with path.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_settings(path: Path) -> bytes | None:
    """Like :func:`read_file`, for a file that names commands: it must be this user's, or in a trusted repository.

    Raises:
        OSError: It cannot be read, is not a file, or belongs to another user.
    """
    if is_foreign(os.fspath(path)) and not is_safe(*path.parents):
        raise OSError("belongs to another user")
    return read_file(path)


def _read_content(
    path: Path, source: str, findings: _Findings, instead: Mapping[str, bytes] | None = None
) -> dict[str, Any]:
    if instead is not None and source in instead:
        return _parse(instead[source], source, findings)
    try:
        data = read_file(path) if source == USER_FILE else read_settings(path)
    except OSError as error:
        findings.refuse("", f"cannot be read: {error.strerror or error}", source)
        return {}
    return _parse(data, source, findings) if data is not None else {}


def _parse(data: bytes, source: str, findings: _Findings) -> dict[str, Any]:
    try:
        return read_mapping(data)
    except DocumentError as error:
        findings.refuse("", str(error), source)
        return {}


_OTHER = {SECTION, ALIASES}
"""Keys at the top of a file that hold no settings."""


def _gather_layers(
    findings: _Findings,
    layers: Mapping[str, Mapping[str, Any]],
    profiles: Sequence[str],
    counts: Callable[[str, str], bool] = lambda _source, _key: True,
) -> None:
    """Flatten layers and their profiles, later wins.

    Args:
        counts: Whether a key at the top of a source counts.
    """
    for profile in (None, *profiles):
        for source, content in layers.items():
            values = content if profile is None else _of_profile(content, profile)
            counted = {key: value for key, value in values.items() if counts(source, key)}
            _gather(findings, counted, source, profile=profile)


def _gather(
    findings: _Findings, content: Mapping[str, Any], source: str, prefix: str = "", profile: str | None = None
) -> None:
    """Flatten a layer into dotted keys; an empty section is ignored."""
    for name, value in content.items():
        key = f"{prefix}{name}"
        if key in _SETTINGS:
            findings.put(key, value, source, profile)
        elif key in _OTHER and profile is None:
            continue
        elif key in _RENAMED:
            findings.warnings.append(f"{source}: `{key}` is now called `{_RENAMED[key]}`.")
            if findings.sources.get(_RENAMED[key]) != source:
                findings.put(_RENAMED[key], value, source, profile)
        elif key not in _SECTIONS:
            findings.warnings.append(f"{source}: `{key[:200]}` is not a setting.{_key_hint(prefix, name)}")
        elif isinstance(value, dict):
            _gather(findings, value, source, f"{key}.", profile)
        elif value is not None:
            findings.refuse(key, f"must be a section with settings, not {shown(value)}", source)


def _from_environment(environ: Mapping[str, str], findings: _Findings) -> dict[str, str]:
    """Apply ``CORRAL_`` variables.

    ``CORRAL_LANDING_TARGET``, ``CORRAL_LANDING__TARGET`` and ``CORRAL_landing.target`` are ``landing.target``. A text
    is taken as it is, a list is YAML (``["a", "b"]``) or one entry, anything else is read like an unquoted word in a
    file. An empty variable is not set. ``CORRAL_`` variables that are no setting, such as ``CORRAL_TASK_ID``, have
    other uses and are only reported when they look like a misspelt setting.
    """
    overrides: dict[str, str] = {}
    for variable in sorted(name for name in environ if name.startswith(PREFIX) and environ[name]):
        name = variable.upper().replace(".", "_").replace("__", "_")
        setting = _VARIABLES.get(name)
        if setting is None and name in _RENAMED_VARIABLES:
            setting = _RENAMED_VARIABLES[name]
            findings.warnings.append(f"{variable} is now called {setting.variable}.")
        if setting is not None:
            overrides[setting.key] = variable
            findings.put(setting.key, _interpret_variable(setting, environ[variable], variable, findings), variable)
        elif (hint := _variable_hint(variable)) or variable.startswith(_SECTION_PREFIXES):
            findings.warnings.append(f"{variable} is not a setting.{hint}")
    return overrides


def _interpret_variable(setting: Setting, text: str, variable: str, findings: _Findings) -> Any:
    try:
        return interpret(setting, text)
    except DocumentError as error:
        findings.refuse(setting.key, f"is not a YAML list: {error}", variable)
        return []


def interpret(setting: Setting, text: str) -> Any:
    """The value that a typed text means for a setting.

    Raises:
        DocumentError: It begins like a list and is none.
    """
    if "string" in setting.types and not {"integer", "number"} & set(setting.types):
        return text
    if "array" not in setting.types:
        return plain_scalar(text.strip())
    return read(text.encode(errors="surrogateescape")) if text.lstrip().startswith(("[", "- ")) else text


def _validate(findings: _Findings, project: Project, home: Path, overrides: dict[str, str], profile: str) -> Loaded:
    while (settings := _checked(findings, Places(project.root, home))) is None:
        pass
    sources = {key: findings.sources.get(key, "default") for key in _SETTINGS}
    winners = {key: layers[-1].profile for key, layers in findings.layers.items()}
    of_profiles = {key: name for key, name in winners.items() if name is not None}
    warnings = [*findings.warnings, *_passed_over(settings, sources)]
    return Loaded(settings, sources, warnings, overrides, profile, of_profiles, findings.layers, findings.errors)


def _passed_over(settings: Settings, sources: Mapping[str, str]) -> Iterator[str]:
    """Commands whose failure nobody would see, since the last one of a pipe alone tells how it ended."""
    landing, worktrees = settings.landing, settings.worktrees
    of_commands = {"landing.verify": landing.verify, "landing.check": landing.check, "worktrees.setup": worktrees.setup}
    for key, commands in of_commands.items():
        for command in commands:
            if "pipefail" not in command and (end := _END_OF_A_PIPE.search(command)) is not None:
                yield (
                    f"{sources[key]}: `{key}` passes over what fails before `| {end[1]}`. Leave that out, since all output is in "
                    "the log, or write `bash -o pipefail -c '…'`."
                )


def _checked(findings: _Findings, places: Places) -> Settings | None:
    """The settings; None: some were wrong, and are no longer among the values."""
    nested: dict[str, Any] = {}
    for key, value in findings.values.items():
        *sections, name = key.split(".")
        place = nested
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = value
    try:
        return Settings.model_validate(nested, context=places)
    except ValidationError as error:
        wrong = set[str]()
        for item in error.errors(include_url=False):
            key = ".".join(str(part) for part in item["loc"])
            wrong.add(setting := _setting_of(key))
            findings.refuse(key, f"{message_of(item)} (it is {shown(item['input'])})", findings.sources[setting])
    for setting in wrong:
        del findings.values[setting], findings.sources[setting], findings.layers[setting]
    return None


def _valid(loaded: Loaded) -> Loaded:
    if loaded.errors:
        raise invalid(loaded.errors, loaded.warnings)
    return loaded


def _setting_of(key: str) -> str:
    """The setting that an error is about; the key may continue into a list entry."""
    while key not in _SETTINGS:
        key = key.rpartition(".")[0]
    return key


def invalid(errors: list[dict[str, str]], warnings: Sequence[str] = ()) -> ConfigInvalid:
    """The error for settings that cannot be used: ``field``, ``reason`` and ``source`` of each, and what else was noticed."""
    lines = (": ".join(part for part in (e["source"], e["field"], e["reason"]) if part) for e in errors)
    count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
    return ConfigInvalid(
        f"The configuration has {count}.", cause="\n".join(lines), details={"errors": errors, "warnings": [*warnings]}
    )


def _key_hint(section: str, name: str) -> str:
    """A setting with that name in another section, else a similarly spelt sibling."""
    neighbours = [key for key in (*_SECTIONS, *_SETTINGS, *_OTHER) if key.startswith(section)]
    near = difflib.get_close_matches(name[:200], [key.removeprefix(section) for key in neighbours], n=1)
    elsewhere = [key for key in _SETTINGS if key.endswith(f".{name}")]
    keys = elsewhere or [f"{section}{word}" for word in near]
    return f" Did you mean `{keys[0]}`?" if keys else ""


def _variable_hint(variable: str) -> str:
    near = difflib.get_close_matches(variable[:200], _VARIABLES, n=1, cutoff=0.85)
    return f" Did you mean `{near[0]}`?" if near else ""
