"""The actions of a person in the web view: the same operations as on the command line.

An action that ends work is confirmed first, on a page of its own; a form without that confirmation changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from corral.coordination.locks import operations as locks
from corral.coordination.locks.api import Force
from corral.coordination.mail import operations as messages
from corral.coordination.mail.api import Sending
from corral.coordination.services import Services
from corral.core.errors import NOT_IN_THIS_VERSION, InvalidInput, NotFound
from corral.core.payload import Payload
from corral.core.redaction import redact
from corral.faces.web.rendering import Visit, marked
from corral.landing import operations as merges
from corral.landing import steering_operations as steering
from corral.landing.api import Approval, Bypass, Undo
from corral.observe.audit import requests as audit_requests
from corral.work.tasks import operations as tasks
from corral.work.tasks.api import Cancellation

Act = Callable[[Services, str, dict[str, str]], Awaitable[Any]]


@dataclass(frozen=True)
class Action:
    """An action on one row.

    Attributes:
        label: Of its button.
        asks: The effect, as its confirmation says it; empty: it is done at once.
        sure: Label of the button that does it.
        key: That presses it, the same as on the terminal screen; empty: none.
    """

    label: str
    act: Act
    asks: str = ""
    sure: str = ""
    key: str = ""


@dataclass(frozen=True)
class Button:
    """A button of a page: a form where the action is done at once, else a link to its confirmation."""

    label: str
    address: str
    is_link: bool
    key: str = ""

    @classmethod
    def of(cls, noun: str, item: str, name: str) -> Button:
        """The button of an action on a row."""
        action = ACTIONS[noun, name]
        return cls(action.label, f"/{noun}/{quote(item, safe='')}/{name}", bool(action.asks), action.key)


async def _cancel_task(services: Services, item: str, form: dict[str, str]) -> Any:
    reason = form.get("reason", "").strip()[:2000]
    return await tasks.cancel(services, item, Cancellation(reason=reason) if reason else Cancellation())


async def _retry_task(services: Services, item: str, _form: dict[str, str]) -> Any:
    return await tasks.retry(services, item)


async def _reprioritize(services: Services, item: str, form: dict[str, str]) -> Any:
    priority = form.get("priority", "")
    return await tasks.reprioritize(
        services, item, {"priority": int(priority) if priority.isdecimal() and len(priority) < 4 else None}
    )


async def _dismiss(services: Services, item: str, _form: dict[str, str]) -> Any:
    return await merges.dismiss(services, item)


async def _retry_merge(services: Services, item: str, _form: dict[str, str]) -> Any:
    return await merges.retry(services, item)


async def _cancel_merge(services: Services, item: str, _form: dict[str, str]) -> Any:
    return await merges.cancel(services, item)


async def _approve(services: Services, item: str, form: dict[str, str]) -> Any:
    return await merges.approve(services, item, Approval(head_sha=_head(form), session_id=None, task_id=None))


async def _revert(services: Services, item: str, _form: dict[str, str]) -> Any:
    return await steering.revert(services, item, Undo(session_id=None))


async def _skip(services: Services, item: str, _form: dict[str, str]) -> Any:
    return await steering.skip(services, item)


async def _bypass(services: Services, item: str, form: dict[str, str]) -> Any:
    reason = form.get("reason", "").strip()[:500]
    if not reason:
        raise InvalidInput("The form gives no reason.", remedy="Go back, and say why nothing has to verify it.")
    return await steering.bypass(
        services, item, Bypass(head_sha=_head(form), reason=reason, session_id=None, task_id=None)
    )


def _head(form: dict[str, str]) -> str:
    """The head that the person saw."""
    head = form.get("head_sha", "")
    if len(head) not in (40, 64) or set(head) - set("0123456789abcdef"):
        raise InvalidInput("The form names no head.", remedy="Open the page again.")
    return head


async def _release(services: Services, item: str, _form: dict[str, str]) -> None:
    force = Force(file_path=None, lock_ids=[item], note="Released in the web view.", certain=True, session_id=None)
    if not (await locks.force_release(services, force))["released"]:
        raise NotFound(
            "There is no such lock any more.", cause="It was released, or has expired.", remedy="Nothing to do."
        )


async def _send(services: Services, item: str, form: dict[str, str]) -> None:
    body, subject = form.get("body", "").strip(), form.get("subject", "").strip()
    if not body:
        raise InvalidInput("The message is empty.", remedy="Go back, and write it.")
    subject = subject or body.splitlines()[0][:80]
    key = form.get("key") or None
    await messages.send(
        services,
        Sending(to=[item], subject=subject, body=body, thread_id=None, session_id=None, name=None, idempotency_key=key),
    )


ACTIONS: dict[tuple[str, str], Action] = {
    ("tasks", "cancel"): Action(
        "Cancel",
        _cancel_task,
        "The task is cancelled. If its worker runs, it is ended; what it wrote is saved first.",
        "Cancel the task",
        "c",
    ),
    ("tasks", "retry"): Action("Retry", _retry_task, key="r"),
    ("tasks", "reprioritize"): Action("Set", _reprioritize),
    ("tasks", "dismiss"): Action(
        "Dismiss",
        _dismiss,
        "Nothing more is done about this task. Its branch and its log stay, and a retry takes this back.",
        "Dismiss it",
        "d",
    ),
    ("merges", "retry"): Action("Retry", _retry_merge, key="r"),
    ("merges", "cancel"): Action(
        "Take out of the queue",
        _cancel_merge,
        "The request leaves the queue, and a verification of it that runs is ended. Its branch stays.",
        "Take it out",
        "c",
    ),
    ("merges", "approve"): Action(
        "Look and approve",
        _approve,
        "Once approved it is verified, and lands if that passes.",
        "Approve this change",
        "a",
    ),
    ("merges", "revert"): Action(
        "Revert",
        _revert,
        "What it brought is taken back by a request of its own, which is verified and lands like any other.",
        "Queue the revert",
    ),
    ("merges", "skip"): Action(
        "Let others pass",
        _skip,
        "The request goes to the back: every other one that waits now comes before it.",
        "Let them pass",
    ),
    ("merges", "bypass"): Action(
        "Land unverified",
        _bypass,
        "It lands without a verification, and its receipt says so. Its target is verified afterwards; red, it stops the others.",
        "Land it unverified",
    ),
    ("merges", "dismiss"): Action(
        "Dismiss", _dismiss, "Nothing more is done about this request. Its branch stays.", "Dismiss it", "d"
    ),
    ("locks", "release"): Action(
        "Release",
        _release,
        "The lock is taken from its holder, who is told. If the holder is writing the file, both may write it.",
        "Release the lock",
        "x",
    ),
    ("sessions", "message"): Action("Send", _send),
}


ASKS_REASON = {("tasks", "cancel"): "Why (optional)", ("merges", "bypass"): "Why, for the receipt"}
"""The actions whose confirmation asks for a reason, and with which words."""
NAMES_IN_AUDIT = {"dismiss": "merge.dismiss", "release": "lock.force_release", "message": "message.send"}
"""The actions that the audit knows by another name than their address."""


async def ask(services: Services, visit: Visit, _item: str) -> dict[str, Any]:
    """The confirmation of an action."""
    noun, item, name, action = _named(visit)
    if not action.asks:
        raise NotFound("There is no such page.", cause=NOT_IN_THIS_VERSION, remedy="Go to the first page.")
    return await _confirmation(services, noun, item, name, action)


async def act(services: Services, visit: Visit, _item: str) -> dict[str, Any] | Response:
    """Run the action of a form; one that ends work needs a confirmation first."""
    noun, item, name, action = _named(visit)
    if action.asks and visit.form.get("confirmed") != "yes":
        return await _confirmation(services, noun, item, name, action)
    await _act_and_note(services, noun, item, name, visit.form)
    to = visit.form.get("back", "")
    path = to if to.startswith("/") and not to.startswith("//") and "\\" not in to and to.isprintable() else "/"
    return RedirectResponse(f"{quote(path, safe='/%')}?done={name}", 303)


async def _act_and_note(services: Services, noun: str, item: str, name: str, form: dict[str, str]) -> None:
    """Run an action, and note it for the audit under the name of the same request over HTTP."""
    deed = NAMES_IN_AUDIT.get(name, f"{noun.removesuffix('s')}.{name}")
    fields = {field: form[field] for field in ("reason", "priority", "head_sha") if form.get(field)}
    arguments = {
        "to" if noun == "sessions" else f"{noun.removesuffix('s')}_id": item,
        **fields,
    }  # in the audit, session_id would name the actor
    try:
        answer = await ACTIONS[noun, name].act(services, item, form)
    except Exception as error:  # the edge: noted, and answered by the page of errors
        audit_requests.note(services, deed, arguments, error)
        raise
    audit_requests.note(services, deed, arguments, answer)


def _named(visit: Visit) -> tuple[str, str, str, Action]:
    _, noun, item, name = visit.path.split("/")
    action = ACTIONS.get((noun, name))
    if action is None:
        raise NotFound("There is no such page.", cause=NOT_IN_THIS_VERSION, remedy="Go to the first page.")
    return noun, item, name, action


async def _confirmation(services: Services, noun: str, item: str, name: str, action: Action) -> dict[str, Any]:
    subject, back, review, lines = item, f"/{noun}/{quote(item, safe='')}", None, list[tuple[str, str]]()
    head = ""
    if noun == "tasks":
        subject = (await tasks.detail(services, item))["title"]
    elif noun == "merges":
        merge = await merges.detail(services, item)
        subject, head = merge["title"], merge["head_sha"]
        if name == "approve":
            review = await merges.review(services, item)
            text = review["diff"]
            lines = await services.work(lambda: [*marked(redact(text))])
    else:
        lock = await _lock(services, item)
        subject, back = f"{lock['file_path']} (held by {lock['locked_by']})", f"/sessions/{quote(lock['session_id'])}"
    return {
        "title": action.sure, "action": action, "address": f"/{noun}/{quote(item, safe='')}/{name}", "subject": subject,
        "back": back, "review": review, "lines": lines, "asks_reason": ASKS_REASON.get((noun, name), ""), "head": head,
    }  # fmt: skip


async def _lock(services: Services, item: str) -> Payload:
    from corral.faces.web.pages.sessions import live_locks

    row = next((lock for lock in await live_locks(services) if lock["lock_id"] == item), None)
    if row is None:
        raise NotFound(
            "There is no such lock any more.", cause="It was released, or has expired.", remedy="Nothing to do."
        )
    return row
