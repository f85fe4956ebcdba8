"""The lines around the panels: the project, the panels, and the keys for the current row."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from textual.widgets import Static

from corral.faces.screen.actions import Action, actions_of
from corral.faces.screen.panels import LOG, NEEDS, PANELS
from corral.faces.screen.text import Glyphs, Row, joined, short_age

Parts = list[tuple[str, str]]
GENERAL = (("Tab", "panel"), ("/", "filter"), ("s", "sort"), ("?", "help"), ("q", "quit"))
"""The keys that always matter."""


class Line(Static):
    """A text of styled parts that is drawn again only when it differs."""

    def __init__(self, *, id: str) -> None:
        super().__init__("", id=id, markup=False)
        self._parts: Parts = []

    def show_parts(self, parts: Parts) -> None:
        """Show other parts."""
        if parts != self._parts:
            self._parts = parts
            self.update(joined(parts), layout=False)


def heading(view: Row, glyphs: Glyphs, *, lost: str | None, width: int) -> Parts:
    """The first line: the project, what goes on in it, and whether it is live."""
    name = glyphs.line(str(view["project"]).rstrip("/").rpartition("/")[2])
    left: Parts = [(" Corral ", "bold"), (f" {name} {glyphs.to} {glyphs.line(view['target'])}", "plain")]
    if not view["verified"]:
        left.append(("  unverified", "wait"))
    if view["paused"]:
        left.append(("  paused", "wait"))
    resources = view["resources"]
    running, queued = view["at_work_left_out"] + len(view["at_work"]), view["queue_left_out"] + len(view["queue"])
    figures = [f"{running} running", f"{queued} to land", f"{sum(view['open'].values())} open"]
    if resources["cost_usd_per_day"]["used"]:
        figures.append(f"${resources['cost_usd_per_day']['used']:.2f} in 24 h")
    live: Parts = [(f"{glyphs.dot} live ", "good")] if lost is None else [(f"{glyphs.dot} daemon away ", "bad")]
    while True:
        right: Parts = [(f" {glyphs.between} ".join(figures) + "  ", "dim"), *live]
        gap = width - sum(len(text) for text, _ in [*left, *right])
        if gap >= 1 or not figures:
            return [*left, (" " * max(1, gap), "plain"), *right]
        figures.pop()


def needs_heading(view: Row, glyphs: Glyphs, shown: int, *, focused: bool, filtered: str) -> Parts:
    """The heading of the first panel."""
    number = view["needs_you_number"]
    parts: Parts = [(f"{glyphs.cursor} " if focused else "  ", "plain"), ("Needs you", "bold")]
    parts.append((f"  {number}" if number else "", "bad"))
    return parts + _filtered(filtered, shown, number)


def _filtered(words: str, shown: int, number: int) -> Parts:
    return [(f"  /{words}: {shown} of {number}", "wait")] if words else []


def hint(need: Row | None, glyphs: Glyphs, width: int, height: int, view: Row) -> Parts:
    """The condition under the cursor in full, and what to type, in that many lines at most."""
    if need is None:
        recent = view["recent"][:1]
        last = _last_event(recent[0]) if recent else ""
        return [("  " + glyphs.cell(last, max(1, width - 4)), "dim")]
    room = max(10, width - 6)
    what = textwrap.wrap(glyphs.line(need["what"]), room, max_lines=2, placeholder=f" {glyphs.more}")
    body: Parts = [(f"    {line}\n", "plain") for line in what]
    actions = actions_of(NEEDS, need)
    press: Parts = (
        [("Press ", "dim"), (actions[0].key, "bold"), (f" to {actions[0].label}. By hand: ", "dim")] if actions else []
    )
    press_width = sum(len(text) for text, _ in press)
    if actions and press_width > room - 16:  # a narrow terminal: the key alone says it
        return [*body, ("    Press ", "dim"), (actions[0].key, "bold"), (f" to {actions[0].label}"[: room - 7], "dim")]
    remedy = textwrap.wrap(
        glyphs.line(need["remedy"]), room, initial_indent=" " * press_width, max_lines=height - len(what),
        placeholder=f" {glyphs.more}", break_on_hyphens=False,
    )  # fmt: skip
    rest = "\n    ".join(remedy)[press_width:]
    return [*body, ("    ", "dim"), *press, (rest, "dim")]


def _last_event(event: Row) -> str:
    """The last event, in words."""
    noun, _, verb = event["kind"].partition(".")
    about = event["title"] or f"a {noun}"
    return f"Last: {about}: {verb.replace('_', ' ')}  {short_age(event['at'])}"


def tabs(counts: dict[str, int], current: str, *, note: str, width: int, focused: bool) -> Parts:
    """The panels below the first, each with its number of rows; the one that is shown is marked."""
    parts: Parts = []
    roomy = width >= 76
    for name, title in [*((panel.name, panel.title) for panel in PANELS), (LOG, "Log")]:
        number = f" {counts[name]:,}" if counts.get(name) and (roomy or name == current) else ""
        if name == current:
            parts += [(" ", "plain"), (f"[{title}{number}]", "chosen" if focused else "bold")]
        else:
            parts.append((f"  {title}{number} " if roomy else f" {title[:5]}", "dim"))
    return [*parts, (f"  {note}", "wait")] if note else parts


def keys(actions: Sequence[Action], panel: str, width: int) -> Parts:
    """The keys that matter for the row, then the general ones, as many as fit."""
    enter = [("Enter", "details")] if panel != LOG else [("Esc", "back")]
    seen, pairs = set[str](), list[tuple[str, str]]()
    for action in actions:
        if action.label not in seen:
            seen.add(action.label)
            pairs.append((f"{action.key}/-" if action.key == "+" else action.key, action.label))
    parts, left = Parts(), width - 1
    last = GENERAL[-2:]
    reserved = sum(len(key) + len(label) + 3 for key, label in last)
    for key, label in [*pairs, *enter, *GENERAL[:-2]]:
        if (size := len(key) + len(label) + 3) <= left - reserved:
            parts += [(f" {key}", "bold"), (f" {label} ", "dim")]
            left -= size
    for key, label in last:
        if (size := len(key) + len(label) + 3) <= left:
            parts += [(f" {key}", "bold"), (f" {label} ", "dim")]
            left -= size
    return parts


def help_parts(actions: Sequence[Action]) -> Parts:
    """The help page."""
    moving = [
        ("j k, arrows", "move; PgUp PgDn, g G: by pages, to the ends"),
        ("Enter", "all about the row"),
        ("Tab, 1 to 7", "next panel, or the panel of that number; 1 is what needs you"),
        ("/", "filter: rows that contain all the words; Esc ends it"),
        ("s", "sort: the panel's next order"),
        ("Esc", "back, at last to what needs you"),
        ("?", "this page"),
        ("q, Ctrl+C", "leave; the work continues"),
    ]
    own = [(action.key, action.about) for action in actions]
    lines = [*moving, ("", ""), *own]
    return [part for key, about in lines for part in ((f"{key:<13}", "bold"), (f"{about}\n", "plain"))]
