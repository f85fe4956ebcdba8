"""The settings in force: loaded at the start, again when a file changes; a broken new version is reported and not taken."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import reduce
from itertools import islice
from operator import getitem
from pathlib import Path
from typing import Any

from corral.config import account, trust
from corral.config.agents import MAX_FILES
from corral.config.custom.profiles import VARIABLE, chosen_profile, remember_profile
from corral.config.load import Loaded, config_files, load, read_file
from corral.config.model import Settings, all_settings
from corral.config.ownership import write_private
from corral.config.paths import Project
from corral.core.errors import ConfigInvalid, GitFailed
from corral.core.logs import logger
from corral.git import refs
from corral.git.process.command import Git

CONFIG_IN_TREE = ".corral/config.yaml"

log = logger("config")


class SettingsHolder:
    """Gives the settings; for landing those that the target branch itself has committed win.

    Args:
        project: Whose files are read.
        git: Reads the committed file.
        environ: ``CORRAL_`` variables of the daemon, which decide its profile until it ends.
    """

    def __init__(self, project: Project, git: Git, environ: Mapping[str, str]) -> None:
        self._project = project
        self._git = git
        self._environ = {**environ, VARIABLE: chosen_profile(project, environ)}
        self._guard = threading.Lock()
        self._landing: dict[str, tuple[str, Loaded]] = {}
        self._agents: tuple[list[tuple[str, int, int]], list[trust.Claim]] = ([], [])
        self.answers = trust.TrustStore(trust.trust_file(environ, account.home()))
        self.error: ConfigInvalid | None = None
        try:
            self._loaded = self._load(None)
        except ConfigInvalid as error:
            self._loaded = self._last_valid(error)
            self.error = error
            log.error("config_invalid", errors=error.details.get("errors"), in_force="the last valid settings")
        else:
            remember_settings(project, account.home(), self._loaded)
        remember_profile(project, self._loaded.profile)
        self.on_change: list[Callable[[Settings], None]] = []

    def _load(self, committed: bytes | None) -> Loaded:
        return load(self._project, environ=self._environ, home=account.home(), committed=committed)

    def _last_valid(self, error: ConfigInvalid) -> Loaded:
        """The settings that a daemon had last, from the files as they were then.

        Raises:
            ConfigInvalid: None had any, or they are valid no more.
        """
        files = last_files(self._project)
        if files is None:
            raise error
        try:
            return load(self._project, environ=self._environ, home=account.home(), instead=files)
        except ConfigInvalid:
            raise error from None

    @property
    def loaded(self) -> Loaded:
        """The settings with their sources and warnings."""
        return self._loaded

    def __call__(self) -> Settings:
        """The settings in force."""
        return self._loaded.settings

    def reload(self) -> None:
        """Read the files again. Invalid ones are logged and shown by ``corral status``; the old settings stay."""
        try:
            loaded = self._load(None)
        except ConfigInvalid as error:
            self.error = error
            log.error("config_invalid", errors=error.details.get("errors"))
            return
        remember_settings(self._project, account.home(), loaded)
        with self._guard:
            self._landing.clear()
            changes = changed_settings(self._loaded.settings, loaded.settings)
            self._loaded, self.error = loaded, None
        if changes:
            message = f"Settings changed: {', '.join(changes)}."
            log.info("config_changed", message=message, changes=changes, overrides=loaded.overrides)
            for tell in self.on_change:
                tell(loaded.settings)

    def untrusted(self, target: str | None = None) -> list[trust.Claim]:
        """The commands that files of the project would run and the user has not approved on this machine.

        Args:
            target: The full name of a branch whose committed file counts for landing; None: that of the working copy.

        Raises:
            ConfigInvalid: The committed file is broken.
        """
        loaded = self._loaded if target is None else self._committed(target)
        claims = [*trust.of_settings(loaded, self._project.root), *self._of_agents()]
        return self.answers.missing(self._project.common_dir, claims)

    def webhook(self) -> str | None:
        """The address that notifications are sent to; None: there is none, or the user has not approved it."""
        return self._approved(trust.WEBHOOK, self().notifications.webhook_url)

    def traces_url(self) -> str | None:
        """The address that traces are sent to; None: there is none, or the user has not approved it."""
        return self._approved(trust.TRACES, self().telemetry.traces_url)

    def _approved(self, key: str, url: str | None) -> str | None:
        if url is None or any(claim.key == key for claim in self.untrusted()):
            return None
        return url

    def for_target(self, target: str) -> Settings:
        """The settings for landing on a branch: what that branch has committed wins over the working copy.

        Args:
            target: Full ref name.

        Raises:
            ConfigInvalid: The committed file is broken; nothing lands until it is fixed.
            NotTrusted: The user has not approved what it would have executed.
        """
        loaded = self._committed(target)
        claims = trust.of_settings(loaded, self._project.root)
        missing = self.answers.missing(self._project.common_dir, claims)
        trust.refuse(missing, *trust.LANDING)
        return loaded.settings

    def verifies(self) -> bool:
        """Whether what lands on the target is verified, by the settings committed there; if broken, by the working copy's."""
        try:
            return bool(self._committed(self.target()).settings.landing.verify)
        except (ConfigInvalid, GitFailed):
            return bool(self().landing.verify)

    def _committed(self, target: str) -> Loaded:
        tip = refs.read(self._git, target) or ""
        with self._guard:
            cached = self._landing.get(target)
        if cached is not None and cached[0] == tip:
            return cached[1]
        committed = refs.show_file(self._git, tip, CONFIG_IN_TREE) if tip else None
        try:
            loaded = self._load(committed)
        except ConfigInvalid as error:
            self.error = error
            raise
        with self._guard:
            self._landing[target] = (tip, loaded)
        return loaded

    def _of_agents(self) -> list[trust.Claim]:
        """The claims of the agents' definitions, cached until a file changes."""
        if self._project.bare:
            return []
        files = sorted(islice((self._project.root / ".claude" / "agents").rglob("*.md"), MAX_FILES))
        signatures = []
        for file in files:
            with suppress(OSError):
                status = file.stat()
                signatures.append((str(file), status.st_mtime_ns, status.st_size))
        if signatures != self._agents[0]:
            self._agents = (signatures, trust.of_agents(self._project))
        return self._agents[1]

    def target(self) -> str:
        """The full ref name of the branch where work lands: ``landing.target``, else what the main checkout's HEAD names."""
        configured = self().landing.target
        if configured:
            return refs.branch_ref(configured)
        return refs.default_branch(self._git) or "refs/heads/main"


def changed_settings(before: Settings, after: Settings) -> dict[str, Any]:
    """The settings that differ, by their dotted name, with their new values."""
    old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
    values: dict[str, list[Any]] = {
        setting.key: [reduce(getitem, setting.key.split("."), settings) for settings in (old, new)]
        for setting in all_settings()
    }
    return {key: value for key, (former, value) in values.items() if value != former}


# -- The last valid settings, in ``.corral/run/settings.json``: what a daemon starts with while a file of them is
# broken.
#
# ``{files: {name: content}, enforcement}``; ``enforcement`` is for the last look (``client/last_look.py``), which
# reads no YAML.

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
