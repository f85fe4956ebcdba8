"""The schema: the defaults that were promised, nothing that can be changed by accident, and a page that says the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from corral.config.model import Setting, Settings, all_settings

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_defaults_are_those_of_the_requirements() -> None:
    settings = Settings()
    assert settings.supervisor.max_agents == 10
    assert settings.queue.max_size == 1000
    assert (settings.tasks.max_retries, settings.tasks.retries) == (None, 3)
    assert (settings.tasks.retry_initial_s, settings.tasks.retry_max_s) == (10, 300)
    assert settings.locks.ttl_s == 3600
    assert settings.sessions.stale_after_s == 15 * 60
    assert settings.agents.stalled_after_s == 5 * 60
    assert settings.sessions.lease_s == 4 * 3600
    assert (settings.runners.command.memory_mb, settings.runners.claude.memory_mb) == (512, 2048)
    assert settings.logs.keep_days == 30


def test_every_default_is_itself_valid() -> None:
    assert Settings.model_validate(Settings().model_dump()) == Settings()


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Settings().locks.ttl_s = 1


def test_no_two_settings_share_a_variable() -> None:
    settings = list(all_settings())
    assert len({setting.variable for setting in settings}) == len(settings) > 30
    assert "CORRAL_RUNNERS_CLAUDE_MAX_TURNS" in {setting.variable for setting in settings}


@pytest.mark.parametrize("setting", list(all_settings()), ids=lambda setting: setting.key)
def test_the_page_says_what_the_schema_says(setting: Setting) -> None:
    assert row(setting) in PAGE.read_text(encoding="utf-8").splitlines()


def test_the_page_has_no_setting_that_is_gone() -> None:
    rows = [
        line
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| `") and "." in line.split("`")[1]
    ]
    assert len(rows) == len(list(all_settings()))


def row(setting: Setting) -> str:
    """The line of the table in docs/configuration.md for one setting."""
    default = setting.schema["default"]
    shown = "null" if default is None else str(default) if default != "" else '""'
    return f"| `{setting.key}` | {_values(setting.schema)} | `{shown}` | {setting.schema['description']} |"


def _values(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_values(part) for part in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema["type"] == "array":
        return "list of texts"
    words = {
        "string": "text",
        "null": "null",
        "integer": "whole number",
        "number": "number",
        "boolean": "true or false",
    }
    return words[schema["type"]] + _range(schema)


def _range(schema: dict[str, Any]) -> str:
    limits = ("minimum", "exclusiveMinimum", "maximum")
    low, above, high = (f"{schema[name]:.12g}" if name in schema else "" for name in limits)
    if above:
        return f" above {above}" + (f", up to {high}" if high else "")
    if low:
        return f" {low} to {high}" if high else f" from {low}"
    return ""


@pytest.mark.req("FR-QUEUE-003")
def test_a_worker_that_ignores_a_cancellation_is_killed_early_enough_to_be_gone_within_five_seconds() -> None:
    assert Settings().supervisor.stop_grace_s <= 4, "a second for its look, its processes and the salvage"
