"""``corral config get``, ``set``, ``unset``, ``edit`` and ``explain``: one setting, its files and its reasons."""

from __future__ import annotations

import difflib
import json
import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from corral.client.connection import Client
from corral.config.custom.edit import with_value, without_value
from corral.config.custom.profiles import SECTION
from corral.config.document import DocumentError
from corral.config.load import COMMITTED_FILE, Layer, Loaded, interpret
from corral.config.model import Setting, all_settings
from corral.config.paths import Project
from corral.core.errors import NOT_IN_THIS_VERSION, ConfigInvalid, Conflict, CorralError, InvalidInput, NotFound
from corral.core.visible import one_line, visible
from corral.faces.cli.parsing import Option
from corral.faces.cli.program.settings_file import (
    PLACE_HELP,
    Place,
    approve_own,
    change,
    claims_of,
    content_of,
    file_of,
    load_settings,
    validate,
    write,
)
from corral.faces.cli.project.trust import committed_config
from corral.faces.cli.terminal.context import Common
from corral.faces.cli.terminal.options import argument, client, project
from corral.faces.cli.terminal.output import echo, fact, for_programs, paint, printed, report
from corral.faces.cli.terminal.person import confirm, is_terminal
from corral.faces.cli.terminal.tables import table

if TYPE_CHECKING:
    from corral.faces.cli.api import SettingExplained, SettingLayer, SettingOfDaemon


Key = Annotated[str, argument("A setting, such as landing.target.", "KEY", of="setting")]
File = Annotated[Place | None, Option("--file", help=f"{PLACE_HELP}.", show_default=False)]


def setting_of(key: str) -> Setting:
    """A setting by its key.

    Raises:
        NotFound: There is none.
    """
    known = {setting.key: setting for setting in all_settings()}
    if key not in known:
        near = difflib.get_close_matches(key, known) or [name for name in known if name.startswith(f"{key}.")][:5]
        suggestion = f"Did you mean {' or '.join(near)}? " if near else ""
        raise NotFound(
            f"There is no setting {key!r}.",
            cause=NOT_IN_THIS_VERSION,
            remedy=f"{suggestion}`corral config show` lists all of them.",
        )
    return known[key]


def get(key: Key) -> None:
    """Print the value of a setting that is in force."""
    setting_of(key)
    answer = client().request("GET", "/config")
    value: Any = answer["settings"]
    for name in key.split("."):
        value = value[name]
    if not printed(
        {"key": key, "value": value, "source": answer["sources"][key], "profile": answer["profiles"].get(key)}
    ):
        echo(visible(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def set_(
    key: Key,
    value: Annotated[str, argument("The value; a list as YAML, such as '[a, b]'; null where it may be.", "VALUE")],
    place: File = None,
) -> None:
    """Write a setting into a file, where comments stay. With --profile: into that profile.

    Without --file: landing settings into the team's file, because only that counts once it is committed on the target;
    all others into .corral/local.yaml.
    """
    setting, where = setting_of(key), project()
    chosen = place or (Place.TEAM if key.startswith("landing.") else Place.LOCAL)
    parsed = _parsed(setting, value)
    changed = change(where, chosen, lambda content: with_value(content, _path(key), parsed))
    approve_own(where, claims_of(where, chosen, key, parsed))
    _report(where, key, chosen, changed)


def _parsed(setting: Setting, text: str) -> Any:
    if text == "null" and "null" in setting.types:
        return None
    try:
        return interpret(setting, text)
    except DocumentError as error:
        raise InvalidInput(f"{setting.key}: the value is not a YAML list: {error}.") from error


def _path(key: str) -> list[str]:
    return [*([SECTION, Common.profile] if Common.profile else []), *key.split(".")]


def unset(key: Key, place: File = None) -> None:
    """Remove a setting from a file; without --file from the file that counts."""
    setting_of(key)
    where = project()
    chosen = place or _deciding_place(where, key)

    def removed(content: bytes) -> bytes:
        try:
            return without_value(content, _path(key))
        except KeyError as error:
            raise NotFound(
                f"{chosen.source} does not set {key}.",
                cause="Another file or a variable does, or none.",
                remedy=f"`corral config explain {key}`.",
            ) from error

    _report(where, key, chosen, change(where, chosen, removed))


def _deciding_place(where: Any, key: str) -> Place:
    """The file that sets a key last.

    Raises:
        NotFound: None does.
    """
    for layer in reversed(load_settings(where).layers.get(key, [])):
        for place in Place:
            if layer.source == place.source and layer.profile == Common.profile:
                return place
    raise NotFound(
        f"No file sets {key}.",
        cause="Its value is the default, or a variable's.",
        remedy=f"`corral config explain {key}` shows what counts.",
    )


def _report(where: Any, key: str, place: Place, changed: bool) -> None:
    """Say what was written, and whether it counts."""
    setting = explained(where, setting_of(key))
    answer = {"key": key, "file": str(file_of(where, place)), "changed": changed, "value": setting["value"]}
    answer |= {"source": setting["source"], "profile": setting["profile"]}
    line = f"{key} in force: {json.dumps(setting['value'], ensure_ascii=False)}  ({setting['source']})"
    report(answer, line if changed else f"Nothing to change. {line}")
    mine = next(
        (row for row in setting["layers"] if (row["source"], row["profile"]) == (place.source, Common.profile)), None
    )
    is_idle = mine is not None and not mine["counts"]
    if for_programs() or not (changed or is_idle):
        return
    if place == Place.TEAM and is_idle and key.startswith("landing."):
        echo(
            f"Commit {place.source} on the target branch: of the settings of landing, only what is committed there counts."
        )
    elif place == Place.TEAM:
        echo(f"Commit {place.source} to share it.")
    if mine is not None and is_idle:
        echo(paint(f"{place.source} does not decide this setting: {mine['why'].removeprefix('no: ')}.", "yellow"))


def explain(key: Key) -> None:
    """Show where a setting comes from: each file and variable that sets it, and why the others do not count."""
    setting = explained(project(), setting_of(key))
    if printed(setting):
        return
    echo(f"{paint(key, 'bold')} = {one_line(json.dumps(setting['value'], ensure_ascii=False))}")
    echo(f"  {visible(setting['description'])}")
    fact("type", setting["type"], 9)
    fact("default", json.dumps(setting["default"], ensure_ascii=False), 9)
    fact("variable", setting["variable"], 9)
    rows = [{**layer, "value": json.dumps(layer["value"], ensure_ascii=False)} for layer in setting["layers"]]
    columns: Any = [("FROM", "source", 40), ("PROFILE", "profile", 20), ("VALUE", "value", 40), ("COUNTS", "why", 80)]
    table(rows, columns, empty="No file and no variable sets it: the default counts.")
    if setting["daemon"] is not None and setting["daemon"]["value"] != setting["value"]:
        value = json.dumps(setting["daemon"]["value"], ensure_ascii=False)
        echo(
            paint(
                f"The daemon has {value} ({setting['daemon']['source']}): `corral daemon restart` loads it again.",
                "yellow",
            )
        )


def edit(place: Annotated[Place, Option("--file", help=f"{PLACE_HELP}.")] = Place.TEAM) -> None:
    """Edit a file in $EDITOR; an invalid one does not replace the file."""
    where = project()
    file, before = file_of(where, place), content_of(where, place)
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise InvalidInput(
            "No editor is set.", cause="Neither VISUAL nor EDITOR is set.", remedy=f"Edit {file} yourself."
        )
    number, name = tempfile.mkstemp(prefix="corral-", suffix=".yaml")
    copy = Path(name)
    with os.fdopen(number, "wb") as stream:
        stream.write(before)
    while True:
        try:
            _run_editor(editor, copy)
        except InvalidInput as error:
            if copy.read_bytes() == before:
                copy.unlink()
            else:
                error.remedy = f"{error.remedy} Your text is in {copy}."
            raise
        try:
            after = copy.read_bytes()
            if after != before:
                validate(where, place, after)
            break
        except ConfigInvalid as error:
            if not is_terminal() or for_programs():
                raise _not_kept(error, copy) from error
            echo(paint(visible(f"{error.message}\n{error.cause}"), "red"))
            if not confirm("Edit it again?", default=True):
                raise _not_kept(error, copy) from error
    if after != before:
        if content_of(where, place) != before:
            raise Conflict(
                f"{file} was not written: it was changed while you edited it.",
                cause="Your text does not have that change, and would undo it.",
                remedy=f"Your text is in {copy}.",
            )
        write(file, after)
    copy.unlink()
    report(
        {"file": str(file), "changed": after != before}, f"wrote {file}" if after != before else "Nothing was changed."
    )


def _run_editor(editor: str, file: Path) -> None:
    try:
        code = subprocess.run([*shlex.split(editor), str(file)], check=False).returncode
    except (OSError, ValueError) as error:
        raise InvalidInput(f"Cannot start the editor {editor!r}.", cause=str(error), remedy="Set EDITOR.") from error
    if code:
        raise InvalidInput(f"The editor ended with {code}; nothing was written.", cause=editor, remedy="Try again.")


def _not_kept(error: ConfigInvalid, copy: Path) -> ConfigInvalid:
    return ConfigInvalid(
        "The file was not written: it would be invalid.",
        cause=error.cause,
        remedy=f"Your text is in {copy}.",
        details=error.details,
    )


# -- Why a setting has its value: every source that sets it, and the reason for which each counts or does not


def explained(where: Project, setting: Setting) -> SettingExplained:
    """Return a setting's value, what declares it, and each layer with the reason.

    Raises:
        ConfigInvalid: The files are not valid.
    """
    here = load_settings(where)
    committed = committed_config(where, here.settings.landing.target)
    loaded = here if committed is None else load_settings(where, committed=committed)
    schema = setting.schema
    return {
        "key": setting.key,
        "value": value_of(loaded, setting.key),
        "source": loaded.sources[setting.key],
        "profile": loaded.of_profiles.get(setting.key),
        "description": schema.get("description", ""),
        "type": _type_of(schema),
        "default": schema.get("default"),
        "variable": setting.variable,
        "layers": _layers(here, loaded, setting.key),
        "daemon": _in_force(where, setting.key),
    }


def value_of(loaded: Loaded, key: str) -> Any:
    """The value of a setting, as JSON has it."""
    value: Any = loaded.settings.model_dump(mode="json")
    for name in key.split("."):
        value = value[name]
    return value


def _layers(here: Loaded, loaded: Loaded, key: str) -> list[SettingLayer]:
    """Each source that sets the key, the one that counts last."""
    counting = loaded.layers.get(key, [])
    replaced = [layer for layer in here.layers.get(key, []) if layer not in counting]
    rows = [_row(layer, f"no: {COMMITTED_FILE} counts for landing") for layer in replaced]
    for layer in counting:
        rows.append(_row(layer, "yes" if layer is counting[-1] else f"no: {_reason(layer, counting[-1])}"))
    return rows


def _row(layer: Layer, why: str) -> SettingLayer:
    return {
        "source": layer.source, "profile": layer.profile, "value": layer.value, "counts": why == "yes", "why": why,
    }  # fmt: skip


def _reason(layer: Layer, winner: Layer) -> str:
    """Why the winner counts instead."""
    if winner.source.startswith("CORRAL_"):
        return f"the variable {winner.source} wins over every file"
    if winner.source == COMMITTED_FILE:
        return "what the target branch has committed wins over every file"
    if winner.profile is not None and layer.profile is None:
        return f"the profile {winner.profile} wins over the base settings"
    if winner.profile != layer.profile:
        return f"the profile {winner.profile} inherits from {layer.profile} and wins over it"
    return f"{winner.source} is read later"


def _type_of(schema: dict[str, Any]) -> str:
    """The accepted values in words."""
    parts = []
    for part in schema.get("anyOf", [schema]):
        if "enum" in part:
            parts.append(" | ".join(map(str, part["enum"])))
        elif "const" in part:
            parts.append(str(part["const"]))
        else:
            low = part.get("minimum", part.get("exclusiveMinimum"))
            high = part.get("maximum", part.get("exclusiveMaximum"))
            limits = f" from {low:,}" if low is not None else ""
            limits += f" to {high:,}" if high is not None else ""
            parts.append(f"{part['type']}{limits}")
    return ", ".join(parts)


def _in_force(where: Project, key: str) -> SettingOfDaemon | None:
    """The value that a running daemon has; None if none runs."""
    try:
        answer = Client(where, autostart=False).request("GET", "/config")
    except CorralError:
        return None
    value: Any = answer["settings"]
    for name in key.split("."):
        value = value[name]
    return {"value": value, "source": answer["sources"][key], "profile": answer["profiles"].get(key)}
