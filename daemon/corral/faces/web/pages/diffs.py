"""The pages of what a task or a merge request changes."""

from __future__ import annotations

from typing import Any

from corral.coordination.services import Services
from corral.core.redaction import redact
from corral.faces.web.patches import marked
from corral.faces.web.visit import Visit
from corral.work.merges import diffs


async def of_task(services: Services, _visit: Visit, item: str) -> dict[str, Any]:
    """The changes of a task."""
    values = await services.work(lambda: _values(diffs.of_task(services, item)))
    return {**values, "back": f"/tasks/{values['diff']['task_id']}"}


async def of_merge(services: Services, _visit: Visit, item: str) -> dict[str, Any]:
    """The changes of a merge request on its target."""
    values = await services.work(lambda: _values(diffs.of_merge(services, item)))
    return {**values, "back": f"/merges/{values['diff']['merge_id']}"}


def _values(diff: dict[str, Any]) -> dict[str, Any]:
    return {"title": f"Changes: {diff['title']}", "diff": diff, "lines": [*marked(redact(diff["patch"] or ""))]}
