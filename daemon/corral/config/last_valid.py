"""The last valid settings, in ``.corral/run/settings.json``: what a daemon starts with while a file of them is broken.

``{files: {name: content}, enforcement}``; ``enforcement`` is for the last look (``client/last_look.py``), which reads no YAML.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from corral.config.load import Loaded, config_files, read_file
from corral.config.ownership import write_private
from corral.config.paths import Project

FILE = "settings.json"


def remember_settings(project: Project, home: Path, loaded: Loaded) -> None:
    """Store what the files hold now, from which these settings came."""
    with suppress(OSError):  # a full disk: those before are kept
        contents = {name: read_file(path) or b"" for name, path in config_files(project, home).items()}
        files = {name: content.decode("utf-8", "surrogateescape") for name, content in contents.items()}
        text = json.dumps({"files": files, "enforcement": loaded.settings.locks.enforcement})
        if _read(project) != text:
            write_private(project.run_dir / FILE, text)


def last_files(project: Project) -> dict[str, bytes] | None:
    """The files of the last valid settings by their names, empty where there was none; None: no daemon had any."""
    try:
        files = json.loads(_read(project))["files"]
        return {name: content.encode("utf-8", "surrogateescape") for name, content in files.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _read(project: Project) -> str:
    try:
        return (project.run_dir / FILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
