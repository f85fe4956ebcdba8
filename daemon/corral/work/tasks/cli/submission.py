"""The options that `corral task submit` and `corral loop start` share: the work that is submitted."""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

from corral.faces.cli.asking import Field, Request
from corral.faces.cli.terminal.options import author, option
from corral.work.templates.cli.parameters import with_parameters

COMMAND = Field("command", "--command", "-c", "CMD")
PROMPT = Field("prompt", "--prompt", "-p", "TEXT", also="; - reads stdin")
AGENT = Field("agent", "--agent", "-a", "NAME", of="agent")
INPUT = Field("input_data", "--input", "JSON|FILE", or_file=True)
TEMPLATE = Field("template", "--template", "NAME", of="template")
PRIORITY = Field("priority", "--priority", show_default=False)
Values = Annotated[
    list[str] | None, option("--set", "Value of one of its template's parameters; repeatable.", "NAME=VALUE")
]


def make_whole(request: Request, values: list[str] | None) -> None:
    """Read the prompt, of ``-`` on the standard input; join the input and the values of ``--set``; name the author."""
    if request["prompt"] == "-":
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")
        request["prompt"] = sys.stdin.read()
    request["input_data"] = with_parameters(request["input_data"], values or (), request["template"])
    request |= author()


def key_of_one() -> str:
    """A key of its own for one submission or claim."""
    return os.urandom(16).hex()  # the module uuid asks for the platform, which takes as long as a list of tasks
