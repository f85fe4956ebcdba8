"""``corral config``: the settings in force, and whether the files are valid."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

from corral.client.connection import Client
from corral.config import account
from corral.config.custom.profiles import DEFAULT, ProfileError, chosen_profile, declared
from corral.config.load import invalid, load, read_layers
from corral.config.paths import Project
from corral.core.errors import NOT_IN_THIS_VERSION, ConfigInvalid, NotFound
from corral.faces.cli.parsing import Exit, Group
from corral.faces.cli.program import api_key, config_values
from corral.faces.cli.terminal.options import argument, client, project
from corral.faces.cli.terminal.output import echo, emit, for_programs, paint, printed
from corral.faces.cli.terminal.tables import Column, table

app = Group("Settings: the values in force, and whether the files are valid.")
app.command("set-key", any_words=True, prints="faces.cli.api.KeyStored")(api_key.set_key)
app.command("remove-key", prints="faces.cli.api.KeyRemoved")(api_key.remove_key)
app.command("key-status", prints="faces.cli.api.KeyLooked")(api_key.key_status)
app.command("get", prints="faces.cli.api.SettingInForce")(config_values.get)
app.command("set", prints="faces.cli.api.SettingWritten")(config_values.set_)
app.command("unset", prints="faces.cli.api.SettingWritten")(config_values.unset)
app.command("edit", prints="faces.cli.api.FileEdited")(config_values.edit)
app.command("explain", prints="faces.cli.api.SettingExplained")(config_values.explain)


@app.command(prints="faces.cli.api.SettingsShown")
def show(
    key: Annotated[
        str | None, argument("A setting or a section, such as landing.", "KEY", show_default=False, of="section")
    ] = None,
) -> None:
    """Show the settings in force and their sources."""
    answer = client().request("GET", "/config")
    rows = [
        {
            "key": name,
            "value": value,
            "source": answer["sources"].get(name, "default"),
            "profile": answer["profiles"].get(name),
        }
        for name, value in _leaves(answer["settings"], answer["sources"])
        if key is None or name == key or name.startswith(f"{key}.")
    ]
    if not rows:
        raise NotFound(
            f"There is no setting {key!r}.", cause=NOT_IN_THIS_VERSION, remedy="`corral config show` lists all of them."
        )
    if printed({"profile": answer["profile"], "settings": rows, "warnings": answer["warnings"]}):
        return
    for row in rows:
        row["value"] = json.dumps(row["value"], ensure_ascii=False)
    if answer["profile"] != DEFAULT:
        echo(f"{paint('profile', 'bold')} {answer['profile']}")
    table(rows, [("SETTING", "key", 40), ("VALUE", "value", 60), ("FROM", _from, 60)], empty="")
    _warn(answer["warnings"])


def _from(row: dict[str, Any]) -> str:
    return f"{row['source']}, profile {row['profile']}" if row["profile"] else str(row["source"])


@app.command(prints="faces.cli.api.ProfileListed[]")
def profiles() -> None:
    """List the profiles of the configuration files, and the one that is in use."""
    where = project()
    with_settings = read_layers(where, account.home())
    try:
        known = declared(with_settings)
    except ProfileError as error:
        raise ConfigInvalid(f"{error.field}: {error}.", details={"errors": []}) from error
    health = Client(where, autostart=False).health()
    running = health.get("profile", DEFAULT) if health else None
    active = running or chosen_profile(where, os.environ)
    rows = [
        {
            "name": profile.name,
            "active": profile.name == active,
            "inherits": [*profile.inherits],
            "files": [*profile.files],
        }
        for profile in known.values()
    ]
    columns: list[Column] = [
        ("PROFILE", "name", 32),
        ("IN USE", lambda row: "yes" if row["active"] else "", 6),
        ("INHERITS", lambda row: ", ".join(row["inherits"]), 40),
        ("FROM", lambda row: ", ".join(row["files"]), 60),
    ]
    table(rows, columns, empty="")
    if not for_programs():
        echo("The daemon runs with it." if running else "No daemon runs; the next one starts with it.")


def _leaves(section: dict[str, Any], known: dict[str, str], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in section.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and key not in known:
            yield from _leaves(value, known, f"{key}.")
        else:
            yield key, value


@app.command(prints="faces.cli.api.SettingsValidated")
def validate() -> None:
    """Check the files, this shell's variables and the target's committed settings. Needs no daemon."""
    from corral.faces.cli.program.references import missing  # the schema is slow to import
    from corral.faces.cli.project.trust import COMMITTED, committed_config

    where = project()
    read = partial(load, where, environ=os.environ, home=account.home(), refuse=False)
    loaded = read()
    committed = committed_config(where, loaded.settings.landing.target)
    variants = [*(read(profile=name) for name in _profile_names(where)), loaded]
    if committed is not None:
        variants.append(read(committed=committed))
    errors: list[dict[str, str]] = []
    for wrong in [*(wrong for variant in variants for wrong in variant.errors), *missing(where, loaded)]:
        errors += [wrong] if wrong not in errors else []
    if for_programs():
        emit({"valid": not errors, "errors": errors, "warnings": loaded.warnings})
        if errors:
            raise Exit(ConfigInvalid.exit_code)
        return
    _warn(loaded.warnings)
    if errors:
        raise invalid(errors)
    echo(paint("The configuration is valid.", "green"))
    if committed is None:
        echo(f"{COMMITTED} is not committed on the target branch; until it is, landing uses the working copy.")


def _profile_names(where: Project) -> list[str]:
    try:
        return [*declared(read_layers(where, account.home()))]
    except (ProfileError, ConfigInvalid):
        return []  # loading the settings reports it


def _warn(warnings: list[str]) -> None:
    for warning in warnings:
        echo(paint(f"warning: {warning}", "yellow"))
