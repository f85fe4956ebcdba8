"""Trust: the commands in a project's files, and the user's approvals of them on this machine.

A clone brings settings and agent definitions that name commands. None of them runs before the user has approved exactly
that content once: a digest of the setting and its value. Approvals are in the user's state folder, by the path of the
git common directory, where no clone can bring them. Defaults, the user's own configuration and variables need no
approval.

This protects against a repository's content. It is no boundary between processes of one user: each can write that file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from corral.config.account import base_folder
from corral.config.agents import PLUGIN, PROJECT, AgentDefinition, DefinitionFile, find_definitions
from corral.config.custom.aliases import ALIASES, Alias, must_be_approved
from corral.config.load import COMMITTED_FILE, LOCAL_FILE, TEAM_FILE, Loaded, parse_file
from corral.config.model import Settings
from corral.config.paths import Project
from corral.core import files
from corral.core.errors import NotTrusted

SETUP = "worktrees.setup"
CLAUDE_COMMAND = "runners.claude.command"
VERIFY = "landing.verify"
CHECK = "landing.check"
AFFECTED = "landing.affected"
APPROVE_PATHS = "landing.approve_paths"
"""Not executed, but it decides what may land without approval."""
WEBHOOK = "notifications.webhook_url"
"""Not executed, but it receives notifications about the project."""
TRACES = "telemetry.otlp_endpoint"
"""Not executed, but it receives the traces of the project's tasks."""
REMOTE = "landing.remote"
"""Not executed, but it receives what lands."""
APPROVE = "landing.approve"
"""Not executed: in a project's file it counts only with an approval, unless it asks for one of every merge."""
_STRICTEST = "always"
AGENTS = "agents."
"""Prefix of an agent's name: its own program, its hooks and its MCP servers."""

LANDING = (VERIFY, CHECK, AFFECTED, APPROVE_PATHS, APPROVE, REMOTE, SETUP)
"""Nothing lands before all of these are approved."""
_SETTINGS = (SETUP, CLAUDE_COMMAND, VERIFY, CHECK, AFFECTED, APPROVE_PATHS, APPROVE, REMOTE, WEBHOOK, TRACES)
_FROM_PROJECT = (TEAM_FILE, LOCAL_FILE, COMMITTED_FILE)
_OF_AGENT = {"command", "runner_env", "hooks", "mcpServers"}


@dataclass(frozen=True)
class Claim:
    """One command that a file of the project names.

    Attributes:
        key: The setting, or ``agents.NAME``.
        value: Its value (JSON-serialisable).
        source: The file.
    """

    key: str
    value: Any
    source: str

    @property
    def digest(self) -> str:
        """The key of an approval: the same for the same key and value, whatever the file."""
        text = json.dumps([self.key, self.value], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def of_settings(loaded: Loaded, root: Path) -> list[Claim]:
    """The commands in the settings that come from the project's files.

    Args:
        root: The project's root; a program below it counts by its relative path, so that a repository may be moved.
    """
    claims, usual = [], _usual()
    for key in _SETTINGS:
        value = _value(loaded.settings, key)
        harmless = _STRICTEST if key == APPROVE else _value(usual, key)
        if loaded.sources[key] in _FROM_PROJECT and value != harmless:
            if key == CLAUDE_COMMAND and value.startswith(f"{root}/"):
                value = f".{value.removeprefix(str(root))}"
            claims.append(Claim(key, value, loaded.sources[key]))
    return claims


def of_aliases(aliases: Iterable[Alias]) -> list[Claim]:
    """The aliases in the project's files that execute commands of their own."""
    return [
        Claim(f"{ALIASES}.{alias.name}", alias.command, alias.source)
        for alias in aliases
        if alias.source in _FROM_PROJECT and must_be_approved(alias)
    ]


def of_agents(project: Project) -> list[Claim]:
    """The commands in the project's own agent definitions, except copies of the plugin's."""
    definitions = find_definitions(project)
    shipped = {claim.digest for item in definitions if item.source == PLUGIN for claim in _of_agent(item, project)}
    own = (claim for item in definitions if item.source == PROJECT for claim in _of_agent(item, project))
    return [claim for claim in own if claim.digest not in shipped]


def _of_agent(item: DefinitionFile, project: Project) -> Iterator[Claim]:
    if item.definition is not None:
        yield from of_definition(item.definition, os.path.relpath(item.file, project.root))


def of_definition(definition: AgentDefinition, source: str) -> Iterator[Claim]:
    """The commands in one agent definition.

    Args:
        source: The file, or another description of its origin.
    """
    values = definition.model_dump(mode="json", include=_OF_AGENT)
    values = {name: value for name, value in values.items() if value}
    if values:
        yield Claim(f"{AGENTS}{definition.name}", values, source)


def of_file(project: Project, data: bytes, home: Path) -> list[Claim]:
    """The commands in a version of ``.corral/config.yaml``.

    Raises:
        ConfigInvalid: It is not valid.
    """
    return of_settings(parse_file(project, data, home), project.root)


def refuse(untrusted: Iterable[Claim], *keys: str) -> None:
    """Require that all these keys are approved.

    Raises:
        NotTrusted: One is not; names the files.
    """
    refused = [claim for claim in untrusted if claim.key in keys]
    if refused:
        raise not_trusted(refused)


def not_trusted(claims: Iterable[Claim]) -> NotTrusted:
    """The error that names the unapproved commands."""
    claims = list(claims)
    files = " and ".join(sorted({claim.source for claim in claims}))
    return NotTrusted(
        f"The commands in {files} were not approved on this machine: `corral trust`.",
        cause=origin_of(claims),
        details={"untrusted": [vars(claim) for claim in claims]},
    )


def origin_of(claims: Iterable[Claim]) -> str:
    """Where unapproved commands can have come from, in a sentence for each origin: git ignores the local file."""
    local: set[str] = set()
    shared: set[str] = set()
    for claim in claims:
        (local if claim.source == LOCAL_FILE else shared).add(claim.key)
    origins = (
        (shared, "They came with the repository, or were changed after approval"),
        (local, f"{LOCAL_FILE} was changed since you last approved what it runs"),
    )
    return " ".join(f"{origin} ({', '.join(sorted(keys)[:10])})." for keys, origin in origins if keys)


def trust_file(environ: Mapping[str, str], home: Path) -> Path:
    """The file of the approvals: ``corral/trust.json`` in the user's state folder."""
    return base_folder("STATE", environ, home) / "corral" / "trust.json"


class TrustStore:
    """The user's approvals; shared by the command line and all daemons of the user.

    Args:
        file: See :func:`trust_file`. A missing or damaged file, or another user's, holds no approvals.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read: tuple[tuple[int, int, int] | None, dict[str, Any]] = (None, {})

    def missing(self, common_dir: Path, claims: Iterable[Claim]) -> list[Claim]:
        """The claims that the user has not approved for this project."""
        approved = self._projects().get(str(common_dir), {})
        return [claim for claim in claims if claim.digest not in approved]

    def approve(self, common_dir: Path, claims: Iterable[Claim]) -> None:
        """Store the user's approval; durable when it returns.

        Raises:
            NotTrusted: The state folder cannot be written.
        """
        with self._changing() as projects:
            approved = projects.setdefault(str(common_dir), {})
            approved.update({claim.digest: claim.key for claim in claims})

    def revoke(self, common_dir: Path) -> bool:
        """Delete all approvals of a project; returns whether there were any.

        Raises:
            NotTrusted: The state folder cannot be written.
        """
        with self._changing() as projects:
            return projects.pop(str(common_dir), None) is not None

    def rebind(self, old_common_dir: Path, new_common_dir: Path) -> None:
        """Move a repository's approvals to its new path.

        Raises:
            NotTrusted: The state folder cannot be written.
        """
        with self._changing() as projects:
            moved = projects.pop(str(old_common_dir), None)
            if moved is not None:
                projects.setdefault(str(new_common_dir), {}).update(moved)

    def _projects(self) -> dict[str, Any]:
        """By common directory: digest to key. Read again only when the file has changed."""
        try:
            with self._file.open("rb") as stream:
                status = os.fstat(stream.fileno())
                if status.st_uid != os.geteuid():
                    return {}
                signature = (status.st_ino, status.st_mtime_ns, status.st_size)
                if signature != self._read[0]:
                    self._read = (signature, _projects_in(stream.read()))
        except OSError:
            return {}
        return self._read[1]

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        import portalocker  # only writers need it

        folder = self._file.parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with (folder / "trust.lock").open("w") as lock:
                portalocker.lock(lock, portalocker.LockFlags.EXCLUSIVE)
                projects = json.loads(json.dumps(self._projects()))
                yield projects
                text = json.dumps({"version": 1, "projects": projects}, indent=2, sort_keys=True) + "\n"
                files.replace(self._file, text.encode(), mode=0o600, durable=True)
        except (OSError, portalocker.LockException) as error:
            raise NotTrusted(
                f"Cannot store your approvals in {self._file}.",
                cause=str(getattr(error, "strerror", None) or error),
                remedy=f"Make {folder} writable, or free space, and try again.",
            ) from error


def _projects_in(data: bytes) -> dict[str, Any]:
    try:
        projects = json.loads(data)["projects"]
        return {path: dict(answers) for path, answers in projects.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}  # nothing in it counts: the user is asked again


@cache
def _usual() -> Settings:
    """The settings of a project that changes none of them: to make them takes longer than to compare all commands."""
    return Settings()


def _value(settings: Settings, key: str) -> Any:
    value: Any = settings
    for name in key.split("."):
        value = getattr(value, name)
    return value
