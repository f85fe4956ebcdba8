"""What Corral itself writes: a task ended, a merge landed or came back, a batch is settled, mail did not arrive.

The letters are written from the events, by one job that keeps in the database how far it has come: a letter and that place are
stored together, so each is sent exactly once, whenever the daemon dies.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from corral.coordination import messages
from corral.coordination.addresses import MOST_RECIPIENTS
from corral.coordination.messages import BODY_LIMIT, Letter
from corral.errors import CorralError
from corral.git import refs
from corral.git.command import Git
from corral.models.crash import crash_point
from corral.models.instants import iso, parse
from corral.models.states import RETURNED_MERGES, Importance, SessionStatus, TaskStatus
from corral.observe.logs import logger
from corral.store import announcements, events, merges
from corral.store import messages as mail
from corral.store import sessions as session_rows
from corral.store import tasks as task_rows
from corral.store.engine import Database

Row = dict[str, Any]
AGAIN_S = 0.5
"""While something runs, events are looked for so often, seconds; otherwise only when nudged."""
FILES_SHOWN = 50
_ENDED = ("task.completed", "task.failed", "task.dead", "task.cancelled")
_MERGED = ("merge.landed", "merge.conflict", "merge.failed", "merge.cancelled")
log = logger("announcements")
KINDS = (*_ENDED, *_MERGED, "session.ended")


class Announcer:
    """Step: turn the events that nobody was told of into letters.

    Args:
        repo: For the files that a task changed.
        changed: Called when something was sent.
    """

    def __init__(self, db: Database, repo: Git, changed: Callable[[], None]) -> None:
        self._db = db
        self._repo = repo
        self._changed = changed

    def step(self, now: datetime) -> datetime | None:
        """Tell all there is; look again soon while something runs."""
        while True:
            told = self._db.read(announcements.told)
            found = self._db.read(lambda conn, told=told: announcements.news(conn, KINDS, told))  # type: ignore[misc]
            for event in found:
                files = self._files(event)
                crash_point("announcements.before_letter")
                try:
                    self._db.write(lambda conn, event=event, files=files: _tell(conn, event, files, now))  # type: ignore[misc]
                except CorralError as error:  # one letter that cannot be written must not stop all that follow
                    log.error("not_announced", event_id=event["event_id"], kind=event["kind"], reason=error.message)
                    self._db.write(lambda conn, event=event: announcements.move_on(conn, event["event_id"]))  # type: ignore[misc]
                crash_point("announcements.letter_sent")
            if not found:
                break
            self._changed()
        return now + timedelta(seconds=AGAIN_S) if self._db.read(announcements.is_busy) else None

    def _files(self, event: Row) -> list[str]:
        """The paths that a completed task changed; none where git cannot say."""
        if event["kind"] != "task.completed":
            return []
        row = self._db.read(lambda conn: task_rows.latest_merge(conn, event["task_id"]))
        try:
            return refs.changed_paths(self._repo, row["base_sha"], row["head_sha"]) if row else []
        except CorralError:  # a commit that was pruned meanwhile is no reason not to tell of the task
            return []


def _tell(conn: Connection, event: Row, files: list[str], now: datetime) -> None:
    """Send what an event calls for and move on, in one transaction."""
    if event["kind"] == "session.ended":
        _bounce(conn, event["session_id"], now)
    else:
        task = task_rows.get(conn, event["task_id"]) if event["task_id"] else None
        if event["kind"] in _ENDED[:3] and task is not None:
            _send(conn, _about_task(conn, event, task, files), [task["submitted_by"]], now)
        elif event["kind"] in _MERGED[:3]:
            merge = merges.get(conn, event["merge_id"])
            _send(conn, _about_merge(event, merge, task), _concerned(conn, merge, task), now)
        if task is not None and task["thread_id"] is not None:
            _conclude(conn, task["thread_id"], now)
    announcements.move_on(conn, event["event_id"])


def _send(conn: Connection, letter: Letter, to: list[str | None], now: datetime) -> None:
    """To the sessions among those that there are; to nobody if there are none."""
    present = tuple(dict.fromkeys(one for one in to if one and session_rows.get(conn, one) is not None))
    for start in range(0, len(present), MOST_RECIPIENTS):
        # A key stands for one message: the first carries it, and the others are stored with it or not at all.
        key = letter.idempotency_key if start == 0 else None
        some = replace(letter, to=present[start : start + MOST_RECIPIENTS], idempotency_key=key)
        messages.send(conn, None, some, now)


# -- a task


def _about_task(conn: Connection, event: Row, task: Row, files: list[str]) -> Letter:
    done = event["kind"] == "task.completed"
    facts = _completion(event, task, files) if done else _failure(conn, event, task)
    return _letter(
        event["kind"],
        f"[{task['task_id'][:8]}] Task {'complete' if done else 'failed'}: {task['title']}",
        {"task_id": task["task_id"], **facts, "duration_s": _duration(event, task)},
        task,
        Importance.NORMAL if done else Importance.HIGH,
    )


def _completion(event: Row, task: Row, files: list[str]) -> Row:
    result = task["result"] if isinstance(task["result"], dict) else {}
    sha = event["data"].get("head_sha") or task["head_sha"] or result.get("commit_sha")
    changed = files or result.get("files_changed") or []
    return {"commit_sha": sha, "files_changed": changed}


def _failure(conn: Connection, event: Row, task: Row) -> Row:
    reason = {key: event["data"].get(key) or task[key] for key in ("error_code", "error_message")}
    tried = [
        f"attempt {number} at {one['at']}: {one['data'].get('error_message') or one['data'].get('error_code') or one['kind']}"
        for number, one in enumerate(announcements.attempts(conn, task["task_id"], event["event_id"]), 1)
    ]
    progress = {"last_seen_doing": task["progress"], "branch": task["branch"], "head_sha": task["head_sha"],
                "result": task["result"]}  # fmt: skip
    return {
        "failure_reason": ": ".join(str(part) for part in reason.values() if part),
        "attempted_actions": tried,
        "partial_progress": {key: value for key, value in progress.items() if value is not None},
    }


def _duration(event: Row, task: Row) -> float | None:
    if task["started_at"] is None:
        return None
    return round((parse(event["at"]) - parse(task["started_at"])).total_seconds(), 3)


# -- a merge request


def _about_merge(event: Row, merge: Row, task: Row | None) -> Letter:
    came_back = merge["state"] in RETURNED_MERGES
    landed = event["kind"] == "merge.landed"
    how = f"landed on {merge['target']}" if landed else f"did not land on {merge['target']}"
    facts = {
        "merge_id": merge["merge_id"],
        "task_id": merge["task_id"],
        "branch": merge["branch"],
        "target": merge["target"],
        "status": event["kind"].removeprefix("merge."),
        "landed_sha": event["data"].get("landed_sha"),
        "reason": event["data"].get("reason"),
        "conflicts": merge["conflicts"] if came_back else None,
    }
    importance = Importance.NORMAL if landed else Importance.HIGH
    return _letter(event["kind"], f"{merge['branch']} {how}: {merge['title']}", facts, task, importance)


def _concerned(conn: Connection, merge: Row, task: Row | None) -> list[str | None]:
    """Who submitted the work, and who made the branch if that one is still there."""
    maker = session_rows.get(conn, merge["session_id"]) if merge["session_id"] else None
    alive = maker is not None and maker["status"] != SessionStatus.DISCONNECTED
    return [task["submitted_by"] if task else None, merge["session_id"] if alive or task is None else None]


# -- a batch


def _conclude(conn: Connection, thread_id: str, now: datetime) -> None:
    """When nothing of a batch can happen by itself any more, its participants get one summary of it."""
    if announcements.is_open(conn, thread_id):
        return
    rows = announcements.batch(conn, thread_id)
    standing = [[row["task_id"], row["status"], row["merge_state"], row["completed_at"]] for row in rows]
    key = f"batch-{hashlib.sha256(json.dumps([thread_id, standing]).encode()).hexdigest()}"
    if mail.by_key(conn, None, key) is not None:
        return
    bad = [row for row in rows if row["status"] != TaskStatus.COMPLETED or row["merge_state"] in RETURNED_MERGES]
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
    letter = _letter("batch.settled", subject, facts, rows[0], importance)
    took_part = [row[who] for who in ("submitted_by", "session_id") for row in rows]
    wrote = [message["sender_session_id"] for message in mail.thread(conn, thread_id)]
    _send(conn, replace(letter, idempotency_key=key), [*took_part, *wrote], now)


def _named(row: Row) -> str:
    return f"{row['task_id'][:8]} {row['title'][:120]}"


def _paths(row: Row) -> str:
    return ", ".join(str(one.get("path")) for one in row["conflicts"][:FILES_SHOWN])


# -- mail that did not arrive


def _bounce(conn: Connection, session_id: str, now: datetime) -> None:
    """Tell the senders of what a session that ended has not seen. The mail stays, in case it comes back."""
    row = session_rows.get(conn, session_id)
    if row is None or row["status"] != SessionStatus.DISCONNECTED:
        return
    lost = mail.undelivered(conn, session_id)
    mail.mark(conn, session_id, [one["message_id"] for one in lost], ("bounced_at",), iso(now))
    unseen: dict[str, list[Row]] = {}
    for one in lost:
        if one["sender_session_id"] not in (None, session_id):
            unseen.setdefault(one["sender_session_id"], []).append(one)
            about = {"message_id": one["message_id"], "sender": one["sender_session_id"]}
            events.record(conn, now, "message.bounced", session_id=session_id, data=about)
    for writer, theirs in unseen.items():
        sender = session_rows.get(conn, writer)
        if sender is not None and sender["status"] != SessionStatus.DISCONNECTED:
            _send(conn, _about_lost(row, theirs), [writer], now)


def _about_lost(gone: Row, lost: list[Row]) -> Letter:
    """One letter to a sender about all that a session has not seen of what it sent."""
    threads = {one["thread_id"] for one in lost}
    facts = {
        "recipient": ", ".join(dict.fromkeys(one["addressed"] for one in lost)),
        "reason": f"{gone['agent_name']} is gone ({gone['end_reason']}) and had not seen it",
        "messages": ", ".join(str(one["seq"]) for one in lost),
    }
    what = lost[0]["subject"] if len(lost) == 1 else f"{len(lost)} messages to {gone['agent_name']}"
    letter = _letter("message.bounced", f"Not delivered: {what}", facts, None, Importance.NORMAL)
    return replace(letter, thread_id=threads.pop() if len(threads) == 1 else None)


# -- letters


def _letter(kind: str, subject: str, facts: Row, task: Row | None, importance: Importance) -> Letter:
    """A letter whose text says the facts, one a line, and which carries them as data."""
    thread = (task["thread_id"] or f"task-{task['task_id']}") if task is not None else None
    body = "\n".join(_line(name, value) for name, value in facts.items() if value not in (None, [], {}))
    short = body.encode()[: BODY_LIMIT // 2].decode("utf-8", "ignore")
    data: Row = {}
    for name, value in facts.items():
        data[name] = value[:FILES_SHOWN] if isinstance(value, list) else value
        if isinstance(value, list) and len(value) > FILES_SHOWN:
            data[f"{name}_count"] = len(value)
    return Letter(
        subject=subject[: messages.SUBJECT_LIMIT],
        body=short,
        importance=importance.value,
        thread_id=thread,
        kind=kind,
        data=data if len(body) == len(short) else {key: data[key] for key in list(facts)[:2]},
    )


def _line(name: str, value: Any) -> str:
    label = name.replace("_id", " ID").replace("_sha", " SHA").replace("duration_s", "duration (s)").replace("_", " ")
    if isinstance(value, dict):
        value = [f"{key.replace('_', ' ')}: {one}" for key, one in value.items()]
    if isinstance(value, list):
        shown = [one if isinstance(one, str) else json.dumps(one) for one in value[:FILES_SHOWN]]
        more = [f"and {len(value) - FILES_SHOWN} more"] if len(value) > FILES_SHOWN else []
        return "\n".join([f"{label}:", *(f"- {one}" for one in (*shown, *more))])
    return f"{label[0].upper()}{label[1:]}: {value}"
