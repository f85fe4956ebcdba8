"""The screen of ``corral interactive`` without a terminal: its keys, and what it shows as text."""

from __future__ import annotations

import asyncio
import html
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

from textual.app import App
from textual.pilot import Pilot

from corral.config.paths import find_project
from corral.faces.screen.screen import Interactive
from tests.support.coordinated import DEADLINE_S, Coordinated

_TEXT = re.compile(
    r'<text class="[^"]*" x="([\d.]+)" y="[\d.]+" textLength="[\d.]+" clip-path="[^"]*-line-(\d+)[^"]*">(.*?)</text>'
)
_CELL = 12.2
"""Width of a cell in Textual's pictures."""


def shown(app: App[Any]) -> list[str]:
    """The lines of the screen."""
    picture = app.export_screenshot(simplify=True)
    lines = [""] * app.size.height
    for x, line, text in _TEXT.findall(picture):
        at = round(float(x) / _CELL)
        lines[int(line)] = lines[int(line)].ljust(at) + html.unescape(text).replace("\xa0", " ")
    return [line.rstrip() for line in lines]


class Player:
    """Somebody in front of the screen."""

    def __init__(self, app: App[Any], pilot: Pilot[Any]) -> None:
        self.app, self._pilot = app, pilot

    async def press(self, *keys: str) -> None:
        """Press keys."""
        await self._pilot.press(*keys)

    async def sees(self, *wanted: str) -> list[str]:
        """Wait until the screen has all these texts; its lines."""
        return await self.until(lambda lines: all(any(text in line for line in lines) for text in wanted), wanted)

    async def misses(self, *unwanted: str) -> list[str]:
        """Wait until the screen has none of these texts."""
        return await self.until(lambda lines: not any(text in line for line in lines for text in unwanted), unwanted)

    async def until(self, condition: Callable[[list[str]], Any], about: Any = "") -> list[str]:
        """Wait until the lines of the screen are as wanted."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition(lines := shown(self.app)):
            assert time.monotonic() < deadline, "\n".join([f"{about} did not come true:", *lines])
            await self._pilot.pause(0.1)  # a look draws the whole screen
        return lines


def play(
    house: Coordinated, script: Callable[[Player], Awaitable[None]], size: tuple[int, int] = (80, 24), **how: Any
) -> None:
    """Open the screen of a repository, and have somebody use it."""
    app = Interactive(find_project(house.root), house.ask("GET", "/status"), **how)
    play_app(app, script, size)


def play_app(app: App[Any], script: Callable[[Player], Awaitable[None]], size: tuple[int, int] = (80, 24)) -> None:
    """Have somebody use a program of Textual's."""

    async def use() -> None:
        async with app.run_test(size=size) as pilot:
            await script(Player(app, pilot))

    asyncio.run(use())
