"""Messages from Corral itself: a task ended, a merge landed or came back, a batch is settled, mail did not arrive.

The letters are written from the events, in their order, by one job that keeps in the database how far it has come: a letter and
that place are stored together, so each is sent exactly once, whenever the daemon dies.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.mail import addresses, messages
from corral.coordination.mail.addresses import EVERYBODY, MOST_RECIPIENTS, heir
from corral.coordination.mail.messages import BODY_LIMIT, Letter
from corral.coordination.mail.store import messages as message_rows
from corral.coordination.services import Services
from corral.coordination.sessions.store import names
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.crash import crash_point
from corral.core.errors import CorralError
from corral.core.events import EventKind, payload
from corral.core.instants import iso, parse
from corral.core.logs import logger
from corral.core.payload import Payload
from corral.core.states import RETURNED_MERGES, Importance, RecipientRole, SessionStatus, TaskStatus
from corral.core.steps import Step
from corral.git import refs
from corral.git.process.command import Git
from corral.observe.announcements import store as announcements
from corral.store import events
from corral.store.protocol import Store
from corral.store.rows import required
from corral.store.rows.mail import UnseenMessage
from corral.store.rows.merges import MergeRow
from corral.store.rows.records import AttemptEnd, EventRow
from corral.store.rows.sessions import SessionRow
from corral.store.rows.tasks import BatchTask, TaskRow
from corral.work.merges.store import merges
from corral.work.merges.store import of_tasks as merge_tasks
from corral.work.tasks.store import tasks as task_rows

if TYPE_CHECKING:
    from corral.core.event_payloads import MergeHeld, TaskCompleted

AGAIN_S = 0.5
"""Seconds between two looks for events while a task or merge is open; otherwise the job waits for a nudge."""
SAVED_WITHIN = timedelta(seconds=20)
"""How long the letter about a failed task waits for what its last attempt made to be saved, so that it can say where."""
_ENDED = (EventKind.TASK_COMPLETED, EventKind.TASK_FAILED, EventKind.TASK_DEAD, EventKind.TASK_CANCELLED)
_FAILED = (EventKind.TASK_FAILED, EventKind.TASK_DEAD)
_MERGED = (EventKind.MERGE_LANDED, EventKind.MERGE_CONFLICT, EventKind.MERGE_FAILED, EventKind.MERGE_CANCELLED)
_LOST = (EventKind.SESSION_ENDED, EventKind.TASK_RETRIED, EventKind.TASK_INTERRUPTED, *_FAILED)
"""Events that end a session, or correct an earlier message."""
_HELD = EventKind.MERGE_HELD
KINDS: tuple[str, ...] = tuple(dict.fromkeys((*_ENDED, *_MERGED, *_LOST, _HELD)))
_NEWS = events.of_kinds(KINDS)
AT_ONCE = 50
"""Events of one look."""


class Announcer:
    """Step: turn the events that are not announced yet into letters.

    Args:
        repo: For the files that a task changed.
        changed: Called when something was sent.
    """

    def __init__(self, db: Store, repo: Git, changed: Callable[[], None]) -> None:
        self._db = db
        self._repo = repo
        self._changed = changed

    def step(self, now: datetime) -> datetime | None:
        """Announce every due event; returns when to look again."""
        while True:
            last = self._db.read(announcements.last_announced)
            with self._db.reading() as conn:
                news = _NEWS.all(conn, {"after": last, "most": AT_ONCE})
            due = list(takewhile(lambda event: not self._is_early(event, now), news))
            for event in due:
                self._announce(event, now)
            if due:
                self._changed()
            if len(due) < len(news):
                return now + timedelta(seconds=AGAIN_S)
            if not news:
                return now + timedelta(seconds=AGAIN_S) if self._db.read(announcements.is_busy) else None

    def _announce(self, event: EventRow, now: datetime) -> None:
        artifacts = self._artifacts(event)
        crash_point("announcements.before_letter")
        try:
            self._db.write(_send_letters, event, artifacts, now)
        except (CorralError, ValueError) as error:  # one letter that cannot be written must not stop all that follow
            reason = error.message if isinstance(error, CorralError) else repr(error)
            self._db.write(_give_up, event, reason, now)
        crash_point("announcements.letter_sent")

    def _is_early(self, event: EventRow, now: datetime) -> bool:
        """Whether the work of a failed task is still being saved."""
        return (
            event["kind"] in _FAILED
            and abs(now - parse(event["at"])) < SAVED_WITHIN
            and self._db.read(announcements.is_being_saved, required(event["task_id"]))
        )

    def _artifacts(self, event: EventRow) -> Payload:
        """Facts from git: ``head_sha`` and ``files`` of a completed task's submission, the ``branch`` of a failed one."""
        try:
            if event["kind"] == EventKind.TASK_COMPLETED:
                with self._db.reading() as conn:
                    row = merge_tasks.decisive(conn, required(event["task_id"]))
                if row is None:
                    return {}
                base = row["base_sha"]  # none where the branch shares no history with its target
                files = refs.changed_paths(self._repo, base, row["head_sha"]) if base is not None else []
                return {"head_sha": row["head_sha"], "files": files}
            if event["kind"] in _FAILED:
                with self._db.reading() as conn:
                    task = task_rows.get(conn, required(event["task_id"]))
                branch = task["branch"] if task is not None else None
                return {"branch": branch} if branch and refs.read(self._repo, refs.branch_ref(branch)) else {}
        except CorralError:  # a commit that was pruned meanwhile is no reason not to tell of the task
            pass
        return {}


def _send_letters(conn: Connection, event: EventRow, artifacts: Payload, now: datetime) -> None:
    """Send the letters of one event and move the position past it, in one transaction."""
    if event["kind"] in _LOST:
        bounce(conn, event, now)
    held = payload(event, _HELD)
    if held is not None and held.get("paths"):
        merge = merges.get(conn, required(event["merge_id"]))
        send(conn, _hold_letter(held, merge), _lock_holders(conn, held, now), event, now)
    if event["kind"] in (*_ENDED, *_MERGED):
        task = task_rows.get(conn, event["task_id"]) if event["task_id"] else None
        if event["kind"] in _ENDED[:3] and task is not None:
            send(conn, _task_letter(conn, event, task, artifacts), [task["submitted_by"]], event, now)
        elif event["kind"] in _MERGED[:3]:
            merge = merges.get(conn, required(event["merge_id"]))
            send(conn, _merge_letter(event, merge, task), _merge_recipients(conn, merge, task), event, now)
        if task is not None and task["thread_id"] is not None:
            _send_batch_summary(conn, task["thread_id"], event, now)
    announcements.move_on(conn, event["event_id"])


def _give_up(conn: Connection, event: EventRow, reason: str, now: datetime) -> None:
    undeliverable(conn, event, event["kind"], [], reason, now)
    announcements.move_on(conn, event["event_id"])


# -- a task


def _task_letter(conn: Connection, event: EventRow, task: TaskRow, artifacts: Payload) -> Letter:
    completed = payload(event, EventKind.TASK_COMPLETED)
    facts = (
        _completion_facts(completed, task, artifacts)
        if completed is not None
        else _failure_facts(conn, event, task, artifacts)
    )
    return written(
        event["kind"],
        f"[{task['task_id'][:8]}] Task {'failed' if completed is None else 'complete'}: {task['title']}",
        {"task_id": task["task_id"], **facts, "duration_s": _duration(event, task)},
        task,
        Importance.HIGH if completed is None else Importance.NORMAL,
    )


def _completion_facts(completed: TaskCompleted, task: TaskRow, artifacts: Payload) -> Payload:
    result = task["result"] if isinstance(task["result"], dict) else {}
    sha = completed.get("head_sha") or task["head_sha"] or artifacts.get("head_sha") or result.get("commit_sha")
    changed = artifacts.get("files") or result.get("files_changed") or []
    return {"commit_sha": sha, "files_changed": changed}


def _failure_facts(conn: Connection, event: EventRow, task: TaskRow, artifacts: Payload) -> Payload:
    why = required(payload(event, *_FAILED))
    reason = (why.get("error_code") or task["error_code"], why.get("error_message") or task["error_message"])
    tried = [
        f"attempt {number} at {attempt['at']}: {_cause(attempt)}"
        for number, attempt in enumerate(announcements.attempts(conn, task["task_id"], event["event_id"]), 1)
    ]
    saved = announcements.saved(conn, task["task_id"], SHOWN)
    progress = {
        "last_seen_doing": task["progress"],
        "branch": artifacts.get("branch"),
        "head_sha": task["head_sha"],
        "salvage_ref": saved[0]["ref"] if saved else None,
        "files": ", ".join(saved[0]["files"]) or None if saved else None,
        "recover_with": f"corral worktree recover {saved[0]['worktree']}" if saved else None,
        "earlier_salvage_refs": ", ".join(state["ref"] for state in saved[1:]) or None,
        "result": task["result"],
    }
    return {
        "failure_reason": ": ".join(part for part in reason if part),
        "attempted_actions": tried,
        "partial_progress": {key: value for key, value in progress.items() if value is not None},
    }


def _cause(attempt: AttemptEnd) -> str:
    setback = required(payload(attempt, *announcements.SETBACKS))
    return setback.get("error_message") or setback.get("error_code") or attempt["kind"]


def _duration(event: EventRow, task: TaskRow) -> float | None:
    if task["started_at"] is None:
        return None
    return round((parse(event["at"]) - parse(task["started_at"])).total_seconds(), 3)


# -- a merge request


def _merge_letter(event: EventRow, merge: MergeRow, task: TaskRow | None) -> Letter:
    came_back = merge["state"] in RETURNED_MERGES
    landed, end = event["kind"] == EventKind.MERGE_LANDED, required(payload(event, *_MERGED))
    how = f"landed on {merge['target']}" if landed else f"did not land on {merge['target']}"
    facts = {
        "merge_id": merge["merge_id"],
        "task_id": merge["task_id"],
        "branch": merge["branch"],
        "target": merge["target"],
        "status": event["kind"].removeprefix("merge."),
        "landed_sha": end.get("landed_sha"),
        "reason": end.get("reason"),
        "conflicts": merge["conflicts"] if came_back else None,
    }
    importance = Importance.NORMAL if landed else Importance.HIGH
    return written(event["kind"], f"{merge['branch']} {how}: {merge['title']}", facts, task, importance)


def _merge_recipients(conn: Connection, merge: MergeRow, task: TaskRow | None) -> list[str | None]:
    """The session that submitted the work, and the one that made the branch if it is still there."""
    maker = session_rows.get(conn, merge["session_id"]) if merge["session_id"] else None
    alive = maker is not None and maker["status"] != SessionStatus.DISCONNECTED
    return [task["submitted_by"] if task else None, merge["session_id"] if alive or task is None else None]


def _hold_letter(held: MergeHeld, merge: MergeRow) -> Letter:
    """The letter to the session whose file a landing waits for: only that session can end the wait."""
    paths = held["paths"]
    facts = {
        "merge_id": merge["merge_id"],
        "branch": merge["branch"],
        "target": merge["target"],
        "checkout": held["checkout"],
        "paths": paths,
        "what_to_do": "Commit your changes to these files, or put them aside; it lands by itself within seconds then.",
    }
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    subject = f"{merge['branch']} cannot land on {merge['target']}: your changes to {paths[0]}{more} are not committed"
    return written(_HELD, subject, facts, None, Importance.HIGH)


def _lock_holders(conn: Connection, held: MergeHeld, now: datetime) -> list[str | None]:
    """The sessions that hold a lock on one of these files in this checkout: the lock is the evidence that they changed it."""
    keys = {key for path in held["paths"] for key in (path, path.lower())}
    here = os.path.realpath(held["checkout"] or "")
    return [
        row["session_id"]
        for row in lock_rows.named(conn, iso(now), match_keys=sorted(keys))
        if row["checkout"] and os.path.realpath(row["checkout"]) == here
    ]


# -- a batch


def _send_batch_summary(conn: Connection, thread_id: str, event: EventRow, now: datetime) -> None:
    """Send the participants of a batch one summary, after all other letters, once nothing of it is open."""
    if announcements.is_open(conn, thread_id) or announcements.follows(conn, thread_id, KINDS, event["event_id"]):
        return
    rows = announcements.batch(conn, thread_id)
    bad = [row for row in rows if row["status"] != TaskStatus.COMPLETED or row["merge_state"] in RETURNED_MERGES]
    # One summary per set of tasks and outcome: a retry that fails again has a letter of its own.
    identity = [thread_id, [row["task_id"] for row in rows], not bad]
    key = f"batch-{hashlib.sha256(json.dumps(identity).encode()).hexdigest()}"
    if message_rows.by_key(conn, None, key) is not None:
        return
    facts = {
        "final_status": "complete" if not bad else f"{len(bad)} of {len(rows)} tasks did not succeed",
        "merged_tasks": [_named(row) for row in rows if row["landed_sha"] is not None],
        "conflicts": [f"{_named(row)}: {_paths(row)}" for row in rows if row["conflicts"]],
        "not_merged": [
            f"{_named(row)}: {row['error_message'] or row['merge_state'] or 'nothing to merge'}"
            for row in rows
            if row["landed_sha"] is None and not row["conflicts"]
        ],
    }
    subject = f"Batch {thread_id}: {facts['final_status']}"
    importance = Importance.HIGH if bad else Importance.NORMAL
    letter = written("batch.settled", subject, facts, rows[0], importance)
    submitted = [row["submitted_by"] for row in rows]
    took_part = [*(row["session_id"] for row in rows), *announcements.wrote(conn, thread_id)]
    present = [session_id for session_id in took_part if session_id and session_rows.get(conn, session_id) is not None]
    send(conn, replace(letter, idempotency_key=key), [*submitted, *present], event, now)


def _named(row: BatchTask) -> str:
    return f"{row['task_id'][:8]} {row['title'][:120]}"


def _paths(row: BatchTask) -> str:
    return ", ".join(str(conflict.get("path")) for conflict in (row["conflicts"] or [])[:SHOWN])


def job(services: Services) -> Step:
    """The job of this module."""
    return Step("announcements", Announcer(services.db, services.git, services.changes.announce).step, pause_s=0.1)


# -- Undeliverable mail: the senders learn what a session that ended has not seen, or has lost


def bounce(conn: Connection, event: EventRow, now: datetime) -> None:
    """Tell the senders, one letter and one event each. The mail stays, in case the session comes back.

    Of a blind copy only its sender learns: no event tells of it, and the letter is in a thread of its own.
    """
    session_id = event["session_id"]
    row = session_rows.get(conn, session_id) if session_id is not None else None
    if session_id is None or row is None or row["status"] != SessionStatus.DISCONNECTED:
        return
    unseen: dict[str, list[UnseenMessage]] = {}
    for message in announcements.unseen(conn, session_id):
        unseen.setdefault(required(message["sender_session_id"]), []).append(message)
    announcements.mark_bounced(conn, session_id, iso(now))
    for writer, unread in unseen.items():
        sent = [message["message_id"] for message in unread if message["role"] != RecipientRole.BCC]
        if sent:
            shown = sent[:SHOWN]
            bounced = EventKind.MESSAGE_BOUNCED({"sender": writer, "message_ids": shown, "count": len(sent)})
            events.record(conn, now, bounced, session_id=session_id)
        sender = session_rows.get(conn, addresses.heir(conn, writer))
        if sender is not None and sender["status"] != SessionStatus.DISCONNECTED:
            send(conn, _bounce_letter(row, unread), [sender["session_id"]], event, now)


def _bounce_letter(session: SessionRow, messages: list[UnseenMessage]) -> Letter:
    """The letter to one sender about all of their messages that a session has not seen."""
    threads = {None if message["role"] == RecipientRole.BCC else message["thread_id"] for message in messages}
    more = f" and {len(messages) - SHOWN} more" if len(messages) > SHOWN else ""
    # Everybody may read the letter; whom a blind copy went to is nobody's business.
    blind = any(message["role"] == RecipientRole.BCC for message in messages)
    who = "who got a blind copy" if blind else session["agent_name"]
    facts = {
        "recipient": who if blind else ", ".join(dict.fromkeys(message["addressed"] for message in messages)),
        "reason": f"{who} is gone ({session['end_reason']}) and had not read it",
        "messages": ", ".join(str(message["seq"]) for message in messages[:SHOWN]) + more,
    }
    what = messages[0]["subject"] if len(messages) == 1 else f"{len(messages)} messages to {who}"
    letter = written(EventKind.MESSAGE_BOUNCED, f"Not delivered: {what}", facts, None, Importance.NORMAL)
    return replace(letter, thread_id=threads.pop() if len(threads) == 1 else None)


# -- Letters from Corral itself: facts as text for readers and as data for programs, and their possible recipients

SHOWN = 50
"""Items of a list that a letter carries; of more it says how many there are."""
log = logger("announcements")


def written(
    kind: str, subject: str, facts: Payload, task: TaskRow | BatchTask | None, importance: Importance
) -> Letter:
    """A letter with one line per fact, and the same facts as data."""
    thread = (task["thread_id"] or f"task-{task['task_id']}") if task is not None else None
    body = "\n".join(_line(name, value) for name, value in facts.items() if value not in (None, [], {}))
    body = body.encode("utf-8", "backslashreplace").decode()  # names of files need not be UTF-8
    short = body.encode()[: BODY_LIMIT // 2].decode("utf-8", "ignore")
    data: Payload = {}
    for name, value in facts.items():
        data[name] = value[:SHOWN] if isinstance(value, list) else value
        if isinstance(value, list) and len(value) > SHOWN:
            data[f"{name}_count"] = len(value)
    return Letter(
        subject=subject[: messages.SUBJECT_LIMIT],
        body=short,
        importance=importance.value,
        thread_id=thread,
        kind=kind,
        data=data if len(body) == len(short) else {key: data[key] for key in list(facts)[:2]},
    )


def send(conn: Connection, letter: Letter, to: Iterable[str | None], event: EventRow, now: datetime) -> None:
    """Send a letter to every recipient that exists; it names the others, and an event records them.

    Args:
        to: Ids of sessions; None is nobody.
        event: The event that the letter reports.
    """
    recipients = list(dict.fromkeys(heir(conn, name) for name in to if name))
    reached = [name for name in recipients if _is_reached(conn, name)]
    lost = [name for name in recipients if name not in reached]
    if lost:
        undeliverable(conn, event, letter.kind, lost, "Nobody goes by that.", now)
        named = [name[:128] for name in lost[:SHOWN]]
        body = f"{letter.body}\n{_line('not_delivered_to', named)}"
        letter = replace(letter, body=body, data={**letter.data, "not_delivered_to": named})
    for start in range(0, len(reached), MOST_RECIPIENTS):
        # A key stands for one message: the first carries it, and the others are stored with it or not at all.
        key = letter.idempotency_key if start == 0 else None
        some = replace(letter, to=tuple(reached[start : start + MOST_RECIPIENTS]), idempotency_key=key)
        messages.send(conn, None, some, now)


def undeliverable(conn: Connection, event: EventRow, kind: str, to: list[str], reason: str, now: datetime) -> None:
    """Record the recipients that a letter did not reach; the history of the task shows it."""
    log.warning("not_announced", event_id=event["event_id"], kind=kind, recipients=to[:SHOWN], reason=reason)
    lost = EventKind.MESSAGE_BOUNCED({"kind": kind, "recipients": to[:SHOWN], "reason": reason})
    events.record(conn, now, lost, task_id=event["task_id"], merge_id=event["merge_id"])


def _is_reached(conn: Connection, name: str) -> bool:
    """Whether this name is the address of a session: not every id that a client gives itself is one."""
    return name == name.strip() and name.lower() != EVERYBODY and names.resolve(conn, name) is not None


def _line(name: str, value: Any) -> str:
    label = name.replace("_id", " ID").replace("_sha", " SHA").replace("duration_s", "duration (s)").replace("_", " ")
    if isinstance(value, dict):
        value = [f"{key.replace('_', ' ')}: {text}" for key, text in value.items()]
    if isinstance(value, list):
        shown = [item if isinstance(item, str) else json.dumps(item) for item in value[:SHOWN]]
        more = [f"and {len(value) - SHOWN} more"] if len(value) > SHOWN else []
        return "\n".join([f"{label}:", *(f"- {line}" for line in (*shown, *more))])
    return f"{label[0].upper()}{label[1:]}: {value}"
