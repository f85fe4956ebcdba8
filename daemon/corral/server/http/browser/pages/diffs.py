"""The pages of what a task or a merge request changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from corral.app.runtime.services import Services
from corral.app.view import diffs
from corral.observe.redaction import redact
from corral.server.http.browser.visit import Visit

_HEADS = (
    "diff --git ",
    "index ",
    "--- ",
    "+++ ",
    "new file ",
    "deleted file ",
    "similarity ",
    "rename ",
    "old mode ",
    "new mode ",
)


async def of_task(services: Services, _visit: Visit, item: str) -> dict[str, Any]:
    """The changes of a task."""
    found = await services.work(lambda: diffs.of_task(services, item))
    return _values(found, f"/tasks/{found['task_id']}")


async def of_merge(services: Services, _visit: Visit, item: str) -> dict[str, Any]:
    """The changes of a merge request on its target."""
    found = await services.work(lambda: diffs.of_merge(services, item))
    return _values(found, f"/merges/{found['merge_id']}")


def _values(found: dict[str, Any], back: str) -> dict[str, Any]:
    lines = [*marked(redact(found["patch"] or ""))]
    return {"title": f"Changes: {found['title']}", "diff": found, "lines": lines, "back": back}


def marked(patch: str) -> Iterator[tuple[str, str]]:
    """The lines of a patch, each with what it is: ``file``, ``hunk``, ``plus``, ``minus`` or ``same``."""
    in_hunk = False
    for line in patch.split("\n"):
        if line.startswith("diff --git "):
            in_hunk = False
        if line.startswith("@@"):
            in_hunk = True
            yield "hunk", line
        elif not in_hunk and line.startswith(_HEADS):
            yield "file", line
        else:
            yield {"+": "plus", "-": "minus"}.get(line[:1], "same"), line
