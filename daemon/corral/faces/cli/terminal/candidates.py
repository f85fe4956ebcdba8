"""The ids and names that an argument can have: for shells that complete a word, and for "did you mean".

Looking for them starts no daemon, takes a second at most, and fails without a word: a shell waits for the answer.
Shells evaluate what completion functions print. Of texts that others wrote, a branch's name or a task's title, only
letters, digits and harmless signs are passed on; a name with others is left out.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from typing import Any

from corral.client.connection import Client
from corral.config import account
from corral.config.paths import Project
from corral.core.errors import CorralError
from corral.faces.cli.parsing import Context
from corral.faces.cli.terminal.context import Common, guarded_project, here, project

Candidate = tuple[str, str]
"""A value, and a few words about it."""
LIMIT_S = 1.0
"""For the daemon's answer, seconds."""
MOST = 200
SHORT = 8
"""Characters of an id, as lists show it."""
CUTOFF = 0.6
_VALUE = re.compile(r"[\w./%+][\w./%+,@-]*")
_STRANGE = re.compile(r"[^\w .,/#+-]+")


def completed(kind: str, context: Context, incomplete: str) -> list[Candidate]:
    """The candidates of a kind that begin with ``incomplete`` and that a shell may evaluate safely."""
    Common.update(directory=context.root.params.get("directory") or "")
    return [
        (value, " ".join(_STRANGE.sub(" ", about).split())[:60])
        for value, about in candidates_of(kind)
        if value.startswith(incomplete) and _VALUE.fullmatch(value)
    ]


def candidates_of(kind: str) -> list[Candidate]:
    """All candidates of a kind, the likeliest first; empty if they cannot be read.

    Args:
        kind: A key of :data:`KINDS`.
    """
    try:
        unique = dict(KINDS[kind]())
    except (CorralError, OSError, LookupError, TypeError, ValueError):  # an older daemon's answer, or no project
        return []
    return list(unique.items())


def near(value: str, candidates: list[Candidate]) -> list[str]:
    """The candidates, at most three, that somebody may have meant: by their name, their id or their title."""
    names = [name for name, _ in candidates]
    lowered = {name.lower(): name for name in reversed(names)}
    close = difflib.get_close_matches(value.lower(), lowered, n=3, cutoff=CUTOFF)
    if len(value) > SHORT and not close:
        close = difflib.get_close_matches(value[:SHORT].lower(), lowered, n=3, cutoff=CUTOFF)
    if close:
        return [lowered[name] for name in close]
    titles = {about.lower(): name for name, about in reversed(candidates) if about}
    return [titles[title] for title in difflib.get_close_matches(value.lower(), titles, n=3, cutoff=CUTOFF)]


def _rows(path: str, **query: Any) -> list[Any]:
    """The first page of a list."""
    speaker = Client(guarded_project(), autostart=False)
    try:
        answer = speaker.request("GET", path, query=query, timeout_s=LIMIT_S, is_poll=True)
    finally:
        speaker.close()
    return answer if isinstance(answer, list) else next(iter(answer.values()))


def _ids(*ways: tuple[str, str]) -> Callable[[], Iterator[Candidate]]:
    """A source of the numbers and short ids, newest first, of lists; each list is given by its path and its id's field."""

    def look() -> Iterator[Candidate]:
        for path, field in ways:
            rows = _rows(path, **({"sort": "newest", "limit": MOST} if path == "/tasks" else {}))
            for row in rows if path == "/tasks" else reversed(rows[-MOST:]):
                if row.get("number") is not None:
                    yield str(row["number"]), row["title"]
                yield row[field][:SHORT], row["title"]

    return look


def _named(path: str, field: str, about: str) -> Callable[[], Iterator[Candidate]]:
    return lambda: ((str(row[field]), str(row.get(about) or "")) for row in _rows(path))


def _recipients() -> Iterator[Candidate]:
    yield "all", "everybody"
    yield from _named("/sessions", "agent_name", "status")()
    yield from _named("/teams", "name", "role")()


def _saved() -> Iterator[Candidate]:
    yield from _named("/worktrees", "name", "branch")()
    for row in _rows("/salvage"):
        yield row["ref"], ""


def _threads() -> Iterator[Candidate]:
    for row in _rows("/messages", everyone=True, limit=MOST):
        yield str(row["thread_id"]), row["subject"]


def _branches() -> Iterator[Candidate]:
    from corral.git import refs
    from corral.git.process.command import open_repository

    prefix = "refs/heads/"
    rows = refs.listing(open_repository(project().common_dir), prefix)
    for row in sorted(rows, key=lambda row: row.created_at, reverse=True):
        yield row.name.removeprefix(prefix), row.sha[:SHORT]


def _settings() -> Iterator[Candidate]:
    from corral.config.model import all_settings

    for setting in all_settings():
        yield setting.key, str(setting.schema.get("description", ""))


def _sections() -> Iterator[Candidate]:
    for key, about in _settings():
        yield key.partition(".")[0], "section"
        yield key, about


def _layers() -> tuple[Project, dict[str, Any]]:
    from corral.config.load import read_layers

    where = project()
    return where, read_layers(where, account.home())


def aliases() -> Iterator[Candidate]:
    """The aliases of the configuration files.

    Raises:
        CorralError: There is no project, or its files are not accepted.
    """
    from corral.config.custom.aliases import aliases_of

    for name, alias in sorted(aliases_of(_layers()[1]).items()):
        yield name, alias.command


def _profiles() -> Iterator[Candidate]:
    from corral.config.custom.profiles import declared

    for name in declared(_layers()[1]):
        yield name, ""


def _templates() -> Iterator[Candidate]:
    for file in sorted((project().home / "templates").glob("*.y*ml")):
        yield file.stem, ""


def _schemas() -> Iterator[Candidate]:
    from corral.faces.cli.schemas import schemas

    for name in schemas():
        for word in name.split():
            yield word, ""


def _pages() -> Iterator[Candidate]:
    from corral.faces.cli.help import pages

    for name in pages():
        for word in name.split():
            yield word, ""


def _files() -> Iterator[Candidate]:
    """The paths that are locked, and the files of the current folder."""
    yield from _named("/locks", "file_path", "locked_by")()
    for path in sorted(here().iterdir()):
        yield path.name + ("/" if path.is_dir() else ""), ""


KINDS: dict[str, Callable[[], Iterator[Candidate]]] = {
    "task": _ids(("/tasks", "task_id")),
    "merge": _ids(("/merges", "merge_id")),
    "open": _ids(("/tasks", "task_id"), ("/merges", "merge_id")),
    "session": _named("/sessions", "agent_name", "status"),
    "agent": _named("/agents", "name", "description"),
    "running agent": _named("/swarm", "agent_id", "kind"),
    "recipient": _recipients,
    "worktree": _named("/worktrees", "name", "branch"),
    "saved work": _saved,
    "branch": _branches,
    "feature": _named("/features", "feature_id", "branch"),
    "handoff": lambda: ((row["handoff_id"][:SHORT], row["agent_name"]) for row in _rows("/handoffs")),
    "message": lambda: ((str(row["id"]), row["subject"]) for row in _rows("/messages", everyone=True, limit=MOST)),
    "thread": _threads,
    "lock": _named("/locks", "file_path", "locked_by"),
    "path": _files,
    "setting": _settings,
    "section": _sections,
    "alias": aliases,
    "profile": _profiles,
    "template": _templates,
    "command": _schemas,
    "page": _pages,
}
"""How the candidates of each kind are found."""
