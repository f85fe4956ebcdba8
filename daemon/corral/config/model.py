"""The settings: one frozen class per section, and each setting by its dotted key.

A setting's type, range, default and description are declared once, in :mod:`corral.config.sections`. Loading, ``CORRAL_``
variables, the table in ``docs/configuration.md`` and the JSON schema (``Settings.model_json_schema()``) are derived from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from corral.config.sections.alerts import Alerts, Notifications
from corral.config.sections.sharing import Landing, Locks, Messages, Sessions
from corral.config.sections.upkeep import Daemon, Logs, Retention, Salvage, Telemetry, Templates
from corral.config.sections.values import Section
from corral.config.sections.work import Agents, Limits, Loops, Queue, Runners, Supervisor, Tasks, Worktrees


class Settings(Section):
    """All settings. ``Settings()`` is the defaults."""

    landing: Landing = Landing()
    supervisor: Supervisor = Supervisor()
    agents: Agents = Agents()
    limits: Limits = Limits()
    queue: Queue = Queue()
    tasks: Tasks = Tasks()
    locks: Locks = Locks()
    messages: Messages = Messages()
    sessions: Sessions = Sessions()
    loops: Loops = Loops()
    worktrees: Worktrees = Worktrees()
    runners: Runners = Runners()
    logs: Logs = Logs()
    salvage: Salvage = Salvage()
    retention: Retention = Retention()
    templates: Templates = Templates()
    alerts: Alerts = Alerts()
    notifications: Notifications = Notifications()
    telemetry: Telemetry = Telemetry()
    daemon: Daemon = Daemon()


@dataclass(frozen=True)
class Setting:
    """One leaf of the settings.

    Attributes:
        key: Dotted path, such as ``runners.claude.model``.
        variable: The environment variable that overrides it.
        section: The class that declares it.
    """

    key: str
    variable: str
    section: type[BaseModel]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema: type, range, default, description. Computed on demand: all of them are slow."""
        schema: dict[str, Any] = self.section.model_json_schema()["properties"][self.key.rpartition(".")[2]]
        return schema

    @property
    def types(self) -> set[str]:
        """The JSON types that it accepts."""
        return {part["type"] for part in self.schema.get("anyOf", [self.schema])}


def all_settings(section: type[BaseModel] = Settings, prefix: str = "") -> Iterator[Setting]:
    """Every setting, in order of declaration."""
    for name, field in section.model_fields.items():
        key = f"{prefix}{name}"
        if isinstance(field.default, BaseModel):
            yield from all_settings(type(field.default), f"{key}.")
        else:
            yield Setting(key, "CORRAL_" + key.upper().replace(".", "_"), section)
