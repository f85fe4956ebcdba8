"""The configuration file that ``corral init`` writes. Standard library only: the CLI uses it before any daemon runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

_LIKELY = (
    ("package.json", r'"test"\s*:\s*"(?!echo \\"Error: no test)', "npm test"),
    ("Cargo.toml", "", "cargo test"),
    ("go.mod", "", "go test ./..."),
    ("pom.xml", "", "mvn -q test"),
    ("gradlew", "", "./gradlew test"),
    ("pyproject.toml", r"\bpytest\b", "python3 -m pytest -q"),
    ("setup.cfg", r"\bpytest\b", "python3 -m pytest -q"),
    ("tox.ini", r"\bpytest\b", "python3 -m pytest -q"),
    ("pytest.ini", "", "python3 -m pytest -q"),
    ("Makefile", r"(?m)^test\s*:", "make test"),
    ("Makefile", r"(?m)^check\s*:", "make check"),
)
"""A file in the root of a repository, a pattern in it, and the test command of a project that has both; the first counts."""

LOCAL = ("corral.db*", "run", "logs", "local.yaml", "metadata.json", "verify", "worktrees")
"""Names in ``.corral/`` of files that belong to one clone on one machine."""

EXCLUDED = b"# Corral's own files, also while a branch without .corral/.gitignore is checked out:\n" + b"".join(
    f"{pattern}\n".encode()
    for pattern in (*(f"/.corral/{name}" for name in LOCAL), "/.corral/state/*", "!/.corral/state/roadmap.yaml")
)
"""What is added to git's ``info/exclude``; rules in ``.corral/.gitignore`` go before it."""


def likely_verification(root: Path) -> str | None:
    """The command that probably runs this project's tests: an example to show, never what is set unasked."""
    for name, pattern, command in _LIKELY:
        file = root / name
        if file.is_file() and re.search(pattern, file.read_text(encoding="utf-8", errors="replace")):
            return command
    return None


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
