"""The settings in force: loaded at the start, again when a file changes; a broken new version is reported and not taken."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from corral.config.load import Loaded, load
from corral.config.model import Settings
from corral.config.paths import Project
from corral.errors import ConfigInvalid
from corral.git import refs
from corral.git.command import Git
from corral.observe.logs import logger

CONFIG_IN_TREE = ".corral/config.yaml"

log = logger("config")


class SettingsHolder:
    """Gives the settings; for landing those that the target branch itself has committed win.

    Args:
        project: Whose files are read.
        git: Reads the committed file.
        environ: ``CORRAL_`` variables of the daemon.
    """

    def __init__(self, project: Project, git: Git, environ: Mapping[str, str]) -> None:
        self._project = project
        self._git = git
        self._environ = dict(environ)
        self._guard = threading.Lock()
        self._landing: dict[str, tuple[str, Settings]] = {}
        self._loaded = self._load(None)
        self.error: ConfigInvalid | None = None
        self.on_change: list[Callable[[Settings], None]] = []

    def _load(self, committed: bytes | None) -> Loaded:
        return load(self._project, environ=self._environ, home=Path.home(), committed=committed)

    @property
    def loaded(self) -> Loaded:
        """The settings with their sources and warnings."""
        return self._loaded

    def __call__(self) -> Settings:
        """The settings in force."""
        return self._loaded.settings

    def reload(self) -> None:
        """Read the files again. What is invalid is logged and shown by ``corral status``; the old settings stay."""
        try:
            loaded = self._load(None)
        except ConfigInvalid as error:
            self.error = error
            log.error("config_invalid", errors=error.details.get("errors"))
            return
        with self._guard:
            self._landing.clear()
            changed = loaded.settings != self._loaded.settings
            self._loaded, self.error = loaded, None
        if changed:
            log.info("config_changed", overrides=loaded.overrides)
            for tell in self.on_change:
                tell(loaded.settings)

    def for_target(self, target: str) -> Settings:
        """The settings for landing on a branch: what that branch has committed wins over the working copy.

        Args:
            target: Full ref name.

        Raises:
            ConfigInvalid: The committed file is broken; nothing lands until it is mended.
        """
        tip = refs.read(self._git, target) or ""
        with self._guard:
            cached = self._landing.get(target)
        if cached is not None and cached[0] == tip:
            return cached[1]
        committed = refs.show_file(self._git, tip, CONFIG_IN_TREE) if tip else None
        try:
            settings = self._load(committed).settings
        except ConfigInvalid as error:
            self.error = error
            raise
        with self._guard:
            self._landing[target] = (tip, settings)
        return settings

    def target(self) -> str:
        """The full ref name of the branch where work lands: ``landing.target``, else what the main checkout's HEAD names."""
        named = self().landing.target
        if named:
            return refs.branch_ref(named)
        return refs.default_branch(self._git) or "refs/heads/main"
