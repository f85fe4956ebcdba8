"""Templates of the pages, and what every page has in common. All text is escaped, and hidden characters are made visible."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from corral.core.instants import in_words, parse, when_landed
from corral.core.tones import tone_of
from corral.core.visible import visible

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = Path(__file__).parent
_CLASSES = {"wait": "asks", "dim": "plain"}
"""The classes of tones that have another name in the style sheet."""


@cache
def environment() -> Environment:
    """The templates; made once."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # most daemons show no page

    templates = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(
        lasted=lasted,
        ago=ago,
        tone=tone,
        number=number,
        first=first_line,
        sha=lambda text: text[:12],
        when_landed=when_landed,
    )
    templates.globals.update(since=since)
    return templates


def render(template: str, **values: Any) -> str:
    """A page as text."""
    return environment().get_template(template).render(**values)


def shown(value: Any) -> Any:
    """A value as it is written into a page: nothing for None, and no character that would hide or reorder others."""
    if value is None:
        return ""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def lasted(seconds: float | None) -> str:
    """A duration in its largest unit: ``12 min``."""
    return in_words(seconds) if seconds is not None else ""


def since(now: datetime, instant: str) -> float:
    """Seconds since an instant."""
    return (now - parse(instant)).total_seconds()


def ago(instant: str | None, now: datetime) -> Markup:
    """How long ago an instant was, with the instant itself for who wants to know."""
    if instant is None:
        return Markup("")
    return Markup('<time datetime="{0}" title="{0}">{1}</time>').format(instant, lasted(since(now, instant)))


def tone(state: str) -> str:
    """The class of a state: its colour stands beside its word, never alone."""
    name = tone_of(state)
    return _CLASSES.get(name, name)


def number(value: float | None) -> str:
    """A number with separators; large ones shortened: ``1.2 M``."""
    if value is None:
        return ""
    if value >= 1_000_000:
        return f"{value / 1_000_000:.1f} M"
    if value >= 10_000:
        return f"{value / 1000:.0f} k"
    return f"{value:,.10g}"


def first_line(text: str | None) -> str:
    """The first line of a text."""
    return (text or "").split("\n", 1)[0]


# -- A request for a page, after it was let in


@dataclass(frozen=True)
class Visit:
    """A request of a browser session.

    Attributes:
        query: The fields of the address, the last of each name.
        form: Those of the form, if one was sent; its token was compared.
        secret: The session's.
        token: That every form of this session carries.
    """

    method: str
    path: str
    query: dict[str, str]
    form: dict[str, str]
    headers: dict[bytes, str]
    secret: str
    token: str


# -- The lines of a patch, and what each of them is

_HEADS = (
    "diff --git ",
    "index ",
    "--- ",
    "+++ ",
    "new file ",
    "deleted file ",
    "similarity ",
    "rename ",
    "old mode ",
    "new mode ",
)


def marked(patch: str) -> Iterator[tuple[str, str]]:
    """The lines of a patch, each with what it is: ``file``, ``hunk``, ``plus``, ``minus`` or ``same``."""
    in_hunk = False
    for line in patch.rstrip("\n").split("\n") if patch else ():
        if line.startswith("diff --git "):
            in_hunk = False
        if line.startswith("@@"):
            in_hunk = True
            yield "hunk", line
        elif not in_hunk and line.startswith(_HEADS):
            yield "file", line
        else:
            yield {"+": "plus", "-": "minus"}.get(line[:1], "same"), line
