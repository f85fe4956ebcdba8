"""What only a person decides: their yes is asked for on a terminal, and an agent cannot give it for them."""

from __future__ import annotations

import os
import sys

import typer

from corral.errors import InvalidInput, NotPermitted

MARKS = (
    "CORRAL_TASK_ID",
    "CORRAL_SESSION_ID",
    "CORRAL_MERGE_ID",
    "CORRAL_VERIFICATION",
    "CLAUDECODE",
    "CLAUDE_CODE_SESSION_ID",
)
"""Variables that a worker, a verification or an agent session has. A process of the same user can take them out."""


def refuse_agents(act: str, command: str) -> None:
    """Insist that no worker and no agent session runs this command.

    Args:
        act: What is refused, as a gerund: "Approving a merge".
        command: What a person types instead.

    Raises:
        NotPermitted: The environment says that one does.
    """
    mark = next((name for name in MARKS if os.environ.get(name)), None)
    if mark is not None:
        raise NotPermitted(
            f"{act} is for a person to do.",
            cause=f"This command runs in a worker or an agent session ({mark} is set).",
            remedy=f"In a terminal of your own: {command}",
        )


def is_terminal() -> bool:
    """Whether there is a person to ask."""
    return sys.stdin.isatty()


def confirm(question: str, *, default: bool) -> bool:
    """Ask a person on the terminal.

    Raises:
        InvalidInput: There is no terminal to ask on.
    """
    if not is_terminal():
        raise InvalidInput(
            "Not a terminal: cannot prompt.", cause="Standard input is not a terminal.", remedy="Use --yes to agree."
        )
    return typer.confirm(question, default=default)
