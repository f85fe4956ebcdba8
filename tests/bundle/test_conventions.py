"""Commands are alike: the same options everywhere, one meaning for each short option, one way to write names."""

from __future__ import annotations

import re

import pytest

from corral.faces.cli.app import app
from corral.faces.cli.help import pages, reached
from corral.faces.cli.parsing import Command, Group

SHARED = {"--output", "--quiet", "--verbose", "--debug", "--profile"}
WITHOUT_JSON = {"demo", "interactive", "mcp", "statusline"}
"""Commands for a terminal, or for another program's protocol."""
TWO_MEANINGS = {"-a": {"--agent", "--all"}, "-f": {"--file", "--follow"}}


def commands() -> dict[str, Command]:
    commands = {name: reached(app, name.split()) for name in pages()}
    return {
        name: command.command
        for name, command in commands.items()
        if command and not isinstance(command.command, Group)
    }


@pytest.mark.req("NFR-USE-005", "FR-CLI-004", "FR-CLI-007")
def test_every_command_has_the_shared_options_and_an_output_for_programs() -> None:
    for name, command in commands().items():
        flags = {flag for parameter in command.params for flag in parameter.opts}
        assert flags >= SHARED, name
        assert ("--json" in flags) != (name in WITHOUT_JSON), name


@pytest.mark.req("NFR-USE-005")
def test_options_are_written_alike_and_a_short_one_means_the_same_everywhere() -> None:
    short: dict[str, set[str]] = {}
    for name, command in commands().items():
        assert re.fullmatch(r"[a-z]+( [a-z-]+)*", name), name
        for parameter in command.params:
            if parameter.is_argument:
                assert parameter.metavar and parameter.metavar.isupper(), (name, parameter.name)
                continue
            long = {flag for flag in parameter.opts if flag.startswith("--")}
            assert all(re.fullmatch(r"--[a-z]+(-[a-z]+)*", flag) for flag in long), (name, long)
            for flag in {*parameter.opts} - long:
                short.setdefault(flag, set()).update(long)
    assert {flag: long for flag, long in short.items() if len(long) > 1} == TWO_MEANINGS
