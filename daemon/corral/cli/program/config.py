"""``corral config``: the settings in force, and whether the files are valid."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from corral.cli.help import Grouped
from corral.cli.program import api_key
from corral.cli.terminal.options import Json, argument, client, project
from corral.cli.terminal.output import echo, emit, paint
from corral.cli.terminal.tables import table
from corral.config import account
from corral.errors import ConfigInvalid, NotFound

app = typer.Typer(
    cls=Grouped, help="Settings: the values in force, and whether the files are valid.", no_args_is_help=True
)
app.command("set-key", context_settings=api_key.ANY_WORDS)(api_key.set_key)
app.command("remove-key")(api_key.remove_key)
app.command("key-status")(api_key.key_status)


@app.command()
def show(
    key: Annotated[str | None, argument("A setting or a section, such as landing.", "KEY", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Show the settings in force and their sources."""
    answer = client().request("GET", "/config")
    rows = [
        {"key": name, "value": value, "source": answer["sources"].get(name, "default")}
        for name, value in _leaves(answer["settings"], answer["sources"])
        if key is None or name == key or name.startswith(f"{key}.")
    ]
    if not rows:
        raise NotFound(f"There is no setting {key!r}.", remedy="`corral config show` lists all of them.")
    if as_json:
        emit({"settings": rows, "warnings": answer["warnings"]})
        return
    for row in rows:
        row["value"] = json.dumps(row["value"], ensure_ascii=False)
    table(rows, [("SETTING", "key", 40), ("VALUE", "value", 60), ("FROM", "source", 60)], empty="")
    _warn(answer["warnings"])


def _leaves(section: dict[str, Any], known: dict[str, str], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in section.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and key not in known:
            yield from _leaves(value, known, f"{key}.")
        else:
            yield key, value


@app.command()
def validate(as_json: Json = False) -> None:
    """Check the files, this shell's variables and the target's committed settings. Needs no daemon."""
    from corral.cli.project.trust import COMMITTED, committed_config  # the schema is slow to import
    from corral.config.load import load

    where = project()
    try:
        loaded = load(where, environ=os.environ, home=account.home())
        target = loaded.settings.landing.target
        committed = committed_config(where, target)
        if committed is not None:
            load(where, environ=os.environ, home=account.home(), committed=committed)
    except ConfigInvalid as error:
        if not as_json:
            raise
        emit({"valid": False, "errors": error.details["errors"], "warnings": []})
        raise typer.Exit(error.exit_code) from error
    if as_json:
        emit({"valid": True, "errors": [], "warnings": loaded.warnings})
        return
    _warn(loaded.warnings)
    echo(paint("The configuration is valid.", "green"))
    if committed is None:
        echo(f"{COMMITTED} is not committed on the target branch; until it is, landing uses the working copy.")


def _warn(warnings: list[str]) -> None:
    for warning in warnings:
        echo(paint(f"warning: {warning}", "yellow"))
