"""Decisions of a person: ask on a terminal, and refuse agents."""

from __future__ import annotations

import os
import sys

from corral.core.errors import InvalidInput, NotPermitted
from corral.core.marks import of_a_session
from corral.faces.cli.parsing import Abort


def refuse_agents(act: str, command: str) -> None:
    """Refuse to run in a worker or an agent session.

    Args:
        act: The refused action, as a gerund: "Approving a merge".
        command: The command that a person types instead.

    Raises:
        NotPermitted: The environment marks a worker or an agent session.
    """
    if (mark := of_a_session(os.environ)) is not None:
        raise NotPermitted(
            f"{act} needs a person.",
            cause=f"This command runs in a worker or an agent session ({mark} is set).",
            remedy=f"Run it in a terminal of your own: {command}",
        )


def is_terminal() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty()


def confirm(question: str, *, default: bool) -> bool:
    """Ask a person on the terminal.

    Raises:
        InvalidInput: There is no terminal.
        Abort: It has ended.
    """
    if not is_terminal():
        raise InvalidInput(
            "Not a terminal: cannot prompt.", cause="Standard input is not a terminal.", remedy="Use --yes to agree."
        )
    while (answer := ask(f"{question} [{'Y/n' if default else 'y/N'}]: ").strip().lower()) not in _ANSWERS:
        print("Error: invalid input")
    return default if _ANSWERS[answer] is None else bool(_ANSWERS[answer])


_ANSWERS = {"y": True, "yes": True, "n": False, "no": False, "": None}


def ask(question: str) -> str:
    """Ask for a line on the terminal.

    Raises:
        Abort: The terminal has ended.
    """
    try:
        print(question[:-1], end="", flush=True)
        return input(question[-1:])  # passed as the prompt, or a backspace could delete the question
    except EOFError:
        raise Abort from None
