"""The roadmap file: its tasks, and its text with other statuses.

The text is never generated again from its values: a new status replaces the old word at its place, so that every other
character stays.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from corral.config import document
from corral.config.document import DocumentError
from corral.config.trust import Claim
from corral.core.visible import one_line
from corral.work.roadmap.api import RoadmapProblem

PENDING, IN_PROGRESS, BLOCKED, DONE = STATUSES = ("pending", "in_progress", "blocked", "done")

_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


@dataclass(frozen=True)
class Problem:
    """An error in the roadmap.

    Attributes:
        line: From 1; None: unknown.
        task_id: The task that it keeps from being worked on; None: it is about the file.
        remedy: How a person ends it; None: by correcting the file.
    """

    message: str
    line: int | None = None
    task_id: str | None = None
    remedy: str | None = None

    def to_wire(self) -> RoadmapProblem:
        """As a status has it."""
        return {"line": self.line, "id": self.task_id, "message": self.message, "remedy": self.remedy}


@dataclass(frozen=True)
class StatusPlace:
    """Where a status is in the text, or is to be inserted, and the characters to put around it."""

    start: int
    end: int
    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class RoadmapTask:
    """A task as the file has it.

    Attributes:
        status: One of :data:`STATUSES`; None: the word is unknown.
        priority: That of its queue task: 0 to 10, 10 first.
        fields: All its keys.
        line: Where it begins, from 1.
        place: Where its status is; None: it cannot be changed.
    """

    task_id: str
    title: str
    status: str | None
    priority: int
    dependencies: tuple[str, ...]
    fields: Mapping[str, Any]
    line: int
    place: StatusPlace | None


@dataclass(frozen=True)
class Roadmap:
    """A roadmap as it was read.

    Attributes:
        tasks: In the order of the file; one with a problem is among them.
        problems: The errors in it; a task that one of them names is not worked on.
    """

    text: str = ""
    tasks: tuple[RoadmapTask, ...] = ()
    problems: tuple[Problem, ...] = ()
    broken: frozenset[str] = field(default=frozenset())
    """The ids of the tasks that have a problem."""
    claims: Mapping[str, Claim] = field(default_factory=dict)
    """By id, what each task that is not done would have executed, where it can be one of the queue."""

    @property
    def sound(self) -> list[RoadmapTask]:
        """The tasks without a problem."""
        return [task for task in self.tasks if task.task_id not in self.broken]


_PRIORITIES = {"critical": 10, "high": 8, "product": 7, "mcp": 6, "medium": 5, "normal": 5, "default": 5, "low": 2}
_DEFAULT = 5


def read_tasks(data: bytes) -> tuple[str, list[RoadmapTask], list[Problem]]:
    """The text of a roadmap, its tasks and what is wrong with each alone.

    Args:
        data: The file: ``epics`` with ``milestones`` with ``tasks``, and ``tasks``; or a list of tasks.

    Raises:
        DocumentError: It is not YAML, or uses an anchor, an alias, a tag or a key twice; says the line.
    """
    value = document.read(data)
    text = data.decode("utf-8-sig")
    node = yaml.compose(text, Loader=_LOADER)
    tasks: list[RoadmapTask] = []
    problems: list[Problem] = []
    for fields, item in _items(value, node, problems):
        _read_task(text, fields, item, tasks, problems)
    return text, tasks, problems


def with_statuses(data: bytes, changes: Mapping[str, str]) -> bytes:
    """Replace the statuses of some tasks in the file, and nothing else.

    Args:
        changes: The new status by id; a task that is not there, or there twice, stays as it is.

    Raises:
        DocumentError: It is not a roadmap, or a status stands where it cannot be replaced.
    """
    text, tasks, _problems = read_tasks(data)
    ids = [task.task_id for task in tasks]
    new_statuses = {task_id: status for task_id, status in changes.items() if ids.count(task_id) == 1}
    edits = [(task.place, new_statuses[task.task_id], task) for task in tasks if task.task_id in new_statuses]
    changed = text
    for place, status, task in sorted(edits, key=lambda edit: edit[0].start if edit[0] else 0, reverse=True):
        if place is None:
            raise DocumentError(f"line {task.line}: the status of {task.task_id} must be a word in a line of its own")
        changed = changed[: place.start] + place.before + status + place.after + changed[place.end :]
    bom = data[:3] if data.startswith(b"\xef\xbb\xbf") else b""
    new_data = bom + changed.encode("utf-8")
    if document.read(new_data) != _expected(data, new_statuses):
        raise DocumentError("is written in a way in which its statuses cannot be changed")
    return new_data


def _expected(data: bytes, new_statuses: Mapping[str, str]) -> Any:
    value = document.read(data)
    for fields, _node in _items(value, None, []):
        if isinstance(fields, dict) and (status := new_statuses.get(_text(fields.get("id")))):
            fields["status"] = status
    return value


def _items(value: Any, node: Any, problems: list[Problem]) -> Iterator[tuple[Any, Any]]:
    """The tasks of a document, with their nodes, in the order of the file."""
    if isinstance(value, list):
        yield from _list(value, node, "tasks", problems)
        return
    if not isinstance(value, dict) or not ("epics" in value or "tasks" in value):
        if value is not None:
            problems.append(Problem("must have `epics` or `tasks`, or be a list of tasks", _line(node)))
        return
    _misspelt(value, node, ("epics", "tasks"), problems)
    for key in value:  # in the order of the file
        if key == "tasks":
            yield from _list(value[key], _child(node, key), key, problems)
        elif key == "epics":
            for epic, at in _list(value[key], _child(node, key), key, problems):
                yield from _of_epic(epic, at, problems)


def _of_epic(epic: Any, node: Any, problems: list[Problem]) -> Iterator[tuple[Any, Any]]:
    if not isinstance(epic, dict):
        problems.append(Problem("an epic must be a mapping", _line(node)))
        return
    _misspelt(epic, node, ("milestones", "tasks"), problems)
    for key in epic:
        if key == "tasks":
            yield from _list(epic[key], _child(node, key), key, problems)
        elif key == "milestones":
            for milestone, at in _list(epic[key], _child(node, key), key, problems):
                if isinstance(milestone, dict):
                    _misspelt(milestone, at, ("tasks",), problems)
                    yield from _list(milestone.get("tasks"), _child(at, "tasks"), "tasks", problems)
                else:
                    problems.append(Problem("a milestone must be a mapping", _line(at)))


def _misspelt(fields: Mapping[Any, Any], node: Any, names: Sequence[str], problems: list[Problem]) -> None:
    """Name the lists whose key is only like that of a list of tasks: nobody would miss the tasks in them."""
    for key in (key for key in map(str, fields) if isinstance(fields.get(key), list) and key not in names):
        if near := difflib.get_close_matches(key[:100], names, 1, 0.8):
            line = _line(_child(node, key))
            problems.append(Problem(f"`{one_line(key)}` is not a known key; write `{near[0]}`", line))


def _list(value: Any, node: Any, name: str, problems: list[Problem]) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, list):
        nodes = node.value if node is not None else [None] * len(value)
        yield from zip(value, nodes, strict=True)
    elif value is not None:
        problems.append(Problem(f"`{name}` must be a list", _line(node)))


def _read_task(text: str, fields: Any, node: Any, tasks: list[RoadmapTask], problems: list[Problem]) -> None:
    line = _line(node) or 1
    if not isinstance(fields, dict):
        problems.append(Problem("a task must be a mapping with an `id`", line))
        return
    task_id = _text(fields.get("id"))
    if not task_id:
        problems.append(Problem("a task has no `id`", line))
        return

    def wrong(key: str, message: str) -> None:
        problems.append(Problem(message, _line(_child(node, key)) or line, task_id))

    word = fields.get("status")
    status = PENDING if word is None else word if word in STATUSES else None
    if status is None:
        wrong("status", f"unknown status {document.shown(word)}: use {', '.join(STATUSES[:-1])} or {STATUSES[-1]}")
    ids = fields.get("dependencies")
    dependencies: tuple[str, ...] = ()
    if isinstance(ids, list) and all(_text(dependency) for dependency in ids):
        dependencies = tuple(dict.fromkeys(_text(dependency) for dependency in ids))
    elif ids is not None:
        wrong("dependencies", "`dependencies` must be a list of ids")
    priority = _priority(fields, task_id)
    if priority is None:
        named = ", ".join(_PRIORITIES)
        wrong("priority", f"unknown priority {document.shown(fields['priority'])}: use 0 to 10, or one of {named}")
    title = _text(fields.get("title")) or task_id
    place = _place(text, node)
    tasks.append(
        RoadmapTask(
            task_id, title, status, _DEFAULT if priority is None else priority, dependencies, fields, line, place
        )
    )


def _priority(fields: Mapping[str, Any], task_id: str) -> int | None:
    """The priority in the queue, 0 to 10; None: it is not known."""
    priority = fields.get("priority")
    if priority is None:
        if task_id.upper().startswith("CRIT-") or "REMEDIATION" in task_id.upper():
            return _PRIORITIES["critical"]
        domain = fields.get("domain")
        return _PRIORITIES[domain] if domain in ("product", "mcp") else _DEFAULT
    if isinstance(priority, int) and not isinstance(priority, bool):
        return priority if 0 <= priority <= 10 else None
    return _PRIORITIES.get(priority.lower()) if isinstance(priority, str) else None


def _place(text: str, node: Any) -> StatusPlace | None:
    """Where the status of a task's mapping is, or is to be inserted: behind the id."""
    value = _child(node, "status")
    if value is not None:
        if not isinstance(value, yaml.ScalarNode) or value.style in ("|", ">"):
            return None
        start, end = value.start_mark.index, value.end_mark.index
        quote = text[start] if start < end and text[start] in "'\"" else ""
        return StatusPlace(start, end, quote or ("" if start < end else " "), quote)
    key, task_id = next((key, value) for key, value in node.value if key.value == "id")
    end = task_id.end_mark.index
    if node.flow_style:
        return StatusPlace(end, end, ", status: ")
    if task_id.start_mark.line != task_id.end_mark.line:
        return None
    newline = text.find("\n", end)
    at = len(text) if newline < 0 else newline
    ending = "\n"
    if newline > 0 and text[newline - 1] == "\r":
        at, ending = at - 1, "\r\n"
    return StatusPlace(at, at, f"{ending}{' ' * key.start_mark.column}status: ")


def _child(node: Any, key: str) -> Any:
    """The node of a mapping's value; None where there is none."""
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for name, value in node.value if name.value == key), None)


def _line(node: Any) -> int | None:
    return None if node is None else int(node.start_mark.line) + 1


def _text(value: Any) -> str:
    """An id or a title as text: `7` and `'7'` are the same id."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return ""
    return str(value)
