"""What a session does in other projects than its own: the daemons of those decide.

A session that was started in another repository, or in a folder above several, edits by an absolute path, and runs commands
there. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from corral.client import last_look
from corral.config.paths import Project, find_guarded, find_socket
from corral.core.errors import CorralError

MARK = '"is_elsewhere"'
"""What is in the answer about an edit of a file that is in no checkout of the project that was asked."""
ENDS = ("PostToolUse", "PostToolUseFailure")
MOST_CALLS = 256
"""Calls whose end is waited for."""
MOST_WORDS = 500
MOST_FOLDERS = 50
"""Words of a command that are tried as paths, and folders that they lead to."""
_WORD = re.compile(r"[^\s'\"`;|&<>()=,]+")

Ask = Callable[[str, dict[str, Any]], str]
"""Ask a project's daemon about an event; the answer is JSON. It never raises."""


class Elsewhere:
    """The other projects in which a session edits and runs commands.

    Args:
        own: The session's project; None if there is none.
        make: The way to ask a project's daemon about edits, in one of its folders.
        visit: The way to ask it about commands: it is not started for them.
    """

    def __init__(
        self, own: Project | None, make: Callable[[Project, str], Ask], visit: Callable[[Project], Ask]
    ) -> None:
        self._own = own
        self._make = make
        self._visit = visit
        self._asks: dict[Path, Ask] = {}
        self._visits: dict[Path, Ask] = {}
        self._begun: OrderedDict[str, list[Ask]] = OrderedDict()

    def ask(self, event: str, fields: dict[str, Any], own: str) -> str:
        """The answer of all that a call concerns: the session's own project, whose answer is given, and the others."""
        if event in ENDS:
            asks = self._begun.pop(str(fields.get("tool_use_id")), [])
        elif _denies(own) or event != "PreToolUse":
            asks = []
        elif fields.get("tool_name") == "Bash":
            asks = self._of_command(fields)
        else:
            asks = self._of_edit(fields) if MARK in own and last_look.is_edit(fields) else []
        if event == "PreToolUse" and asks:
            self._begun[str(fields.get("tool_use_id"))] = asks
            while len(self._begun) > MOST_CALLS:
                self._begun.popitem(last=False)
        answer = "{}" if MARK in own else own
        for ask in asks:
            answer = _joined(answer, ask(event, fields))
        return answer

    def _of_edit(self, fields: dict[str, Any]) -> list[Ask]:
        """The daemon of the project that the file of an edit is in; none if it is in none."""
        for folder in (Path(path).parent for path in last_look.real_paths(fields)):
            if (project := self._other(folder)) is not None:
                if project.home not in self._asks:
                    self._asks[project.home] = self._make(project, str(folder))
                return [self._asks[project.home]]
        return []

    def _of_command(self, fields: dict[str, Any]) -> list[Ask]:
        """Those that run, of the projects in which a command is run, or that it names a path in."""
        asks: dict[Path, Ask] = {}
        for folder in _folders(Path(fields.get("cwd", "")), fields.get("tool_input", {}).get("command", "")):
            project = self._other(folder)
            if project is None or project.home in asks or not os.path.lexists(find_socket(project)):
                continue
            asks[project.home] = self._visits.setdefault(project.home, self._visit(project))
        return [*asks.values()]

    def _other(self, folder: Path) -> Project | None:
        with contextlib.suppress(CorralError, OSError):
            project = find_guarded(folder)
            return project if self._own is None or project.home != self._own.home else None
        return None


def words(command: str) -> list[str]:
    """The words of a shell command that may be paths."""
    return _WORD.findall(command)[:MOST_WORDS]


def _folders(cwd: Path, command: str) -> Iterable[Path]:
    """The folder of a command, and those that its words lead to."""
    folders = {cwd: None} if cwd.is_absolute() else {}
    for word in dict.fromkeys(words(command)):
        with contextlib.suppress(ValueError, OSError, RuntimeError):  # a NUL byte, too long a name, the home of nobody
            named = cwd / Path(word).expanduser()
            is_folder = named.is_dir()
            if (is_folder or "/" in word) and named.is_absolute():
                folders[Path(os.path.realpath(named if is_folder else named.parent))] = None
        if len(folders) >= MOST_FOLDERS:
            break
    return folders


def _denies(answer: str) -> bool:
    return '"permissionDecision"' in answer


def _joined(own: str, other: str) -> str:
    """Two answers to one event as one: a refusal alone, else the texts of both."""
    if own == "{}" or _denies(other):
        return other
    if other == "{}" or _denies(own):
        return own
    both = json.loads(own)
    for name, value in json.loads(other).items():
        if isinstance(value, dict) and isinstance(mine := both.get(name), dict):
            texts = [part["additionalContext"] for part in (mine, value) if part.get("additionalContext")]
            both[name] = {**value, **mine, **({"additionalContext": "\n".join(texts)} if texts else {})}
        else:
            both.setdefault(name, value)
    return json.dumps(both)
