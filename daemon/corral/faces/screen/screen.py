"""The one screen: what needs you above, one of the other panels below, and the keys."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.events import Key, Resize
from textual.theme import Theme
from textual.widgets import Input, Static

from corral.config.paths import Project
from corral.faces.cli.terminal.bell import Bell
from corral.faces.screen import lines, panels
from corral.faces.screen.acting import Acting, Requests
from corral.faces.screen.actions import ALL, BY_KEY, Action, actions_of, main_key
from corral.faces.screen.details import event_line
from corral.faces.screen.dialogs import Page
from corral.faces.screen.feed import ConnectionLost, Feed, Happened, RowsChanged, ViewChanged
from corral.faces.screen.lines import Line
from corral.faces.screen.log_view import LogView
from corral.faces.screen.table import RowTable
from corral.faces.screen.text import Glyphs, Row, has_utf8, joined, short_age

LEAST = (20, 9)
"""Columns and rows below which only a warning is shown."""
NAMES = (panels.NEEDS, *(panel.name for panel in panels.PANELS), panels.LOG)
ROOMY = 28
"""Rows from which on the remedy of what needs a person may take a line more."""
AGES_S = 20.0
"""Between two looks whether an age on the screen has changed."""


class MainScreen(Acting):
    """Shows one project.

    Args:
        view: The view at the start.
        requests: Answers what the screen asks for.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", show=False),
        Binding("k,up", "move(-1)", show=False),
        Binding("pagedown,ctrl+f", "page(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("g,home", "first", show=False),
        Binding("G,end", "last", show=False),
        Binding("tab,right", "panel(1)", show=False),
        Binding("shift+tab,left", "panel(-1)", show=False),
        Binding("enter", "details", show=False),
        Binding("slash", "filter", show=False),
        Binding("s", "sort", show=False),
        Binding("question_mark,f1", "help", show=False),
        Binding("escape", "clear", show=False),
        Binding("q", "app.quit", show=False),
        *(Binding(str(number), f"show('{name}')", show=False) for number, name in enumerate(NAMES, 1)),
    ]

    def __init__(self, project: Project, view: Row, requests: Requests, glyphs: Glyphs) -> None:
        super().__init__(project, requests, glyphs)
        self.view = view
        self.lists: dict[str, list[Row]] = {}
        self.panel, self.lower = panels.NEEDS, panels.TASKS
        self._panels = {panel.name: panel for panel in (panels.need_panel(main_key), *panels.PANELS)}
        self._orders = dict.fromkeys(NAMES, 0)
        self._filters = dict.fromkeys(NAMES, "")
        self._lost: str | None = None
        self._bell = Bell()
        self._bell.rings(view)  # needs from before the start are no news
        self._tells_loss = False
        self._loading = set(panels.FED)
        self._events: list[tuple[str, str]] = []
        self._feed = Feed(project, view["seq"], self.post_message)

    def compose(self) -> ComposeResult:
        """The lines and the panels."""
        yield Static("", id="small", markup=False)
        yield Line(id="top")
        yield Line(id="needs-heading")
        yield self._table(panels.NEEDS, headings=False)
        yield Line(id="hint")
        yield Line(id="tabs")
        with Container(id="lower"):
            for panel in panels.PANELS:
                yield self._table(panel.name)
            yield LogView(glyphs=self.glyphs, id=panels.LOG)
        field = Input(placeholder="words to look for", compact=True, id="filter", select_on_focus=False)
        field.cursor_blink = False
        yield field
        yield Line(id="message")
        yield Line(id="keys")

    def _table(self, name: str, *, headings: bool = True) -> RowTable:
        panel = self._panels[name]
        return RowTable(panel.columns, panel.key, glyphs=self.glyphs, empty=panel.empty, headings=headings, id=name)

    def on_mount(self) -> None:
        """Show what there is, and begin to follow."""
        self._events = [
            (event_line(event, self.glyphs, event["title"] or ""), "dim") for event in self.view["recent"][::-1]
        ]
        self.log_view.replace(self._events)
        self._show_view()
        self.action_show(panels.NEEDS if self.view["needs_you"] else panels.TASKS)
        self._feed.start()
        self.set_interval(AGES_S, self._refresh_ages)

    def on_unmount(self) -> None:
        """Stop following."""
        self._feed.stop()
        self.stop_following()

    @property
    def log_view(self) -> LogView:
        """The log."""
        return self.query_one(f"#{panels.LOG}", LogView)

    @property
    def table(self) -> RowTable | LogView:
        """The panel that keys act on."""
        return self.log_view if self.panel == panels.LOG else self.query_one(f"#{self.panel}", RowTable)

    # -- what comes from the daemon -----------------------------------------------------------------------------

    def on_view_changed(self, message: ViewChanged) -> None:
        """Show another view; only what differs is drawn."""
        self._lost = None
        self.view = message.view
        if self._bell.rings(message.view):
            self.app.bell()
        self._show_view()

    def on_rows_changed(self, message: RowsChanged) -> None:
        """Show other rows of a list."""
        self.lists[message.name] = message.rows
        name = next(panel for panel, source in panels.FED.items() if source == message.name)
        if message.complete:
            self._loading.discard(name)
        if name == self.lower or (name, self.lower) == (panels.MERGES, panels.TASKS):
            self._show_rows(self.lower)
        self._show_lines()

    def on_happened(self, message: Happened) -> None:
        """Append events to the log."""
        titles = self._titles({event["task_id"] for event in message.events if event["task_id"]})
        fresh = [
            (event_line(event, self.glyphs, titles.get(event["task_id"] or "", "")), "plain")
            for event in message.events
        ]
        self._events = (self._events + fresh)[-1000:]
        if not self.is_following:
            self.log_view.add(fresh)

    def _titles(self, task_ids: set[str]) -> dict[str, str]:
        rows = self.lists.get(panels.TASKS, ()) if task_ids else ()
        return {row["task_id"]: row["title"] for row in rows if row["task_id"] in task_ids}

    def on_connection_lost(self, message: ConnectionLost) -> None:
        """Say that the rows are out of date."""
        self._lost = message.reason
        self._show_lines()

    # -- what is shown ------------------------------------------------------------------------------------------

    def _show_view(self) -> None:
        self._show_rows(panels.NEEDS)
        if self.lower in (panels.TASKS, panels.AGENTS):  # the view says what is done for them
            self._show_rows(self.lower)
        self._arrange()
        self._show_lines()

    def rows_of(self, name: str) -> list[Row]:
        """All rows of a panel, before the filter."""
        if name == panels.NEEDS:
            return list(self.view["needs_you"])
        rows = self.lists.get(panels.FED.get(name, ""), [])
        if name == panels.TASKS:
            notes = panels.notes_of(self.view, self.lists.get(panels.MERGES, []))
            return [{**row, "now": notes[row["task_id"]]} if row["task_id"] in notes else row for row in rows]
        return panels.agents_of(self.view, rows) if name == panels.AGENTS else rows

    def _show_rows(self, name: str) -> None:
        if name == panels.LOG:
            return
        table = self.query_one(f"#{name}", RowTable)
        table.empty = "Loading" if name in self._loading and not self.rows_of(name) else self._panels[name].empty
        chosen = self._panels[name].chosen(self.rows_of(name), self._orders[name], self._filters[name])
        table.show_rows(chosen)

    def _show_lines(self) -> None:
        """The lines around the panels; each is drawn only if it differs."""
        width, focused = self.app.size.width, self.panel == panels.NEEDS
        needs = self.query_one(f"#{panels.NEEDS}", RowTable)
        self._line("top").show_parts(lines.heading(self.view, self.glyphs, lost=self._lost, width=width))
        filtered = self._filters[panels.NEEDS]
        self._line("needs-heading").show_parts(
            lines.needs_heading(self.view, self.glyphs, len(needs.rows), focused=focused, filtered=filtered)
        )
        self._line("hint").show_parts(lines.hint(needs.row, self.glyphs, width, self._hint_height(), self.view))
        counts = {name: len(self.lists.get(source, ())) for name, source in panels.FED.items()}
        counts[panels.AGENTS] = sum(row["status"] != "disconnected" for row in self.rows_of(panels.AGENTS))
        self._line("tabs").show_parts(
            lines.tabs(counts, self.lower, note=self._note(), width=width, focused=not focused)
        )
        self._line("keys").show_parts(lines.keys(self.actions, self.panel, width))
        if self._lost is not None:
            self.tell(self._lost, "bad")
            self._tells_loss = True
        elif self._tells_loss:
            self.tell("")
            self._tells_loss = False

    def _note(self) -> str:
        """The note on the lower panel: its filter, its order, or that more rows come."""
        name, words = self.lower, self._filters[self.lower]
        if name == panels.LOG:
            return f"/{words}" if words else self.following
        shown, rows = len(self.query_one(f"#{name}", RowTable).rows), len(self.lists.get(panels.FED[name], ()))
        if name in self._loading:
            return "loading"
        if words:
            return f"/{words}: {shown:,} of {rows:,}"
        return f"by {self._panels[name].orders[self._orders[name]].name}" if self._orders[name] else ""

    def _line(self, name: str) -> Line:
        return self.query_one(f"#{name}", Line)

    def _arrange(self) -> None:
        """Give what needs you as many rows as it has, up to a third of the screen."""
        width, height = self.app.size
        is_small = width < LEAST[0] or height < LEAST[1]
        self.set_class(is_small, "-small")
        if is_small:
            warning = f"Too small: {width} x {height}. Corral needs {LEAST[0]} x {LEAST[1]}. q leaves."
            self.query_one("#small", Static).update(warning)
        number = max(1, len(self.query_one(f"#{panels.NEEDS}", RowTable).rows))
        self.query_one(f"#{panels.NEEDS}").styles.height = min(number, max(2, height // 4))
        hint = self._line("hint")
        hint.display = height >= 16
        hint.styles.height = self._hint_height() if self.view["needs_you"] else 1
        gap = (1 if height >= 20 else 0, 0, 0, 0)
        self._line("needs-heading").styles.margin = gap
        self._line("tabs").styles.margin = gap

    def _hint_height(self) -> int:
        return 3 if self.app.size.height < ROOMY else 4

    def on_resize(self, _event: Resize) -> None:
        """Arrange everything for the new size."""
        self._arrange()
        self._show_lines()

    def _refresh_ages(self) -> None:
        """Draw the rows again whose age has changed."""
        for table in self.query(RowTable):
            ages = [
                short_age(row.get("created_at") or row.get("since")) for row in table.rows[: 4 * table.visible_rows]
            ]
            if table.display and ages != table.ages:
                table.refresh()
            table.ages = ages

    # -- keys ---------------------------------------------------------------------------------------------------

    @property
    def row(self) -> Row | None:
        """The row that keys act on."""
        table = self.table
        return table.row if isinstance(table, RowTable) else None

    @property
    def actions(self) -> list[Action]:
        """The actions for that row."""
        return [] if self.row is None else [*actions_of(self.panel, self.row)]

    def on_row_table_moved(self, message: RowTable.Moved) -> None:
        """Another row: other keys matter."""
        self._show_lines()

    async def on_row_table_opened(self, _message: RowTable.Opened) -> None:
        """A second click on a row shows all about it."""
        self.action_details()

    def on_descendant_focus(self, event: object) -> None:
        """A click on a panel makes it the one that keys act on."""
        focused = self.focused
        if focused is not None and focused.id in NAMES and focused.id != self.panel:
            self.panel = str(focused.id)
            self._show_lines()

    def action_move(self, by: int) -> None:
        """Move by rows."""
        self.table.move(by)

    def action_page(self, by: int) -> None:
        """Move by pages."""
        self.table.move(by * self.table.visible_rows)

    def action_first(self) -> None:
        """Move to the first row."""
        self.table.move_to(0)

    def action_last(self) -> None:
        """Move to the last row."""
        self.table.move_to(10**9)

    def action_panel(self, by: int) -> None:
        """Go to another panel."""
        self.action_show(NAMES[(NAMES.index(self.panel) + by) % len(NAMES)])

    def action_show(self, name: str) -> None:
        """Go to a panel."""
        self.panel = name
        if name != panels.NEEDS:
            self.lower = name
        self._show_rows(self.lower)
        for widget in self.query("#lower > *"):
            widget.set_class(widget.id == self.lower, "current")
        self.table.focus()
        self._show_lines()

    def action_sort(self) -> None:
        """Sort the panel by its next order."""
        panel = self._panels.get(self.panel)
        if panel is not None:
            self._orders[panel.name] = (self._orders[panel.name] + 1) % len(panel.orders)
            self._show_rows(panel.name)
            self.action_first()
            self._show_lines()

    def action_filter(self) -> None:
        """Ask for the words of the filter."""
        field = self.query_one("#filter", Input)
        field.value = self._filters[self.panel]
        field.add_class("current")
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while it is typed."""
        event.stop()
        self._filters[self.panel] = event.value
        if self.panel == panels.LOG:
            self.log_view.filter(event.value)
        self._show_rows(self.panel)
        self._show_lines()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the filter."""
        event.stop()
        event.input.remove_class("current")
        self.table.focus()

    def action_clear(self) -> None:
        """End the filter; else go back from an output to the panel that it was opened in, and from there to what needs you."""
        field, goes_to = self.query_one("#filter", Input), self.panel
        is_asking = field.has_class("current")
        field.value = ""
        if self._filters[self.panel]:
            self._filters[self.panel] = ""
            self.log_view.filter("")
        elif self.panel == panels.LOG and self.is_following:
            self.stop_following()
            self.log_view.replace(self._events)
            goes_to = self.followed_in
        elif not is_asking:
            goes_to = panels.NEEDS
        field.remove_class("current")
        self.tell("")
        self.action_show(goes_to)

    def action_help(self) -> None:
        """Show the keys."""
        self.app.push_screen(Page("Keys", joined(lines.help_parts(ALL)), glyphs=self.glyphs))

    def on_key(self, event: Key) -> None:
        """Run the action of the key on the row."""
        action = BY_KEY.get(event.character or "")
        if action is None or isinstance(self.focused, Input):
            return
        event.stop()
        self.begin(action, in_editor=event.character == "O")


# -- The program of ``corral interactive``: the terminal, the threads that talk to the daemon, and the one screen

_THEME = Theme(
    name="corral",
    primary="#6cb6ff",
    warning="#e0b45c",
    error="#ff7b72",
    success="#7ec699",
    foreground="#d5dbe3",
    background="#0e1116",
    surface="#161b22",
    panel="#1f2630",
    dark=True,
)


class Interactive(App[None]):
    """The screen of one project; leaving it stops nothing.

    Args:
        project: The daemon's project.
        view: The view at the start.
        plain: Whether only ASCII is drawn; None: as the terminal's locale says.
    """

    TITLE = "Corral"
    CSS_PATH = "interactive.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c,ctrl+q", "quit", priority=True, show=False, system=True)]

    def __init__(self, project: Project, view: Row, *, plain: bool | None = None) -> None:
        is_coloured = "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        if not is_coloured:
            os.environ["NO_COLOR"] = "1"  # the only switch that Textual reads
        super().__init__(ansi_color=None if is_coloured else True)
        self.glyphs = Glyphs(plain=not has_utf8() if plain is None else plain)
        self.project, self.first_view = project, view
        self.requests = Requests(project)
        self.register_theme(_THEME)
        self.theme = "corral"
        self.set_class(not is_coloured, "-colourless")
        self.set_class(self.glyphs.plain, "-plain")

    def get_default_screen(self) -> MainScreen:
        """The one screen."""
        return MainScreen(self.project, self.first_view, self.requests, self.glyphs)

    def on_mount(self) -> None:
        """Begin to answer; a signal ends the program as q does, so that the terminal is given back."""
        self.requests.start()
        if not self.is_headless and sys.__stdin__ is not None:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, self.exit)

    def on_unmount(self) -> None:
        """Answer nothing more."""
        self.requests.stop()
