"""``corral --version``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from corral import __version__
from corral.core.errors import CorralError
from corral.core.visible import one_line
from corral.faces.cli.terminal.context import project
from corral.faces.cli.terminal.output import echo


def show(*, as_json: bool = False) -> int:
    """Print Corral's version, its Python and its folder, and in a project the template that it was prepared from."""
    python, folder = ".".join(str(part) for part in sys.version_info[:3]), str(Path(__file__).parents[3])
    template = _template()
    if as_json:
        print(json.dumps({"version": __version__, "python": python, "path": folder, "template": template}, indent=2))
        return 0
    echo(f"corral {__version__} (Python {python}, {folder})")
    if template is not None:
        version = template["template_version"] or template["version"] or "unknown"
        echo(one_line(f"template {template['name']} {version}: {template['status']}"))
    return 0


def _template() -> dict[str, Any] | None:
    """The template of this project, and whether it suits this version; None outside of a project."""
    try:
        file = project().home / "metadata.json"
        metadata = json.loads(file.read_text(encoding="utf-8"))
        name, version = str(metadata["template"]), str(metadata["version"])
    except CorralError:
        return None
    except (OSError, ValueError, LookupError, TypeError):
        return {
            "name": "unknown",
            "version": None,
            "template_version": None,
            "compatible": False,
            "status": "unreadable: run `corral init` again",
        }
    here, there = _numbers(__version__), _numbers(version)
    if there > here:
        status = f"newer than this Corral {__version__}: install that version"
    elif _line(here) != _line(there):
        status = "older than this Corral: run `corral init` again"
    else:
        status = "compatible"
    release = metadata.get("template_version")
    release = release if isinstance(release, str) else None
    about = {"name": name, "version": version, "template_version": release}
    return {**about, "compatible": status == "compatible", "status": status}


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version, for comparisons."""
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))


def _line(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """The part of a version that changes where compatibility ends: the first number that is not 0."""
    return numbers[:1] if numbers[:1] != (0,) else numbers[:2]
