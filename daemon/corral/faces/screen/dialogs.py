"""Screens over the screen: details, questions, forms, and the help page. None of their texts is interpreted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from corral.faces.screen.text import Glyphs, joined

MOST_WIDE = 130
"""Cells of a page at most; the style sheet says the same."""
AROUND = 5
"""Cells of a page's margins and scroll bar."""
_SCROLL: list[BindingType] = [
    Binding("j,down", "scroll(1)", show=False),
    Binding("k,up", "scroll(-1)", show=False),
    Binding("pagedown,space", "page(1)", show=False),
    Binding("pageup", "page(-1)", show=False),
    Binding("g,home", "end(-1)", show=False),
    Binding("G,end", "end(1)", show=False),
]


class Page(ModalScreen[str | None]):
    """A text that can be scrolled; ends with the key of an answer, or None.

    Args:
        title: Its heading.
        text: Its text.
        answers: The keys that end it, each with what the last line calls it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*_SCROLL, Binding("escape,q", "answer", show=False)]

    def __init__(
        self, title: str, text: Text, *, glyphs: Glyphs, answers: Sequence[tuple[str, str]] = (), small: bool = False
    ) -> None:
        super().__init__(classes="small" if small else "")
        self._title, self._text, self._glyphs = title, text, glyphs
        self._answers = dict(answers)

    def compose(self) -> ComposeResult:
        """The heading, the text, and the keys."""
        with Vertical(classes="dialog"):
            yield Static(joined([(self._glyphs.line(self._title), "bold")]), classes="heading", markup=False)
            with VerticalScroll(can_focus=True):
                yield Static(self._text, id="text", markup=False)
            keys = [part for key, label in self._answers.items() for part in ((key, "bold"), (f" {label}  ", "dim"))]
            yield Static(joined([*keys, ("Esc", "bold"), (" back", "dim")]), classes="keys", markup=False)

    def set_text(self, text: Text) -> None:
        """Show another text."""
        self._text = text
        if self.is_mounted:
            self.query_one("#text", Static).update(text)

    def set_answers(self, answers: Sequence[tuple[str, str]]) -> None:
        """Offer other answers; for use before it is shown."""
        self._answers = dict(answers)

    def on_key(self, event: events.Key) -> None:
        """End with the answer that the key stands for."""
        if event.character in self._answers:
            event.stop()
            self.dismiss(event.character)
        elif event.key == "enter" and "Enter" in self._answers:
            event.stop()
            self.dismiss("Enter")

    def action_answer(self) -> None:
        """End without an answer."""
        self.dismiss(None)

    def action_scroll(self, by: int) -> None:
        """Scroll by lines."""
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)

    def action_page(self, by: int) -> None:
        """Scroll by pages."""
        scroll = self.query_one(VerticalScroll)
        scroll.scroll_relative(y=by * max(1, scroll.size.height - 1), animate=False)

    def action_end(self, way: int) -> None:
        """Scroll to the beginning or to the end."""
        scroll = self.query_one(VerticalScroll)
        scroll.scroll_to(y=0 if way < 0 else scroll.max_scroll_y, animate=False)


class Form(ModalScreen[list[str] | None]):
    """Fields to fill in; ends with their texts, or None.

    Args:
        title: Its heading.
        fields: Names and what is in them already.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]

    def __init__(self, title: str, fields: Sequence[tuple[str, str]], *, glyphs: Glyphs) -> None:
        super().__init__(classes="small")
        self._title, self._fields, self._glyphs = title, fields, glyphs

    def compose(self) -> ComposeResult:
        """The heading, the fields, and the keys."""
        with Vertical(classes="dialog"):
            yield Static(joined([(self._glyphs.line(self._title), "bold")]), classes="heading", markup=False)
            for name, value in self._fields:
                yield Static(name, classes="label", markup=False)
                field = Input(value, compact=True, select_on_focus=False)
                field.cursor_blink = False
                yield field
            keys = [("Enter", "bold"), (" next, at the last one: send  ", "dim"), ("Esc", "bold"), (" back", "dim")]
            yield Static(joined(keys), classes="keys", markup=False)

    def on_mount(self) -> None:
        """Begin with the first empty field."""
        fields = [*self.query(Input)]
        next((field for field in fields if not field.value), fields[-1]).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go to the next empty field, or end."""
        event.stop()
        fields = [*self.query(Input)]
        empty = next((field for field in fields if not field.value.strip()), None)
        if empty is not None:
            empty.focus()
        elif event.input is fields[-1]:
            self.dismiss([field.value for field in fields])
        else:
            fields[fields.index(event.input) + 1].focus()

    def action_leave(self) -> None:
        """End without an answer."""
        self.dismiss(None)
