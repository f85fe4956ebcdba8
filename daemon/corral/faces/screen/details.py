"""The page with all details of one row; fetched from the daemon when a person opens it."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from typing import Any

from rich.text import Text

from corral.client.connection import Client, segment
from corral.core.errors import CorralError, NotFound
from corral.core.run_heading import run_heading
from corral.core.tones import tone_of
from corral.core.tree import indented
from corral.faces.screen import panels
from corral.faces.screen.actions import RowSubject, subject_of
from corral.faces.screen.log_view import TAIL, split
from corral.faces.screen.text import Glyphs, Row, joined

LONGEST = 20_000
"""Characters of a text that are shown; the whole is in the JSON of the command line."""
MOST_OUTPUT = 6000
"""Characters of the end of an output on the page of a failure."""
_LAST_EVENTS = 15
_UNTOLD = ("_id", "_ids", "_sha", "_at", "seq", "token", "pid", "attempt", "checkout", "model", "key", "ref")
"""Endings of the names of values that an event's line leaves out: they mean nothing to a person."""
_LABEL = 12
"""Cells of a value's name."""
Parts = list[tuple[str, str]]


class Details:
    """Makes the pages of rows.

    Args:
        client: Where the rest of a row is asked; for use in its thread.
        width: Cells of a page's lines.
    """

    def __init__(self, client: Client, glyphs: Glyphs, width: int) -> None:
        self._client, self._glyphs, self._room = client, glyphs, max(10, width - _LABEL)

    def page(self, panel: str, row: Row) -> Text:
        """The page of a row."""
        subject, parts = subject_of(panel, row), Parts()
        if panel == panels.NEEDS:
            parts += self._need(row, subject)
        elif panel == panels.TASKS:
            parts += self._task(row["task_id"])
        elif panel == panels.MERGES:
            parts += self._merge(row["merge_id"])
        elif panel == panels.AGENTS:
            parts += self._session(row)
        elif panel == panels.LOCKS:
            names = (
                "file_path",
                "locked_by",
                "reason",
                "checkout",
                "acquired_at",
                "expires_at",
                "session_id",
                "lock_id",
            )
            parts += self._facts([(name.replace("_", " "), row[name]) for name in names])
        else:
            parts += self._mail(row)
        return joined(parts)

    def approval(self, merge: str) -> tuple[Row, Text]:
        """The change that an approval would let in: the review, and its page."""
        review: Row = self._client.request("GET", f"/merges/{segment(merge)}/approval")
        request = self._client.request("GET", f"/merges/{segment(review['merge_id'])}")
        branch, target = map(self._glyphs.line, (request["branch"], request["target"]))
        parts: Parts = [
            (self._glyphs.line(request["title"]), "bold"),
            (f"  {branch} {self._glyphs.to} {target}\n\n", "dim"),
        ]
        parts += [(f"{line}\n", "plain") for line in textwrap.wrap(self._glyphs.line(review["reason"]), self._room)]
        parts += [(f"{path}\n", "bold") for path in map(self._glyphs.line, review["paths"])]
        parts.append(("\n", "plain"))
        for line in review["diff"].split("\n"):
            style = {"+": "good", "-": "bad", "@": "busy"}.get(line[:1], "plain")
            parts.append((self._glyphs.lines(line) + "\n", style))
        if review["truncated"]:
            parts.append(("The change is larger than shown here.\n", "wait"))
        return review, joined(parts)

    # -- rows ---------------------------------------------------------------------------------------------------

    def _need(self, row: Row, subject: RowSubject) -> Parts:
        facts = [("what to do", row["remedy"]), ("since", _moment(row["since"]))]
        parts: Parts = [(self._glyphs.lines(row["what"]) + "\n\n", "plain"), *self._facts(facts), ("\n", "plain")]
        if subject.merge_id is not None:
            parts += [*self._merge(subject.merge_id), ("\n", "plain")]
        if subject.task_id is not None:
            parts += self._task(subject.task_id)
            parts += self._output_of_task(subject.task_id) if row["kind"] == "failed_task" else []
        if subject.session_id is not None:
            parts += self._session(self._client.request("GET", f"/sessions/{segment(subject.session_id)}"))
        return parts

    def _task(self, task_id: str) -> Parts:
        task = self._client.request("GET", f"/tasks/{segment(task_id)}/detail")
        parts = self._heading(f"{task['number']} {task['title']}", task["outcome"])
        usage, merge = task["usage"], task["merge"]
        tokens = f"{usage['input_tokens']:,} in, {usage['output_tokens']:,} out, ${usage['cost_usd']:.4f}"
        error = f"{task['error_code']}: {task['error_message']}" if task["error_code"] else None
        facts: list[tuple[str, Any]] = [
            ("error", error),
            ("delay", task["delay"]),
            ("progress", task["progress"]),
            ("command", task["command"]),
            ("prompt", task["prompt"]),
            ("about", task["description"]),
            ("agent", task["agent"]),
            ("priority", task["priority"]),
            ("attempts", task["attempts"]),
            ("used", tokens if usage["turns"] else None),
            ("time", f"{task['duration_s']:.1f} s" if task["duration_s"] else None),
            ("branch", task["branch"]),
            ("worktree", task["worktree"]),
            ("step", task["step"]),
            ("leader", task["parent_task_id"] and task["parent_task_id"][:8]),
            ("merge", f"{merge['outcome']}  {merge['reason'] or ''}".strip() if merge else None),
            ("result", json.dumps(task["result"], ensure_ascii=False, indent=1) if task["result"] else None),
            ("submitted", _moment(task["created_at"])),
            ("ended", _moment(task["completed_at"])),
            ("id", task["task_id"]),
        ]
        parts += self._facts(facts)
        parts += self._steps(task["steps"])
        parts.append(("\n", "plain"))
        for event in task["history"][-_LAST_EVENTS:]:
            parts.append((event_line(event, self._glyphs) + "\n", "dim"))
        return parts

    def _steps(self, steps: Sequence[Row]) -> Parts:
        """The steps of a task, as a tree."""
        parts: Parts = [("\nIts steps\n", "dim")] if steps else []
        for depth, step in indented(steps):
            parts += [(f"{'  ' * (depth + 1)}{step['number']} {self._glyphs.line(step['step'])}  ", "plain")]
            parts += [(f"{step['outcome']}\n", tone_of(step["outcome"]))]
        return parts

    def _merge(self, merge_id: str) -> Parts:
        merge = self._client.request("GET", f"/merges/{segment(merge_id)}")
        parts = self._heading(merge["title"], merge["outcome"])
        conflicts = "\n".join(f"{conflict['kind']}: {conflict['path']}" for conflict in merge["conflicts"] or [])
        receipt = merge["receipt"]
        tests = f", {receipt['tests']} tests" if receipt and receipt["tests"] is not None else ""
        parts += self._facts(
            [
                ("reason", merge["reason"]),
                ("conflicts", conflicts),
                ("branch", f"{merge['branch']} {self._glyphs.to} {merge['target']}"),
                ("head", merge["head_sha"]),
                ("landed", merge["landed_sha"]),
                ("verified", f"{receipt['status']}{tests}, {receipt['duration_s']:.1f} s" if receipt else None),
                ("with", receipt.get("note") if receipt else None),
                ("submitted", _moment(merge["created_at"])),
                ("id", merge["merge_id"]),
            ]
        )
        if receipt and receipt["status"] == "failed":
            parts += self._output(f"/merges/{segment(merge_id)}/log")
        return parts

    def _session(self, row: Row) -> Parts:
        parts = self._heading(row["agent_name"], row["status"])
        place = " on ".join(part for part in (row["worktree"], row["branch"]) if part)
        return parts + self._facts(
            [
                ("waits for", row["waiting_for"]),
                ("guarded", "no: its edits are not checked" if row["unguarded"] else None),
                ("task", row["current_task"]),
                ("type", row["agent_type"]),
                ("in", place),
                ("started", _moment(row["started_at"])),
                ("last seen", _moment(row["last_heartbeat"])),
                ("id", row["session_id"]),
            ]
        )

    def _mail(self, row: Row) -> Parts:
        try:
            row = self._client.request("GET", f"/messages/{segment(str(row['id']))}")
        except NotFound:  # removed meanwhile: show what the list has
            row = {**row, "recipients": []}
        to = ", ".join(f"{recipient['name']} ({recipient['state']})" for recipient in row["recipients"])
        facts = [("from", row["from"]), ("to", to), ("sent", _moment(row["created_at"])), ("thread", row["thread_id"])]
        parts = [*self._heading(row["subject"], row["importance"]), *self._facts(facts), ("\n", "plain")]
        return [*parts, (self._glyphs.lines(row["body"][:LONGEST]) + "\n", "plain")]

    # -- parts --------------------------------------------------------------------------------------------------

    def _heading(self, title: str, state: str) -> Parts:
        return [(self._glyphs.line(title), "bold"), ("  ", "plain"), (f"{state}\n", tone_of(state))]

    def _facts(self, facts: Sequence[tuple[str, Any]]) -> Parts:
        parts: Parts = []
        for name, value in facts:
            if value not in (None, "", []):
                whole = self._glyphs.lines(str(value)[:LONGEST]).rstrip("\n").split("\n")
                wrapped = [part for line in whole for part in textwrap.wrap(line, self._room) or [""]]
                text = ("\n" + " " * _LABEL).join(wrapped)
                parts += [(f"{name:<{_LABEL}}", "dim"), (text + "\n", "plain")]
        return parts

    def _output_of_task(self, task_id: str) -> Parts:
        return self._output(f"/tasks/{segment(task_id)}/log", readable="true")

    def _output(self, path: str, **how: str) -> Parts:
        """The end of an output."""
        try:
            part = self._client.request("GET", path, query={"tail": TAIL, **how})
            text = part["text"]
            text = text if len(text) <= MOST_OUTPUT else text[-MOST_OUTPUT:].partition("\n")[2]
            text = (run_heading(part["run"]) if part.get("run") else "") + text
        except CorralError as error:
            text = error.message
        lines = [(f"{self._glyphs.lines(line)}\n", style) for line, style in split(text)]
        return [("\nThe end of its output (l follows it)\n", "dim"), *lines]


def event_line(event: Row, glyphs: Glyphs, title: str = "") -> str:
    """An event in one line: when, what, about which thing, and its further data."""
    facts = [_short(value) for name, value in event["data"].items() if value and not name.endswith(_UNTOLD)]
    return glyphs.line("  ".join(filter(None, (_clock(event["at"]), f"{event['kind']:<16}", title, ", ".join(facts)))))


def _short(value: Any) -> str:
    if isinstance(value, list):
        value = ", ".join(map(str, value[:5])) + (f" and {len(value) - 5} more" if value[5:] else "")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[:200]


def _clock(instant: str) -> str:
    return instant[11:19]


def _moment(instant: str | None) -> str | None:
    return None if instant is None else f"{instant[:19].replace('T', ' ')} UTC"
