"""Compare Corral's installed files with what was shipped: package, plugin, hooks, copies and launcher."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from corral.config import account
from corral.config.paths import Project, bundle_dir
from corral.faces.cli.project import claude_settings, project_copies

BUNDLED = (".claude-plugin", ".claude/agents", ".mcp.json", "bin", "hooks", "skills")
"""The files of the bundle that Claude Code reads."""
_LAUNCHER = re.compile(r'#!/bin/sh\nexec (.+) -m corral "\$@"\n')


@dataclass(frozen=True)
class Drift:
    """One installed file that was changed.

    Attributes:
        what: Its path, and the difference.
        remedy: What to type.
    """

    what: str
    remedy: str


def of_package() -> Iterator[Drift]:
    """Compare an installed package with the digests in its RECORD; a source checkout has none."""
    try:
        files = metadata.distribution("corral").files or []
    except metadata.PackageNotFoundError:
        return
    for file in files:
        if file.hash is None or file.hash.mode != "sha256" or file.parts[:1] != ("corral",):
            continue
        path = Path(str(file.locate()))
        if _digest(path, file.hash.mode) != file.hash.value:
            yield _drift(path, "Install Corral again; look at the file first if you did not change it.")


def of_plugin() -> Iterator[Drift]:
    """Compare the copies of the plugin that Claude Code made for this user with the bundle."""
    bundle = bundle_dir()
    shipped = {path.relative_to(bundle): path for path in _files(bundle)}
    remedy = (
        "Run ./install.sh again, or: claude plugin uninstall corral@corral, then claude plugin install corral@corral"
    )
    for copy in _plugin_copies():
        for name, path in shipped.items():
            if _digest(copy / name) != _digest(path):
                yield _drift(copy / name, remedy)
        for path in _files(copy):
            if path.relative_to(copy) not in shipped:
                yield Drift(f"{path} does not come from Corral", remedy)


def of_project(project: Project, recorded: Mapping[str, str]) -> Iterator[Drift]:
    """Check what ``corral init`` wrote into a project, and the launcher that workers start.

    Args:
        recorded: By path, the digest of what an earlier ``corral init`` copied.
    """
    settings = project.root / ".claude" / "settings.json"
    for event in claude_settings.changed_hooks(settings):
        remedy = "Remove the hook from the file, then run `corral init`: it writes the hook again."
        yield Drift(f"{settings}: the {event} hook was changed", remedy)
    for name, source in project_copies.COPIES.items():
        if name in recorded and _digest(project.root / name) != _digest(bundle_dir() / source):
            yield _drift(project.root / name, "Remove the file, then run `corral init`: it writes the file again.")
    launcher = project.run_dir / "bin" / "corral"
    if not _is_own_launcher(launcher):
        yield _drift(launcher, "corral daemon restart")


def _is_own_launcher(file: Path) -> bool:
    try:
        match = _LAUNCHER.fullmatch(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return not file.exists()  # the daemon creates it when it starts
    return match is not None and match[1] == shlex.quote(sys.executable)


def _plugin_copies() -> Iterator[Path]:
    """The folders of the plugin's copies, as Claude Code lists them."""
    file = account.home() / ".claude" / "plugins" / "installed_plugins.json"
    try:
        plugins: Any = json.loads(file.read_text(encoding="utf-8"))["plugins"]
        entries = [
            entry
            for name, entry_or_list in plugins.items()
            if name.startswith("corral@")
            for entry in _listed(entry_or_list)
        ]
        places = {Path(entry["installPath"]) for entry in entries}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return
    yield from sorted(place for place in places if place.is_dir() and place.resolve() != bundle_dir().resolve())


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _files(root: Path) -> Iterator[Path]:
    for name in BUNDLED:
        paths = [root / name] if (root / name).is_file() else sorted((root / name).rglob("*"))
        yield from (path for path in paths if path.is_file() and "__pycache__" not in path.parts)


def _drift(path: Path, remedy: str) -> Drift:
    return Drift(f"{path} {'differs from what Corral installed' if path.exists() else 'is missing'}", remedy)


def _digest(path: Path, mode: str = "sha256") -> str | None:
    """The digest as RECORD writes it; None if the file cannot be read."""
    try:
        digest = hashlib.new(mode, path.read_bytes()).digest()
    except OSError:
        return None
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
