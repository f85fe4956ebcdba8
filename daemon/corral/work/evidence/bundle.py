"""The evidence of a task that is over: its events, and a summary for people. The same rows give the same text."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from corral.config.sections.work import Supervisor
from corral.core.inputs import note
from corral.core.instants import lasted_s
from corral.core.payload import shaped
from corral.core.redaction import redact
from corral.core.states import OPEN_MERGES, PHASES, TERMINAL_TASKS
from corral.git import refs
from corral.git.process.command import Git
from corral.git.refs import RawChange
from corral.store.rows.merges import MergeRow, ReceiptRow
from corral.store.rows.records import EventRow
from corral.store.rows.tasks import AttemptRow, ExportedTask, TaskRow
from corral.work.evidence import lines
from corral.work.merges.wire import covered_by
from corral.work.tasks import wire as task_shapes

OWN_FOLDER = ".corral-evidence"
"""The folder of a branch where these files are looked for: first in a folder in it, then in it, then at the branch's top."""
LIFECYCLE, SUMMARY, LOG = "lifecycle.json", "summary.md", "verification.log"
OF_ROADMAP = ("roadmap:", "roadmap-was:")
"""Beginnings of the idempotency keys of the roadmap's own queue tasks; the second one of those that were replaced."""
LONGEST_NAME = 80
"""Characters of the name of a task's folder."""
MOST_RESULT = 16 << 10
"""Characters of a result, or of an error, in a summary."""

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]|^[.-]")


@dataclass(frozen=True)
class Record:
    """All that is known of a task that is over.

    Attributes:
        history: Its events of :data:`corral.work.evidence.lines.KINDS`, oldest first.
        merge: Its request that counts, and the ``receipt`` of its verification.
        saved: The ref that holds what its last attempt left behind, if it does.
    """

    task: TaskRow
    outcome: str
    attempts: Sequence[AttemptRow]
    history: Sequence[EventRow]
    merge: MergeRow | None
    receipt: ReceiptRow | None
    saved: str | None

    @property
    def exported(self) -> ExportedTask:
        """The columns of the task that each line is made of."""
        return shaped(ExportedTask, self.task)

    @property
    def is_settled(self) -> bool:
        """Whether the task is over, and its merge request too if there is one."""
        is_open = self.merge is not None and self.merge["state"] in OPEN_MERGES
        return self.task["status"] in TERMINAL_TASKS and not is_open

    @property
    def base_sha(self) -> str | None:
        """The commit that the work began at."""
        return self.merge["base_sha"] if self.merge is not None else self.task["base_sha"]


def folder_name(task: ExportedTask) -> str:
    """The name of a task's folder: its id in the files, where that can be a name, else one that is as good as unique.

    The queue tasks of one task of the roadmap, of which each takes the place of the one before, share a folder. A task that
    another client gave an id of the roadmap has one of its own.
    """
    name = lines.name_of(task)
    if name == task["task_id"] or (task["idempotency_key"] or "").startswith(OF_ROADMAP):
        return name_of_folder(name)
    return f"{_safe(name)}-{_digest(task['task_id'])}"


def name_of_folder(name: str) -> str:
    """The same for an id of the roadmap."""
    safe = _safe(name)
    return safe if safe == name else f"{safe}-{_digest(name)}"


def _safe(name: str) -> str:
    return _UNSAFE.sub("_", name)[:LONGEST_NAME]


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def lifecycle(record: Record, asked: Sequence[str] = (), missing: Sequence[str] = ()) -> bytes:
    """``lifecycle.json``: ``{task_id, queue_task_id, title, outcome, process, events}``.

    Args:
        asked: The phases that it was asked for.
        missing: Those of them without a file.
    """
    task = record.exported
    record_json = {
        "task_id": lines.name_of(task),
        "queue_task_id": task["task_id"],
        "title": redact(task["title"]),
        "outcome": record.outcome,
        "process": {"asked": [*asked], "missing": [*missing]},
        "events": [line.lifecycle for line in lines.of_task(task, record.history)],
    }
    return f"{json.dumps(record_json, indent=2)}\n".encode()


def summary(
    record: Record,
    changes: str | None,
    others: Sequence[str],
    asked: Sequence[str] = (),
    missing: Sequence[str] = (),
) -> bytes:
    """``summary.md``.

    Args:
        asked: The phases that it was asked for.
        missing: Those of them without a file.
        changes: The diff stat of what the task changed; None: nothing, or git does not have it.
        others: The names of the other files in the folder.
    """
    task = record.task
    phases = [("phases", _phases(asked, missing))] if asked else []
    parts = [f"# {_line(task['title'])}", _table([("", ""), *_facts(record), *phases])]
    if task["error_message"]:
        parts += ["## Error", _fenced(f"{task['error_code'] or 'failed'}: {task['error_message']}")]
    if task["result"] is not None:
        parts += ["## Result", _fenced(json.dumps(task["result"], indent=2, ensure_ascii=False))]
    parts += ["## Changes", _fenced(changes) if changes else "None."]
    if record.attempts:
        parts += ["## Attempts", _table([_HEAD, *(_attempt(attempt) for attempt in record.attempts)])]
    parts += ["## Files", "\n".join(f"- [{name}]({name})" for name in (LIFECYCLE, *others))]
    return ("\n\n".join(parts) + "\n").encode(errors="replace")


def phase_of(path: str) -> str | None:
    """The file name, as the evidence has it, of a path that an agent wrote about a phase; None for any other path."""
    folder, _, name = path.rpartition("/")
    stem, _, ending = name.rpartition(".")
    first, _, own = folder.lower().partition("/")
    is_phase = first in ("", OWN_FOLDER) and "/" not in own and ending.lower() == "md" and stem.upper() in PHASES
    return f"{stem.upper()}.md" if is_phase else None


_HEAD = ("attempt", "outcome", "agent", "began", "seconds", "error")


def _facts(record: Record) -> list[tuple[Any, ...]]:
    task, merge, receipt = record.task, record.merge, record.receipt
    used = task_shapes.usage(record.attempts)
    seconds = sum(
        took
        for attempt in record.attempts
        if (took := lasted_s(attempt["started_at"], attempt["ended_at"])) is not None
    )
    facts: list[tuple[Any, ...]] = [
        ("task", lines.name_of(record.exported)),
        ("in the queue", task["task_id"]),
        ("outcome", record.outcome),
        ("attempts", len(record.attempts)),
        ("duration", f"{seconds:.1f} s"),
        ("tokens", f"{used['input_tokens']} in, {used['output_tokens']} out"),
        ("cost", f"{used['cost_usd']:.4f} USD"),
        ("completed", task["completed_at"]),
    ]
    if merge is not None:
        landed = f"{merge['landed_sha']} on {merge['target']}" if merge["landed_sha"] else f"no: {merge['state']}"
        why = [("reason", merge["reason"])] if merge["reason"] and not merge["landed_sha"] else []
        facts += [("branch", merge["branch"]), ("commit", merge["head_sha"]), ("landed", landed), *why]
    if receipt is not None:
        tests = f", {receipt['tests']} tests" if receipt["tests"] is not None else ""
        by = covered_by(merge, receipt) if merge is not None else None
        verdict = f"{f'covered by {by}' if by else receipt['status']}{tests}, {receipt['duration_s']:.1f} s"
        facts += [("verification", verdict), ("its log", receipt["log"] or "none")]
        if (inputs := note(receipt["inputs"])) is not None:
            facts.append(("its inputs", inputs))
    if record.saved is not None:
        facts.append(("saved work", record.saved))
    return facts


def _phases(asked: Sequence[str], missing: Sequence[str]) -> str:
    done = f"{len(asked) - len(missing)} of {len(asked)}"
    return f"{done}; missing: {', '.join(missing)}" if missing else done


def _attempt(attempt: AttemptRow) -> tuple[Any, ...]:
    took = lasted_s(attempt["started_at"], attempt["ended_at"])
    by = " / ".join(part for part in (attempt["agent"], attempt["runner"], attempt["model"]) if part)
    error = ": ".join(part for part in (attempt["error_code"], attempt["error_message"]) if part)
    return (
        attempt["number"],
        attempt["outcome"] or "",
        by,
        attempt["claimed_at"],
        f"{took:.1f}" if took is not None else "",
        error,
    )


def _table(rows: Sequence[Sequence[Any]]) -> str:
    head, *rest = ([_line(str(cell)).replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rest])


def _line(text: str) -> str:
    return " ".join(redact(text).split())[:500]


def _fenced(text: str) -> str:
    text = redact(text)
    cut = text if len(text) <= MOST_RESULT else f"{text[:MOST_RESULT]}\n…"
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", cut)), default=0))
    return f"{fence}\n{cut.rstrip()}\n{fence}"


# -- The phases that a task of the roadmap is asked for: what its agent is told, and which of them it left no file of

PROCESS, REQUIRED = "process", "process_required"
"""The keys of a task's own choice: in the roadmap, and in the metadata of its queue task."""
INCOMPLETE = "process_incomplete"
"""The ``error_code`` of an attempt that left no file of a phase that is required."""


@dataclass(frozen=True)
class Process:
    """The phases that a task is asked for, in order; empty: none.

    Attributes:
        is_required: Whether a missing one makes the attempt a failure.
        folder: Where its agent writes the files.
    """

    phases: Sequence[str] = ()
    is_required: bool = False
    folder: str = OWN_FOLDER

    def asked_in(self, prompt: str) -> str:
        """A prompt that asks for them, before the task itself; behind a command of the client, which must be the first word."""
        if not self.phases:
            return prompt
        listed = "\n".join(f"- {phase}: {self.folder}/{phase}.md: {PHASES[phase]}" for phase in self.phases)
        request = (
            "Work in these phases, in this order. Write a short Markdown file of each when you end it, and commit the files with "
            f"your work{', or the task fails' if self.is_required else ''}:\n\n{listed}"
        )
        return f"{prompt}\n\n{request}" if prompt.startswith("/") else f"{request}\n\nThe task:\n\n{prompt}"

    def missing(self, files: Collection[str]) -> list[str]:
        """The phases of which there is no file.

        Args:
            files: The names of those that there are, as the evidence has them.
        """
        return [phase for phase in self.phases if f"{phase}.md" not in files]


def of_task(task: TaskRow, rules: Supervisor) -> Process:
    """The process of a task: its own, else that of the settings. Only a task of the roadmap that gets a prompt has one."""
    if task["command"] is not None or not (task["idempotency_key"] or "").startswith(OF_ROADMAP):
        return Process()
    metadata = task["metadata"] or {}
    own, is_required = metadata.get(PROCESS), metadata.get(REQUIRED)
    return Process(
        phases=rules.process if own is None else own,
        is_required=rules.process_required if is_required is None else bool(is_required),
        folder=f"{OWN_FOLDER}/{name_of_folder(str(metadata.get('roadmap_id') or task['task_id']))}",
    )


def files(git: Git, base: str, head: str) -> dict[str, RawChange]:
    """The files of phases that were added or changed between two commits, by the names that the evidence gives them.

    One in the folder for them counts before one at the top.

    Raises:
        CorralError: Git cannot tell.
    """
    changed = refs.raw_changes(git, base, head)
    by_name: dict[str, RawChange] = {}
    for change in sorted(changed, key=lambda change: change.path.count("/")):
        name = phase_of(change.path)
        if name is not None and change.new_mode.startswith("100"):  # not deleted, and a regular file
            by_name[name] = change
    return by_name
