"""The first page: what ``corral status`` shows, in the same order, each with what can be done about it."""

from __future__ import annotations

from typing import Any

from corral.coordination.services import Services
from corral.core.outcomes import Outcome
from corral.core.visible import waiting
from corral.faces.web.actions import Button
from corral.faces.web.live import following
from corral.faces.web.rendering import Visit
from corral.observe.view.composing import view

OF_MERGES = {
    "merge_approval": ("approve",),
    "red_target": ("retry",),
    "paused_target": ("retry",),
    "unverified_merge": ("retry",),
    "returned_merge": ("retry", "dismiss"),
}
OF_TASKS = {
    "failed_task": ("retry", "dismiss"),
    "unobserved_worker": ("cancel",),
    "task_cannot_start": ("cancel",),
    "nobody_capable": ("cancel",),
}


async def page(services: Services, _visit: Visit, _item: str) -> dict[str, Any]:
    """The values of the first page."""
    current = await view(services)
    shown = current.model_dump(mode="json")
    for need in shown["needs_you"]:
        need["buttons"], need["links"] = buttons(need), links(need["ids"])
        need["row"] = " ".join([need["kind"], *sorted(need["ids"].values())])
    for session in shown["sessions"]:
        session["waits"] = waiting(session["waiting_for"]) if session["waiting_for"] else ""
    return {"title": "Now", "view": shown, "live": following(current.seq)}


def buttons(need: dict[str, Any]) -> list[Button]:
    """The buttons of a condition: the actions that may settle it."""
    ids = need["ids"]
    if need["name"] == Outcome.CONFLICT:  # its commits would conflict again; its task is run on the new tip
        again = [Button.of("tasks", ids["task_id"], "retry")] if "task_id" in ids else []
        return [*again, Button.of("merges", ids["merge_id"], "dismiss")]
    merge = [
        Button.of("merges", ids["merge_id"], name) for name in OF_MERGES.get(need["kind"], ()) if "merge_id" in ids
    ]
    task = [Button.of("tasks", ids["task_id"], name) for name in OF_TASKS.get(need["kind"], ()) if "task_id" in ids]
    return merge + task


def links(ids: dict[str, str]) -> list[tuple[str, str]]:
    """The pages of the rows that a condition is about."""
    pages = (
        ("task_id", "tasks", "task"),
        ("merge_id", "merges", "merge request"),
        ("session_id", "sessions", "session"),
    )
    return [(f"/{folder}/{ids[name]}", word) for name, folder, word in pages if name in ids]
