"""The runners by name.

A new one is a module here with its tests, its name in :class:`corral.core.states.RunnerName`, its row in
:mod:`corral.core.runners`, and a line below. The table of tasks checks the name, so it changes the schema as well. A program that
takes a command line needs none of that: an agent names it (``runner`` and ``command`` of its definition).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from corral.config.model import Settings
from corral.core.states import RunnerName
from corral.runners.anthropic import AnthropicRunner
from corral.runners.claude import ClaudeRunner
from corral.runners.command import CommandRunner
from corral.runners.protocol import Runner


class Runners(Mapping[str, Runner]):
    """Runners, created at each access, so that each start follows the current settings.

    Args:
        environ: The daemon's environment.
        find_key: The key for the Messages API.
    """

    def __init__(
        self, settings: Callable[[], Settings], environ: Mapping[str, str], find_key: Callable[[], str | None]
    ) -> None:
        self._settings = settings
        self._make: dict[str, Callable[[Settings], Runner]] = {
            RunnerName.COMMAND: partial(_command, environ),
            RunnerName.CLAUDE: partial(_claude, environ),
            RunnerName.ANTHROPIC: partial(_anthropic, environ, find_key),
        }

    def __getitem__(self, name: str) -> Runner:
        return self._make[name](self._settings())

    def __iter__(self) -> Iterator[str]:
        return iter(self._make)

    def __len__(self) -> int:
        return len(self._make)


def _command(environ: Mapping[str, str], settings: Settings) -> Runner:
    return CommandRunner(environ, stop_grace_s=settings.supervisor.stop_grace_s)


def _claude(environ: Mapping[str, str], settings: Settings) -> Runner:
    command = settings.runners.claude.command
    return ClaudeRunner(environ, command=command, stop_grace_s=settings.supervisor.stop_grace_s)


def _anthropic(environ: Mapping[str, str], find_key: Callable[[], str | None], settings: Settings) -> Runner:
    most, grace_s = settings.runners.anthropic.max_tokens_per_answer, settings.supervisor.stop_grace_s
    return AnthropicRunner(environ, find_key, max_tokens_per_answer=most, stop_grace_s=grace_s)
