"""The configuration file that ``corral init`` writes. Standard library only: the CLI uses it before any daemon runs."""

from __future__ import annotations

import json
from pathlib import Path


def default_config(target: str, verify: list[str]) -> str:
    """Return the commented YAML for a new project.

    Args:
        target: The branch that work lands on.
        verify: Commands that must pass before it does.
    """
    commands = "".join(f"\n    - {_quoted(command)}" for command in verify)
    return _template("initial.yaml").format(target=_quoted(target), verify=commands or " []")


def default_ignore() -> str:
    """Return the ``.corral/.gitignore`` of a new project."""
    return _template("initial.gitignore")


def _template(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _quoted(text: str) -> str:
    """A YAML scalar in double quotes: JSON, plus the characters that YAML wants escaped."""
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in json.dumps(text, ensure_ascii=False))
