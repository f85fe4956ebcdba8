"""A project's places, and its configuration written and loaded in one go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from corral.config.load import Loaded, load
from corral.config.paths import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    root = tmp_path / "repo"
    (root / ".corral").mkdir(parents=True)
    return Project(root, root / ".git", root / ".corral", bare=False)


@pytest.fixture
def loading(project: Project, sealed: Path) -> Callable[..., Loaded]:
    def write_and_load(
        *,
        team: str | None = None,
        user: str | None = None,
        local: str | None = None,
        environ: Mapping[str, str] | None = None,
        committed: str | None = None,
    ) -> Loaded:
        files = {project.config_file: team, sealed / ".corral/config.yaml": user, project.home / "local.yaml": local}
        for file, text in files.items():
            file.parent.mkdir(exist_ok=True)
            file.unlink(missing_ok=True)
            if text is not None:
                file.write_text(text, encoding="utf-8")
        bytes_committed = committed.encode() if committed is not None else None
        return load(project, environ=environ or {}, home=sealed, committed=bytes_committed)

    return write_and_load
