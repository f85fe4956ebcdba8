"""Pictures of a terminal for the documents: what a window of tmux showed in a test, with its colours, drawn by a browser.

``PICTURES=FOLDER .venv/bin/pytest tests/e2e/test_mod_screen.py`` keeps what the windows showed, and
``.venv/bin/python -m tests.support.pictures FOLDER`` draws it into ``docs/images``.
"""

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from tests.support.tmux import Window

FOLDER = os.environ.get("PICTURES")
"""Where screens are kept; None: they are not. Read now: a sealed test has no variables of the one who runs it."""
FOLDER_OF_TEST = re.compile(r"/\S+/repo0")
IMAGES = Path(__file__).parents[2] / "docs" / "images"
DRAWN = str.maketrans({"⎿": "└", "⏵": "▶", "✻": "*"})
"""Characters that few fonts have, and what is drawn in their place."""


def take(window: Window, name: str) -> None:
    """Keep what a window shows, if pictures are wanted."""
    if FOLDER is not None:
        Path(FOLDER, f"{name}.screen").write_text(window.screen("-e"))


def svg(screen: str, title: str) -> str:
    """Text with escape sequences for colours as a terminal shows it."""
    screen = FOLDER_OF_TEST.sub(lambda match: "~/shop".ljust(len(match[0])), screen.translate(DRAWN))
    lines = [Text.from_ansi(line) for line in screen.rstrip("\n").splitlines()]
    width = max(line.cell_len for line in lines)
    console = Console(record=True, width=width, file=io.StringIO(), color_system="truecolor", force_terminal=True)
    for line in lines:
        console.print(line, no_wrap=True, crop=True)
    return console.export_svg(title=title)


def main(folder: str) -> None:
    """Draw every screen that was kept in a folder."""
    from playwright.sync_api import sync_playwright

    from tests.integration.test_web_browser import launched

    with sync_playwright() as play:
        browser: Any = launched(play)
        page = browser.new_page(viewport={"width": 1900, "height": 1200})
        for kept in sorted(Path(folder).glob("*.screen")):
            page.set_content(f'<body style="margin: 0">{svg(kept.read_text(), "claude")}</body>')
            page.locator("svg").first.screenshot(path=str(IMAGES / f"{kept.stem}.png"))
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
