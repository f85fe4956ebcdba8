"""Settings in the environment of a command, which a daemon that runs already does not have."""

from __future__ import annotations

import os
from functools import reduce
from operator import getitem
from typing import TYPE_CHECKING, Any

from corral.config import account
from corral.config.load import load
from corral.config.service import installed
from corral.core.errors import ConfigInvalid

if TYPE_CHECKING:
    from corral.client.connection import Client


def ignored(speaker: Client) -> list[str]:
    """A line for each variable of this environment whose value is not the one in force."""
    home = account.home()
    try:
        loaded = load(speaker.project, environ=os.environ, home=home)
    except ConfigInvalid as error:
        return [
            f"{fault['source']} does not count: {fault['field']} {fault['reason']}."
            for fault in error.details["errors"]
            if fault["source"] in os.environ
        ]
    if not loaded.overrides:
        return []
    own, in_force = loaded.settings.model_dump(mode="json"), speaker.request("GET", "/config")
    by_unit = installed(speaker.project, os.environ, home) is not None
    return [
        f"{variable} does not count for this command: the running daemon has {key} from {in_force['sources'][key]}. "
        + (f"Its unit starts it; `corral config set {key} VALUE`" if by_unit else "`corral daemon restart`")
        + " changes it for all."
        for key, variable in loaded.overrides.items()
        if _value(own, key) != _value(in_force["settings"], key)
    ]


def _value(settings: Any, key: str) -> Any:
    return reduce(getitem, key.split("."), settings)
