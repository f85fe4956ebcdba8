"""The configuration file that ``corral init`` writes. Standard library only: the CLI uses it before any daemon runs."""

from __future__ import annotations

import json

_TEXT = """\
# How Corral works in this repository; commit this file. Missing settings have their defaults.
# All settings: docs/configuration.md. This machine only: .corral/local.yaml. Checked by `corral doctor`.

landing:
  # Finished work lands on this branch, and only there.
  target: {target}
  # Commands that must pass on the merged tree before anything lands. Once committed on the branch above, only the
  # committed list counts. Without a command work lands too, but every receipt says `unverified`.
  verify:{verify}

supervisor:
  # Workers at the same time.
  max_agents: 10

locks:
  # An edit of a file that another session holds in the same checkout: enforce = denied, warn = warning, off = nothing.
  enforcement: enforce
"""


def default_config(target: str, verify: list[str]) -> str:
    """Return the commented YAML for a new project.

    Args:
        target: The branch that work lands on.
        verify: Commands that must pass before it does.
    """
    commands = "".join(f"\n    - {_quoted(command)}" for command in verify)
    return _TEXT.format(target=_quoted(target), verify=commands or " []")


def _quoted(text: str) -> str:
    """A YAML scalar in double quotes: JSON, plus the characters that YAML wants escaped."""
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in json.dumps(text, ensure_ascii=False))
