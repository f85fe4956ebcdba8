"""Whether what a daemon recorded is as declared: events, each with the keys and values of its kind's type; errors."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from typing_extensions import is_typeddict

from corral.core import event_payloads, events
from corral.core.events import EventKind, Kind

SHAPES: dict[str, Any] = {name: shape for name, shape in vars(event_payloads).items() if is_typeddict(shape)}
"""All types of payloads, by name."""
_PAYLOADS = get_type_hints(EventKind, {**vars(events), "payloads": event_payloads})

for _shape in SHAPES.values():
    with_config(ConfigDict(strict=True, extra="forbid"))(_shape)


def kinds() -> dict[str, tuple[Any, ...]]:
    """Every kind, with the type of its payload: one, or several of which it has one."""
    every = [(name, kind) for name, kind in vars(EventKind).items() if isinstance(kind, Kind)]
    payloads = {kind: get_args(_PAYLOADS[name])[0] for name, kind in every}
    return {str(kind): get_args(payload) or (payload,) for kind, payload in payloads.items()}


@cache
def _adapters() -> Mapping[str, list[TypeAdapter[Any]]]:
    return {kind: [TypeAdapter(shape) for shape in shapes] for kind, shapes in kinds().items()}


def faults(recorded: Iterable[tuple[str, Any]]) -> list[str]:
    """What is wrong with events, each a kind and its data; empty where each is as its type says."""
    return [f"{kind} {data}: {wrong}" for kind, data in recorded if (wrong := _fault(kind, data))]


def _fault(kind: str, data: Any) -> str | None:
    wrong = "no such kind"
    for adapter in _adapters().get(kind, ()):
        try:
            adapter.validate_json(
                json.dumps(data, ensure_ascii=False).encode(errors="replace")
            )  # a name may be no UTF-8
        except ValidationError as error:
            wrong = str(error)
        else:
            return None
    return wrong


def faults_in(database: Path) -> list[str]:
    """The same of all events of a database file; nothing is said of a file that cannot be read."""
    if not database.is_file():
        return []
    try:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as conn:
            rows = conn.execute("SELECT kind, data FROM events").fetchall()
    except sqlite3.Error:  # tests break it, and have databases of other versions
        return []
    return faults((kind, json.loads(data)) for kind, data in rows)


def undeclared_in(logs: Path) -> list[str]:
    """The errors in a daemon's logs that an operation answered and does not declare."""
    try:
        text = "".join(file.read_text("utf-8", "replace") for file in sorted(logs.glob("corral.log*")))
    except OSError:  # tests put other things there
        return []
    return [line for line in text.splitlines() if '"event": "undeclared_error"' in line]
