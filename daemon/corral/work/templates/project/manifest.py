"""The optional file ``.corral/template.yaml`` of a template: what it is, and which Corral it suits.

```yaml
name: web-shop
description: Agents and task templates of our shops.
corral: ">=0.4"            # also a list with commas: ">=0.4,<2"
```
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator
from typing import Any

from corral.config.document import DocumentError, read_located
from corral.git.remote.parts import MANIFEST, Parts
from corral.work.templates.task_template import Problem

_FIELDS = ("name", "description", "corral")
_BOUND = re.compile(r"(>=|<=|==|>|<)\s*(\d+(?:\.\d+){0,3})")
_COMPARE: dict[str, Any] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}


def problems_of(data: bytes) -> Iterator[Problem]:
    """The errors of the file."""
    try:
        fields, lines = read_located(data)
    except DocumentError as error:
        yield Problem(None, "", str(error))
        return
    if not isinstance(fields, dict):
        yield Problem(1, "", "must be a mapping: `name: value` lines")
        return
    for name, value in fields.items():
        if name not in _FIELDS:
            yield Problem(lines.get((name,)), str(name), f"is no field; there are {', '.join(_FIELDS)}")
        elif not isinstance(value, str):
            yield Problem(lines.get((name,)), name, "must be text")
        elif name == "corral" and _bounds(value) is None:
            yield Problem(lines.get((name,)), name, 'must be bounds such as ">=0.4,<2"')


def unsuitable(parts: Parts, version: str) -> str:
    """Why a template does not suit this version of Corral; empty if it does, or says nothing about it."""
    if MANIFEST not in parts:
        return ""
    try:
        fields = read_located(parts[MANIFEST].data).value
    except DocumentError:
        return ""
    versions = fields.get("corral") if isinstance(fields, dict) else None
    bounds = _bounds(versions) if isinstance(versions, str) else None
    here = _numbers(version)
    if bounds is None or all(_COMPARE[sign](here, _numbers(bound)) for sign, bound in bounds):
        return ""
    return f"The template wants Corral {versions}; this is {version}."


def _bounds(text: str) -> list[tuple[str, str]] | None:
    matches = [_BOUND.fullmatch(part.strip()) for part in text.split(",")]
    return [(match[1], match[2]) for match in matches if match] if all(matches) else None


def _numbers(version: str) -> tuple[int, ...]:
    numbers = [int(part) for part in re.findall(r"\d+", version)[:4]]
    return tuple(numbers + [0] * (4 - len(numbers)))
