"""The project that this daemon serves, under the names that Agent Mail's clients use."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from corral.config.paths import find_checkout
from corral.coordination.services import Services
from corral.core.errors import NotFound
from corral.core.instants import iso

PROJECT_ID = 1
"""Agent Mail numbers its projects; a daemon has one."""


class ProjectNotFound(NotFound):
    """The key names another project than the one that this daemon serves."""

    name = "project_not_found"


def check_project(services: Services, key: str) -> None:
    """Accept a key that names this project: the path of any of its checkouts, its slug, or nothing.

    Raises:
        ProjectNotFound: It is not this one.
    """
    root = Path(services.project.root)
    if key in ("", slug(services), root.name, str(root)):
        return
    path = Path(key)
    checkout = find_checkout(path) if path.is_absolute() and "\0" not in key and path.is_dir() else None
    if checkout is None or checkout.common_dir != services.project.common_dir:
        raise ProjectNotFound(
            f"{key[:200]!r} is not this project.",
            cause=f"This daemon serves {root}, all its worktrees, and nothing else.",
            remedy=f"Say {slug(services)!r}, or the path of one of its worktrees.",
            details={"human_key": str(root), "slug": slug(services)},
        )


def slug(services: Services) -> str:
    """The project's root as Agent Mail abbreviates it."""
    return re.sub(r"[^a-z0-9]+", "-", str(services.project.root).lower()).strip("-")


def environment(services: Services) -> dict[str, Any]:
    """Where the server is and where it keeps its data, as Agent Mail tells it; neither the token nor any other secret."""
    record = json.loads(services.project.daemon_json.read_text(encoding="utf-8"))
    return {
        "environment": "local",
        "database_url": f"sqlite:///{services.project.database}",
        "http": {"host": "127.0.0.1", "port": record["port"], "path": "/api/"},
    }


def project_of(services: Services) -> dict[str, Any]:
    """The project as Agent Mail describes one."""
    marker = services.project.home / ".gitignore"  # as old as the coordination of this repository
    began = datetime.fromtimestamp(marker.stat().st_mtime, timezone.utc) if marker.exists() else services.started_at
    root = str(services.project.root)
    return {"id": PROJECT_ID, "slug": slug(services), "human_key": root, "created_at": iso(began)}
