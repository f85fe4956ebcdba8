"""The options that `corral task submit` and `corral loop start` share: the work that is submitted."""

from __future__ import annotations

import io
import sys
from typing import Annotated

from corral.faces.cli.parsing import Option
from corral.faces.cli.terminal.options import option

Command = Annotated[str | None, option("--command", "Shell command to run in the task's worktree.", "CMD", short="-c")]
Prompt = Annotated[str | None, option("--prompt", "Prompt for an agent; - reads stdin.", "TEXT", short="-p")]
Agent = Annotated[
    str | None,
    option("--agent", "Agent to use: a team member or an agent definition.", "NAME", short="-a", of="agent"),
]
Input = Annotated[
    str | None,
    option("--input", "Input for its agent, or for its template: a JSON object, or a file with one.", "JSON|FILE"),
]
Template = Annotated[
    str | None, option("--template", "Template in .corral/templates that says what is done.", "NAME", of="template")
]
Values = Annotated[
    list[str] | None, option("--set", "Value of one of its template's parameters; repeatable.", "NAME=VALUE")
]
Priority = Annotated[int | None, Option("--priority", min=0, max=10, help="10 first (default: the template's, or 5).")]


def read_prompt(prompt: str | None) -> str | None:
    """The prompt as it was given; ``-`` is the text on the standard input."""
    if prompt != "-":
        return prompt
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    return sys.stdin.read()
