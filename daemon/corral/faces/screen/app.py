"""The program of ``corral interactive``: the terminal, the threads that talk to the daemon, and the one screen."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.theme import Theme

from corral.config.paths import Project
from corral.faces.screen.requests import Requests
from corral.faces.screen.screen import MainScreen
from corral.faces.screen.text import Glyphs, Row, has_utf8

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
