"""The actions of a person on a row: one key each, and the request that it makes."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from corral.client.connection import segment
from corral.core.outcomes import NEEDS_APPROVAL, Outcome
from corral.faces.screen import panels
from corral.faces.screen.text import Row


@dataclass(frozen=True)
class Action:
    """Something to do with a row.

    Attributes:
        key: The key.
        label: Its name in the footer.
        about: Its line on the help page.
        asks: Whether it ends or gives up something, so that the person is asked first.
    """

    key: str
    label: str
    about: str
    asks: bool = False


APPROVE = Action("a", "approve", "approve a merge, after its diff was shown")
RETRY = Action("r", "retry", "run a failed task again, or queue a merge again")
DISMISS = Action("d", "dismiss", "nothing more is to be done about it; its branch stays", asks=True)
CANCEL = Action("c", "cancel", "cancel a task or a merge; its work is saved", asks=True)
RAISE = Action("+", "priority", "raise the priority of a task that waits")
LOWER = Action("-", "priority", "lower the priority of a task that waits")
FOLLOW = Action("l", "log", "follow the output of a task or of a verification")
OPEN = Action("o", "open", "open its worktree, or a new one, in $SHELL; O: in $EDITOR")
ATTACH = Action("t", "attach", "resume its conversation with Claude Code, or show how")
MESSAGE = Action("m", "message", "send a message to its agent, or reply")
END = Action("e", "end", "end a session and release its locks", asks=True)
RELEASE = Action("x", "release", "take a lock from its holder", asks=True)
REVERT = Action("z", "revert", "queue the revert of what a merge brought", asks=True)
SKIP = Action("b", "skip", "send a merge to the back of its queue", asks=True)
RESUME = Action("u", "resume", "claim and land again after a pause")
ALL = (APPROVE, RETRY, DISMISS, OPEN, FOLLOW, MESSAGE, ATTACH, RAISE, LOWER, CANCEL, SKIP, REVERT, END, RELEASE, RESUME)
BY_KEY = {action.key: action for action in ALL} | {"O": OPEN, "=": RAISE}

_RETRYABLE = ("failed", "dead", "cancelled", "dismissed", "conflict", "red", "not landed")
_RETURNED = ("conflict", "red")
_OPEN_MERGES = ("queued", "verifying", "held")
_WAITS = ("pending", "waiting", "interrupted")


@dataclass(frozen=True)
class RowSubject:
    """The things that a row is about; None where it has none."""

    title: str
    task_id: str | None = None
    merge_id: str | None = None
    session_id: str | None = None
    agent: str | None = None
    lock: Row | None = None
    message: Row | None = None
    worktree_id: str | None = None

    @property
    def merge(self) -> str | None:
        """A name of its merge request: its own id, or its task's."""
        return self.merge_id or self.task_id


def subject_of(panel: str, row: Row) -> RowSubject:
    """The things that a row is about."""
    if panel == panels.NEEDS:
        ids = row["ids"]
        name = row["what"].split(" ", 1)[0] if "session_id" in ids else None
        return RowSubject(
            row["title"] or row["what"], ids.get("task_id"), ids.get("merge_id"), ids.get("session_id"), name,
            worktree_id=ids.get("worktree_id"),
        )  # fmt: skip
    if panel == panels.TASKS:
        return RowSubject(row["title"], row["task_id"], agent=row["agent"])
    if panel == panels.AGENTS:
        task_id = row["work"]["task_id"] if row["work"] else row["task_id"]
        return RowSubject(row["agent_name"], task_id, None, row["session_id"], row["agent_name"])
    if panel == panels.MERGES:
        return RowSubject(row["title"], row["task_id"], row["merge_id"])
    if panel == panels.LOCKS:
        return RowSubject(row["file_path"], None, None, row["session_id"], row["locked_by"], lock=row)
    return RowSubject(row["subject"], agent=row["from"], message=row)


def actions_of(panel: str, row: Row) -> Sequence[Action]:
    """The actions for a row, the likeliest first."""
    if panel == panels.LOCKS:
        return (RELEASE, MESSAGE)
    if panel == panels.MAIL:
        return (MESSAGE,)
    of_rows = {panels.NEEDS: _of_need, panels.TASKS: _of_task, panels.AGENTS: _of_agent, panels.MERGES: _of_merge}
    return of_rows[panel](row) if panel in of_rows else ()


def main_key(need: Row) -> str:
    """The key that settles what needs a person, as its row shows it: that of the command that its remedy names."""
    actions = _of_need(need)
    return f"{actions[0].key} {actions[0].label}" if actions else "Enter look"


def _of_need(row: Row) -> tuple[Action, ...]:
    kind, ids = row["kind"], row["ids"]
    if kind == "merge_approval":
        return (APPROVE, FOLLOW, OPEN, CANCEL)
    if kind == "paused_work":
        return (RESUME,)
    if not ids:  # of the whole project, or of more things of a kind than are listed
        return ()
    if "worktree_id" in ids:
        return (OPEN,)
    if kind == "returned_merge":
        if row["name"] != Outcome.CONFLICT:
            return (OPEN, FOLLOW, RETRY, DISMISS)
        return (OPEN, RETRY, DISMISS) if "task_id" in ids else (OPEN, DISMISS)  # a branch alone conflicts again
    if kind == "failed_task":
        return (RETRY, FOLLOW, DISMISS)
    if "session_id" in ids:
        return (ATTACH, MESSAGE, END, *((FOLLOW,) if "task_id" in ids else ()))
    if "merge_id" in ids:
        return (RETRY, FOLLOW, OPEN, CANCEL)
    return (FOLLOW, CANCEL) if "task_id" in ids else ()


def _of_task(row: Row) -> tuple[Action, ...]:
    outcome = row["outcome"]
    if outcome == "held":
        return (APPROVE, FOLLOW, OPEN, CANCEL)
    if outcome == "running":
        return (FOLLOW, MESSAGE, OPEN, ATTACH, CANCEL)
    if outcome in _WAITS:
        return (RAISE, LOWER, CANCEL)
    if outcome in _OPEN_MERGES:
        return (FOLLOW, OPEN, CANCEL)
    if outcome in _RETRYABLE:
        settled = () if outcome in ("cancelled", "dismissed", "not landed") else (DISMISS,)
        first = (OPEN, FOLLOW, RETRY) if outcome in _RETURNED else (RETRY, FOLLOW, OPEN)
        return (*first, *settled, ATTACH)
    return (FOLLOW, ATTACH)


def _of_agent(row: Row) -> tuple[Action, ...]:
    if row["status"] == "disconnected":
        return (ATTACH,)
    of_task = (FOLLOW, CANCEL) if row["work"] else ()
    return (MESSAGE, ATTACH, *of_task, OPEN, END)


def _of_merge(row: Row) -> tuple[Action, ...]:
    if row["state"] == "held" and str(row["reason"]).startswith(NEEDS_APPROVAL):
        return (APPROVE, FOLLOW, OPEN, CANCEL)
    if row["state"] in _OPEN_MERGES:
        return (FOLLOW, OPEN, CANCEL, RETRY, SKIP) if row["state"] == "held" else (FOLLOW, OPEN, CANCEL, SKIP)
    if row["outcome"] in _RETURNED:
        return (OPEN, FOLLOW, RETRY, DISMISS)
    if row["outcome"] == "dismissed":
        return (RETRY, FOLLOW, OPEN)
    if row["outcome"] == "landed":
        return (FOLLOW, REVERT)
    return (RETRY,) if row["state"] == "cancelled" else (FOLLOW,)


@dataclass(frozen=True)
class Call:
    """A request to the daemon, and the message after it succeeds."""

    path: str
    body: Any
    done: str


def call_of(action: Action, panel: str, row: Row) -> Call:
    """The request of an action that needs nothing but its row."""
    subject = subject_of(panel, row)
    task, merge = segment(subject.task_id or "-"), segment(subject.merge or "-")
    if action is RETRY:
        return _retry(panel, row, subject)
    if action is DISMISS:
        return Call(
            f"/merges/{merge}/dismiss", None, "Dismissed. Its branch stays; r in the list of tasks tries it again."
        )
    if action is SKIP:
        return Call(f"/merges/{merge}/skip", None, "It went to the back of its queue.")
    if action is REVERT:
        return Call(f"/merges/{merge}/revert", {}, "Its revert is queued.")
    if action is CANCEL:
        if panel == panels.MERGES or (subject.task_id is None) or _is_merging(panel, row):
            return Call(f"/merges/{merge}/cancel", None, "Cancelled; its branch stays.")
        return Call(f"/tasks/{task}/cancel", {"reason": "Cancelled."}, "Cancelled; its work is saved.")
    if action in (RAISE, LOWER):
        priority = max(0, min(10, row["priority"] + (1 if action is RAISE else -1)))
        return Call(f"/tasks/{task}/reprioritize", {"priority": priority}, f"Priority {priority}.")
    if action is END:
        return Call(f"/sessions/{segment(subject.session_id or '-')}/end", {}, f"{subject.agent} has ended.")
    if action is RELEASE:
        body = {"lock_ids": [row["lock_id"]], "note": "Released by a person.", "certain": True}
        return Call("/locks/force-release", body, f"{row['file_path']} is free.")
    return Call("/resume", None, "Work continues.")


def _is_merging(panel: str, row: Row) -> bool:
    """Whether a row's task has ended, so that only its merge request can be cancelled."""
    if panel == panels.NEEDS:
        return "merge_id" in row["ids"]
    return panel == panels.TASKS and row["outcome"] in _OPEN_MERGES


def _retry(panel: str, row: Row, subject: RowSubject) -> Call:
    """Run the task again where its own work is at fault; queue its request again where a retry can do with that work."""
    outcome = row["name"] if panel == panels.NEEDS else row["outcome"]
    runs_again = outcome in ("conflict", "failed", "dead", "cancelled", "dismissed", "not landed")
    of_merge = panel == panels.MERGES and outcome != "conflict"
    if subject.task_id is not None and runs_again and not of_merge:
        return Call(f"/tasks/{segment(subject.task_id)}/retry", None, "Queued again; it starts from its target's tip.")
    done = "Queued again; it is merged and verified once more."
    return Call(f"/merges/{segment(subject.merge or '-')}/retry", {"follow_branch": subject.task_id is None}, done)


def letter(to: str, subject: str, text: str, answered: Row | None) -> Call:
    """A message, or the reply to one."""
    key = str(uuid.uuid4())
    if answered is not None:
        path = f"/messages/{segment(str(answered['id']))}/reply"
        return Call(path, {"body": text, "idempotency_key": key}, f"Sent to {answered['from']}.")
    names = [name.strip() for name in to.split(",") if name.strip()]
    body = {"to": names, "subject": subject, "body": text, "idempotency_key": key}
    return Call("/messages", body, f"Sent to {', '.join(names)}.")
