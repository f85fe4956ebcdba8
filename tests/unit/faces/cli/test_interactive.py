"""The parts of the terminal screen that need no daemon: tables of any length, texts of anybody, and what a row offers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.app import App, ComposeResult

from corral.client.events import EventStream
from corral.config.paths import find_project
from corral.core.instants import parse
from corral.core.needs import Need, rest
from corral.faces.cli.terminal.bell import Bell
from corral.faces.screen import lines, panels
from corral.faces.screen.actions import RETRY, actions_of, call_of, main_key, subject_of
from corral.faces.screen.details import event_line
from corral.faces.screen.feed import ConnectionLost, Feed
from corral.faces.screen.log_view import MOST_LINES, LogView, split
from corral.faces.screen.table import Column, RowTable
from corral.faces.screen.text import Glyphs, short_age
from tests.support.screens import Player, play_app

ROWS = 10_000
RICH = Glyphs(plain=False)
Row = dict[str, Any]


class Alone(App[None]):
    """A program of one widget."""

    def __init__(self, widget: Callable[[], Any]) -> None:
        super().__init__()
        self._make = widget

    def compose(self) -> ComposeResult:
        yield self._make()


@pytest.mark.req("FR-CLI-008")
def test_ten_thousand_rows_cost_what_the_screen_shows() -> None:
    asked: list[int] = []

    def value(row: Row) -> str:
        asked.append(row["n"])
        return f"row {row['n']}"

    def table() -> RowTable:
        return RowTable([Column("NAME", value)], lambda row: str(row["n"]), glyphs=RICH, empty="None.")

    async def script(player: Player) -> None:
        table = player.app.query_one(RowTable)
        table.show_rows([{"n": number} for number in range(ROWS)])
        await player.sees("row 20")
        for _ in range(30):
            table.move(table.visible_rows)
            await player.press("x")
        assert table.row == {"n": 30 * 23}
        table.move_to(ROWS)
        await player.sees(f"row {ROWS - 1}")
        drawn = len(asked)
        assert drawn < 40 * 24 * 3, "only lines of the screen are made"
        rows = [dict(row) for row in table.rows]
        rows[-1]["n"] = -1
        table.show_rows(rows)
        await player.sees("row -1")
        assert len(asked) - drawn < 24 * 6
        await player.press("x")
        before = len(asked)
        table.show_rows([dict(row) for row in rows])
        await player.press("x")
        assert len(asked) == before, "what did not change is not drawn"
        table.show_rows(rows[-5:])
        assert table.row == rows[-1], "the cursor keeps its row"
        table.show_rows([])
        await player.sees("None.")

    play_app(Alone(table), script)


def test_a_log_keeps_its_last_lines_and_follows_them_until_it_is_scrolled_away() -> None:
    async def script(player: Player) -> None:
        log = player.app.query_one(LogView)
        log.add([(f"line {number}", "plain") for number in range(3 * MOST_LINES)])
        await player.sees(f"line {3 * MOST_LINES - 1}")
        assert len(log.lines) == MOST_LINES
        log.move_to(0)
        first = (await player.sees(f"line {2 * MOST_LINES}"))[0]
        log.filter("line 14999")
        lines_now = await player.sees("line 14999")
        assert first.startswith("line 10000") and not lines_now[1].strip()

    play_app(Alone(lambda: LogView(glyphs=RICH)), script)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[bold]x[/bold] [@click=app.quit]y[/]", "[bold]x[/bold] [@click=app.quit]y[/]"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("a\u202eb\u2066c", r"a\u202eb\u2066c"),
        ("two\nlines\tand a tab", r"two\nlines\tand a tab"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
    ],
)
def test_a_foreign_text_is_shown_as_text(text: str, wanted: str) -> None:
    assert RICH.line(text) == wanted

    async def script(player: Player) -> None:
        player.app.query_one(RowTable).show_rows([{"t": text}])
        assert (await player.sees(wanted))[0].endswith(f" {wanted}")

    def table() -> RowTable:
        return RowTable([Column("", lambda row: row["t"])], lambda row: "", glyphs=RICH, empty="", headings=False)

    if "[bold]" in text or "\u202e" in text:
        play_app(Alone(table), script)
    assert split(text + "\n")[0][0].isprintable()


def test_a_cell_is_as_wide_as_it_is_to_be() -> None:
    from rich.cells import cell_len

    for text in ("", "short", "long enough to be cut", "漢字かな交じり文", "Grüße", "e\u0301" * 30):
        for width in (1, 2, 5, 9, 30):
            assert cell_len(RICH.cell(text, width)) == width, (text, width)
    assert Glyphs(plain=True).cell("Grüße und mehr", 8).isascii()


def test_an_age_has_one_unit() -> None:
    now = parse("2026-01-10T12:00:00.000Z")
    instants = (
        "2026-01-10T11:59:30.000Z",
        "2026-01-10T11:48:00.000Z",
        "2026-01-10T09:00:00.000Z",
        "2026-01-02T12:00:00.000Z",
    )
    assert [short_age(instant, now) for instant in instants] == ["now", "12m", "3h", "8d"] and short_age(None) == ""


def need(kind: str, reason: str, title: str | None = None, *, outcome: str | None = None, **ids: str) -> Row:
    what = reason if title is None else f"{title!r}: {reason}"
    return Need(kind, what, "type this", None, ids, title, reason, outcome).to_wire()


COLON = "fix: it's b's header, is dead: conflicts with main"
"""A title with whatever a sentence about it has too."""


@pytest.mark.parametrize(
    ("row", "kind", "key", "path"),
    [
        (need("merge_approval", "it changes CLAUDE.md", COLON, merge_id="m1", task_id="t1"), "approval", "a approve", None),
        (need("returned_merge", "c (content)", COLON, outcome="conflict", merge_id="m1", task_id="t1"),
         "conflict", "o open", "/tasks/t1/retry"),
        (need("returned_merge", "c (content)", COLON, outcome="conflict", merge_id="m1"), "conflict", "o open", None),
        (need("returned_merge", "2 tests failed", COLON, outcome="red", merge_id="m1", task_id="t1"),
         "red", "o open", "/merges/m1/retry"),
        (need("failed_task", "exit 3", COLON, outcome="dead", task_id="t1"), "dead", "r retry", "/tasks/t1/retry"),
        (need("paused_work", "Work is paused"), "paused", "u resume", "/resume"),
        (need("waiting_session", "Ann is waiting for permission", session_id="s1"), "question", "t attach", None),
        (need("database_damaged", "The file is damaged"), "database damaged", "Enter look", None),
    ],
)  # fmt: skip
def test_what_needs_a_person_says_which_key_settles_it(row: Row, kind: str, key: str, path: str | None) -> None:
    assert row["name"] == kind and main_key(row) == key
    if path is not None:
        offered = actions_of(panels.NEEDS, row)
        assert call_of(RETRY if RETRY in offered else offered[0], panels.NEEDS, row).path == path
    assert subject_of(panels.NEEDS, row).title == row["title"] or row["what"]
    words = lines.keys(actions_of(panels.NEEDS, row), panels.NEEDS, 80)
    assert ("?", " help ") in [(a[0].strip(), b[0]) for a, b in zip(words[::2], words[1::2], strict=True)]
    assert sum(len(text) for text, _ in words) <= 80


@pytest.mark.parametrize("width", [1, 12, 20, 33, 60, 80, 200])
def test_the_condition_under_the_cursor_fits_a_terminal_of_any_width(width: int) -> None:
    for entry in (
        need("merge_approval", "it changes CLAUDE.md", "A", merge_id="m"),
        need("waiting_session", "Ann is waiting for permission for Write of deploy.sh", session_id="s"),
        need("database_damaged", "The file is damaged"),
    ):
        text = "".join(
            part for part, _ in lines.hint({**entry, "remedy": "corral " * 20}, RICH, width, 3, {"recent": []})
        )
        key = main_key(entry).partition(" ")[0]
        assert len(text.splitlines()) <= 4 and (key == "Enter" or f"Press {key} to" in text)
        assert all(len(line) <= max(16, width) for line in text.splitlines()), text


def test_a_condition_is_told_without_what_its_kind_says_already() -> None:
    conflict = need("returned_merge", "src/a.py (content)", COLON, outcome="conflict", merge_id="m", task_id="c")
    waits = need("merge_approval", "it changes CLAUDE.md", COLON, merge_id="m")
    dead = need("failed_task", "exit 3: no", COLON, outcome="dead", task_id="t")
    more = rest("failed_task", "dead", 7).to_wire()
    wanted = [f"{COLON}: src/a.py (content)", f"{COLON}: it changes CLAUDE.md", f"{COLON}: exit 3: no"]
    assert [panels.brief(row) for row in (conflict, waits, dead, more)] == [*wanted, "7 more of this kind."]
    assert not actions_of(panels.NEEDS, more), "it is about no row"
    work = {"task_id": "w", "agent": "Ann", "step": "[b]reads[/b]"}
    view = {"needs_you": [conflict, dead, more], "delayed": [], "at_work": [work]}
    held = {"task_id": "h", "reason": "uncommitted changes: a.txt\nmore", "outcome": "held"}
    settled = {"task_id": "d", "reason": "b conflicts with main at 1: a", "outcome": "dismissed"}
    notes = {"t": "exit 3: no", "w": "Ann: [b]reads[/b]", "c": "src/a.py (content)", "h": "uncommitted changes: a.txt"}
    assert panels.notes_of(view, [held, settled]) == notes
    heading = lines.needs_heading({**view, "needs_you_number": 9}, RICH, 3, focused=False, filtered="")
    assert heading[-1][0].strip() == "9", "not only those that it has a row for"


def test_the_bell_rings_for_what_is_new_also_where_many_of_a_kind_have_one_row() -> None:
    first = need("failed_task", "exit 3", "A", outcome="dead", task_id="t")
    bell, rings = Bell(), []
    for more in (5, 5, 6, 4, 5):
        needs = [first, rest("failed_task", "dead", more).to_wire()]
        rings.append(bell.rings({"needs_you": needs, "needs_you_number": 1 + more, "bell": True}))
    assert rings == [False, False, True, False, True]


def test_a_filter_wants_all_its_words_and_an_order_is_stable() -> None:
    panel = next(candidate for candidate in panels.PANELS if candidate.name == panels.TASKS)
    common = {"agent": None, "template": None, "task_id": "x", "priority": 5}
    values = ((1, "Add a page", "landed"), (2, "Add a test", "dead"), (3, "Cut it", "running"))
    rows = [{**common, "number": number, "title": title, "outcome": outcome} for number, title, outcome in values]
    assert [row["number"] for row in panel.chosen(rows, 0, "")] == [3, 2, 1], "what is open comes first"
    assert [row["number"] for row in panel.chosen(rows, 3, "")] == [1, 2, 3]
    to_start = [
        {**rows[0], "number": number, "priority": priority, "outcome": "pending"}
        for number, priority in ((4, 2), (5, 7), (6, 2))
    ]
    assert [row["number"] for row in panel.chosen(to_start, 0, "")] == [5, 4, 6], (
        "in the order in which they will start"
    )
    assert [row["number"] for row in panel.chosen(rows, 0, "ADD dead")] == [2]


def test_an_events_line_leaves_out_what_says_nothing_to_a_person() -> None:
    data = {"error_code": "failed", "task_id": "0f", "token": 7, "paths": ["a", "b"], "reason": "[red]\x1b"}
    line = event_line({"at": "2026-01-10T12:00:00.000Z", "kind": "task.failed", "data": data}, RICH, "A title")
    assert line == r"12:00:00  task.failed       A title  failed, a, b, [red]\x1b"


@pytest.mark.parametrize("fault", [ValueError("no number"), KeyError("seq")])
def test_a_screen_that_lost_track_says_so(fault: Exception, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_stream: EventStream) -> None:
        raise fault

    (repo / ".corral").mkdir()
    (repo / ".corral" / "config.yaml").touch()
    monkeypatch.setattr(EventStream, "open", fail)
    messages: list[Any] = []
    follower = Feed(find_project(repo), 0, messages.append)
    follower.start()
    follower.join(timeout=10)
    assert not follower.is_alive()
    assert [type(message) for message in messages] == [ConnectionLost] and type(fault).__name__ in messages[0].reason
