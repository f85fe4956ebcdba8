"""The panels: which columns and orders each list has, and which rows it is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from corral.core.outcomes import FAILURES
from corral.core.tones import tone_of
from corral.faces.screen import feed
from corral.faces.screen.table import Column
from corral.faces.screen.text import Row, short_age

NEEDS, TASKS, AGENTS, MERGES, LOCKS, MAIL, LOG = "needs", "tasks", "agents", "merges", "locks", "mail", "log"
_WAITING = ("merge_approval", "waiting_session", "held_merge", "paused_work", "limit_reached")
_LIVELY = ("running", "verifying", *FAILURES, "held", "queued", "pending", "waiting", "interrupted")
_MERGE_RANK = {"held": 0, "conflict": 1, "red": 1, "verifying": 2, "queued": 3}
_TO_START = ("pending", "waiting", "interrupted")
_RANK = {outcome: rank for rank, outcome in enumerate(_LIVELY)}


@dataclass(frozen=True)
class Order:
    """An order of rows: its name, and what is compared."""

    name: str
    key: Callable[[Row], Any]
    descending: bool = False

    def sort(self, rows: list[Row]) -> list[Row]:
        """The rows in this order; equal ones stay as they were."""
        return sorted(rows, key=self.key, reverse=self.descending)


@dataclass(frozen=True)
class Panel:
    """A list of the screen.

    Attributes:
        name: Its name, also of its widget.
        title: Its heading.
        empty: The text where it has no rows.
        key: The text that tells a row from all others.
        columns: Its columns.
        orders: Its orders, the first one at the start.
        words: The texts that a filter looks in.
    """

    name: str
    title: str
    empty: str
    key: Callable[[Row], str]
    columns: Sequence[Column]
    orders: Sequence[Order]
    words: Callable[[Row], Sequence[Any]]

    def chosen(self, rows: list[Row], order: int, words: str) -> list[Row]:
        """The rows that contain every wanted word, in an order."""
        parts = words.casefold().split()
        if parts:
            rows = [row for row in rows if self._contains(row, parts)]
        return self.orders[order % len(self.orders)].sort(rows)

    def _contains(self, row: Row, parts: Sequence[str]) -> bool:
        text = " ".join(str(word) for word in self.words(row) if word).casefold()
        return all(part in text for part in parts)


def _dim(_row: Row) -> str:
    return "dim"


def _age_of(name: str) -> Column:
    return Column("AGE", lambda row: short_age(row[name]), 4, 50, _dim, right=True)


def _title_style(row: Row) -> str:
    return "plain" if row["outcome"] in _RANK else "dim"


def _openness(row: Row) -> tuple[int, int, int]:
    """Running tasks before waiting ones, which stand in the order of their start; of all others the latest first."""
    rank = _RANK.get(row["outcome"], 99)
    return (rank, -row["priority"], row["number"]) if row["outcome"] in _TO_START else (rank, 0, -row["number"])


def brief(need: Row) -> str:
    """A condition that needs a person, without what its kind says already: the title and the reason."""
    return str(need["what"]) if need["title"] is None else f"{need['title']}: {need['reason']}"


def need_panel(main_key: Callable[[Row], str]) -> Panel:
    """The panel of what needs a person; ``main_key`` says which key settles a row."""
    return Panel(
        NEEDS,
        "Needs you",
        "Nothing needs you.",
        lambda row: f"{row['kind']} {sorted(row['ids'].values()) or row['what']}",
        [
            Column("", lambda row: row["name"], 11, 40, lambda row: "wait" if row["kind"] in _WAITING else "bad"),
            Column("", brief),
            Column("", lambda row: short_age(row["since"]), 4, 50, _dim, right=True),
            Column("", main_key, 10, 70, lambda _row: "bold"),
        ],
        [Order("urgency", lambda _row: 0), Order("age", lambda row: row["since"] or "~")],
        lambda row: (row["name"], row["what"], row["remedy"], *(value[:8] for value in row["ids"].values())),
    )


def _agent_doing(row: Row) -> str:
    work = row.get("work")
    if work is None:
        return str(row["waiting_for"] or row["current_task"] or "")
    return f"{work['number']} {work['title']}" + (f": {work['step']}" if work["step"] else "")


def _usage(row: Row) -> str:
    work = row.get("work")
    return f"{work['tokens']:,} t ${work['cost_usd']:.2f}" if work and work["tokens"] else ""


def agents_of(view: Row, sessions: list[Row]) -> list[Row]:
    """The sessions, each with the attempt that it executes; those of a worker without a session row too."""
    known = {row["session_id"] for row in sessions}
    work = {row["session_id"]: row for row in view["at_work"]}
    extra = [
        {
            "session_id": attempt["session_id"],
            "agent_name": attempt["agent"],
            "agent_type": attempt["kind"],
            "status": "active",
            "current_task": attempt["title"],
            "task_id": attempt["task_id"],
            "worktree": None,
            "branch": None,
            "waiting_for": None,
            "unguarded": False,
            "started_at": attempt["claimed_at"],
            "last_heartbeat": attempt["claimed_at"],
        }
        for attempt in work.values()
        if attempt["session_id"] not in known
    ]
    return [{**row, "work": work.get(row["session_id"])} for row in [*extra, *sessions]]


def notes_of(view: Row, merges: list[Row]) -> dict[str, str]:
    """Per task that is not over: who does what for it, or why it waits or came back."""
    notes = {
        row["task_id"]: row["reason"].split("\n")[0]
        for row in merges
        if row["reason"] and row["task_id"] and row["outcome"] in _MERGE_RANK
    }
    for need in view["needs_you"]:
        if need["kind"] in ("failed_task", "returned_merge") and "task_id" in need["ids"]:
            notes[need["ids"]["task_id"]] = need["reason"]
    for row in view["delayed"]:
        notes[row["task_id"]] = row["delay"]
    for row in view["at_work"]:
        notes[row["task_id"]] = row["agent"] + (f": {row['step']}" if row["step"] else "")
    return notes


def _agent_state(row: Row) -> str:
    if row["status"] != "disconnected":
        if row["unguarded"]:
            return "unguarded"
        if row["waiting_for"] and row["status"] == "active":
            return "waiting"
    work = row.get("work")
    return work["state"] if work else str(row["status"])


_AGENT_RANK = {"waiting": 0, "unguarded": 1, "stalled": 2, "running": 3, "spawning": 3, "active": 4, "idle": 5}


def _lock_kind(row: Row) -> str:
    return ("editing" if row["automatic"] else "reserved") + ("" if row["exclusive"] else " shared")


PANELS: Sequence[Panel] = (
    Panel(
        TASKS,
        "Tasks",
        "No tasks. Submit one: corral task submit --title … --command …",
        lambda row: row["task_id"],
        [
            Column("TASK", lambda row: row["number"], 5, 30, _dim, right=True),
            Column("OUTCOME", lambda row: row["outcome"], 10, 30, None, roomy=15),
            Column("PRIO", lambda row: row["priority"], 4, 60, _dim, right=True),
            _age_of("created_at"),
            Column("TITLE", lambda row: row["title"], style=_title_style),
            Column("NOW", lambda row: row.get("now") or row["progress"], 0, 90, _dim),
        ],
        [
            Order("what is open", _openness),
            Order("priority", lambda row: (-row["priority"], row["number"])),
            Order("newest", lambda row: row["number"], descending=True),
            Order("title", lambda row: row["title"].casefold()),
        ],
        lambda row: (
            row["number"],
            row["outcome"],
            row["title"],
            row["agent"],
            row["template"],
            row["task_id"][:8],
            row.get("now"),
        ),
    ),
    Panel(
        AGENTS,
        "Agents",
        "No sessions yet. Start `claude` in this repository.",
        lambda row: row["session_id"],
        [
            Column("NAME", lambda row: row["agent_name"], 16, 20),
            Column("STATE", _agent_state, 12, 36, lambda row: tone_of(_agent_state(row))),
            Column("TASK", _agent_doing),
            Column("USED", _usage, 16, 100, _dim, right=True),
            _age_of("started_at"),
        ],
        [
            Order("who waits", lambda row: (_AGENT_RANK.get(_agent_state(row), 9), row["agent_name"])),
            Order("name", lambda row: row["agent_name"].casefold()),
            Order("latest", lambda row: row["last_heartbeat"], descending=True),
        ],
        lambda row: (row["agent_name"], _agent_state(row), _agent_doing(row), row["agent_type"], row["session_id"]),
    ),
    Panel(
        MERGES,
        "Merges",
        "No merge requests. `corral merge submit` queues a branch.",
        lambda row: row["merge_id"],
        [
            Column("TASK", lambda row: row["number"] or "", 5, 40, _dim, right=True),
            Column("OUTCOME", lambda row: row["outcome"], 10, 30, None),
            _age_of("created_at"),
            Column("TITLE", lambda row: row["title"]),
            Column("REASON", lambda row: row["reason"], 28, 76, _dim),
            Column("BRANCH", lambda row: row["branch"], 30, 130, _dim),
        ],
        [
            Order("what is open", lambda row: _MERGE_RANK.get(row["outcome"], 9)),
            Order("newest", lambda row: row["created_at"], descending=True),
            Order("branch", lambda row: row["branch"]),
        ],
        lambda row: (row["number"], row["outcome"], row["title"], row["reason"], row["branch"], row["merge_id"][:8]),
    ),
    Panel(
        LOCKS,
        "Locks",
        "No locks: nobody edits a file.",
        lambda row: row["lock_id"],
        [
            Column("PATH", lambda row: row["file_path"]),
            Column("HELD BY", lambda row: row["locked_by"], 16, 40),
            Column("KIND", _lock_kind, 15, 60, _dim),
            Column("REASON", lambda row: row["reason"], 30, 110, _dim),
            _age_of("acquired_at"),
        ],
        [
            Order("path", lambda row: row["file_path"]),
            Order("holder", lambda row: (row["locked_by"], row["file_path"])),
            Order("oldest", lambda row: row["acquired_at"]),
        ],
        lambda row: (row["file_path"], row["locked_by"], _lock_kind(row), row["reason"]),
    ),
    Panel(
        MAIL,
        "Mail",
        "No mail.",
        lambda row: str(row["id"]),
        [
            Column("FROM", lambda row: row["from"], 16, 20),
            Column("HOW", lambda row: "" if row["importance"] == "normal" else row["importance"], 6, 70, None),
            Column("SUBJECT", lambda row: row["subject"], style=lambda _row: "bold"),
            Column("TEXT", lambda row: row["body"], 30, 100, _dim),
            _age_of("created_at"),
        ],
        [
            Order("newest", lambda row: row["id"], descending=True),
            Order("sender", lambda row: (row["from"], -row["id"])),
        ],
        lambda row: (row["from"], row["subject"], row["body"], row["importance"], row["thread_id"]),
    ),
)
FED = {TASKS: feed.TASKS, AGENTS: feed.SESSIONS, MERGES: feed.MERGES, LOCKS: feed.LOCKS, MAIL: feed.MAIL}
"""The list of the feed that each panel shows."""
