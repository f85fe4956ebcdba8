"""The task templates of a project."""

from __future__ import annotations

from typing import Any

from corral.app.runtime.services import Services
from corral.config.templates import listing as files


def listing(services: Services) -> list[dict[str, Any]]:
    """A row for each."""
    return files.rows(services.project.home / "templates")


def shown(services: Services, name: str) -> dict[str, Any]:
    """One in full.

    Raises:
        NotFound: There is no such template.
        ConfigInvalid: It has errors.
    """
    return files.shown(services.project.home / "templates", name)
