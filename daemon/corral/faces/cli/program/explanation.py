"""Why a setting has its value: every source that sets it, and the reason for which each counts or does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from corral.client.connection import Client
from corral.config.load import COMMITTED_FILE, Layer, Loaded
from corral.config.model import Setting
from corral.config.paths import Project
from corral.core.errors import CorralError
from corral.faces.cli.program.settings_file import load_settings
from corral.faces.cli.project.trust import committed_config

if TYPE_CHECKING:
    from corral.faces.cli.api import SettingExplained, SettingLayer, SettingOfDaemon


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
