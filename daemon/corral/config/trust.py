"""What files of a project would have executed, and which of it the user has seen and approved on this machine.

A clone brings settings and agent definitions that name commands. Nothing of them runs before the user has said yes, once, to
exactly that content: a digest of the setting and its value. The answers stand in the user's state folder, by the path of the git
common directory, where no clone brings them along. Defaults, the user's own configuration and variables need no answer.

This keeps out what a repository brings. It is no boundary between processes of one user: each of them can write that file.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corral.config.agents import PLUGIN, PROJECT, Found, find_definitions
from corral.config.load import COMMITTED_FILE, LOCAL_FILE, TEAM_FILE, Loaded, parse_file
from corral.config.model import Settings
from corral.config.paths import Project
from corral.errors import NotTrusted

SETUP = "worktrees.setup"
CLAUDE_COMMAND = "runners.claude.command"
VERIFY = "landing.verify"
APPROVE_PATHS = "landing.approve_paths"
"""Not executed, but it decides what may land unseen."""
AGENTS = "agents."
"""Before an agent's name: its own program, its hooks and its MCP servers."""

_SETTINGS = (SETUP, CLAUDE_COMMAND, VERIFY, APPROVE_PATHS)
_FROM_PROJECT = (TEAM_FILE, LOCAL_FILE, COMMITTED_FILE)
_OF_AGENT = {"command", "runner_env", "hooks", "mcpServers"}


@dataclass(frozen=True)
class Claim:
    """One thing that a file of the project would have executed.

    Attributes:
        key: The setting, or ``agents.NAME``.
        value: What it says (JSON-serialisable).
        source: The file.
    """

    key: str
    value: Any
    source: str

    @property
    def digest(self) -> str:
        """What an approval is stored by: the same key with the same value, whichever file says it."""
        text = json.dumps([self.key, self.value], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def shown(self) -> dict[str, Any]:
        """As it is listed (JSON-serialisable)."""
        return {"key": self.key, "value": self.value, "source": self.source}


def of_settings(loaded: Loaded, root: Path) -> list[Claim]:
    """What the settings that files of the project give would have executed.

    Args:
        root: The project's root; a program below it counts by its path there, so that a repository may be moved.
    """
    found = []
    for key in _SETTINGS:
        value = _value(loaded.settings, key)
        if loaded.sources[key] in _FROM_PROJECT and value != _value(Settings(), key):
            if key == CLAUDE_COMMAND and value.startswith(f"{root}/"):
                value = f".{value.removeprefix(str(root))}"
            found.append(Claim(key, value, loaded.sources[key]))
    return found


def of_agents(project: Project) -> list[Claim]:
    """What the project's own agent definitions would have executed, but for copies of the plugin's."""
    definitions = find_definitions(project)
    shipped = {claim.digest for item in definitions if item.source == PLUGIN for claim in _of_agent(item, project)}
    own = (claim for item in definitions if item.source == PROJECT for claim in _of_agent(item, project))
    return [claim for claim in own if claim.digest not in shipped]


def _of_agent(item: Found, project: Project) -> Iterator[Claim]:
    if item.definition is not None:
        said = item.definition.model_dump(mode="json", include=_OF_AGENT)
        said = {name: value for name, value in said.items() if value}
        if said:
            yield Claim(f"{AGENTS}{item.name}", said, os.path.relpath(item.file, project.root))


def of_file(project: Project, data: bytes, home: Path) -> list[Claim]:
    """What a version of ``.corral/config.yaml`` would have executed.

    Raises:
        ConfigInvalid: It is not valid.
    """
    return of_settings(parse_file(project, data, home), project.root)


def refuse(untrusted: Iterable[Claim], *keys: str) -> None:
    """Insist that nothing of these keys is untrusted.

    Raises:
        NotTrusted: Something is; names the files.
    """
    found = [claim for claim in untrusted if claim.key in keys]
    if found:
        raise not_trusted(found)


def not_trusted(claims: Iterable[Claim]) -> NotTrusted:
    """The error that names what waits for the user's yes."""
    found = list(claims)
    files = " and ".join(sorted({claim.source for claim in found}))
    keys = ", ".join(sorted({claim.key for claim in found})[:10])
    return NotTrusted(
        f"The commands in {files} were not approved on this machine: `corral trust`.",
        cause=f"They came with the repository, or have changed since ({keys}).",
        details={"untrusted": [claim.shown() for claim in found]},
    )


def trust_file(environ: Mapping[str, str], home: Path) -> Path:
    """Where the answers stand: ``corral/trust.json`` in the user's state folder."""
    base = environ.get("XDG_STATE_HOME", "")
    return (Path(base) if base.startswith("/") else home / ".local" / "state") / "corral" / "trust.json"


class TrustStore:
    """The user's answers; shared by the command line and every daemon of the user.

    Args:
        file: See :func:`trust_file`. One that is missing, damaged or another user's holds no answers.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read: tuple[tuple[int, int, int] | None, dict[str, Any]] = (None, {})

    def missing(self, common_dir: Path, claims: Iterable[Claim]) -> list[Claim]:
        """Those that the user has not approved for this project."""
        approved = self._projects().get(str(common_dir), {})
        return [claim for claim in claims if claim.digest not in approved]

    def approve(self, common_dir: Path, claims: Iterable[Claim]) -> None:
        """Store that the user approves these; durable when it returns.

        Raises:
            NotTrusted: The state folder cannot be written.
        """
        with self._changing() as projects:
            known = projects.setdefault(str(common_dir), {})
            known.update({claim.digest: claim.key for claim in claims})

    def revoke(self, common_dir: Path) -> bool:
        """Forget every answer for a project; whether there was one.

        Raises:
            NotTrusted: The state folder cannot be written.
        """
        with self._changing() as projects:
            return projects.pop(str(common_dir), None) is not None

    def rebind(self, old_common_dir: Path, new_common_dir: Path) -> None:
        """A repository was moved: its answers count at the new place, and no longer at the old one.

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
                seen = (status.st_ino, status.st_mtime_ns, status.st_size)
                if seen != self._read[0]:
                    self._read = (seen, _projects_in(stream.read()))
        except OSError:
            return {}
        return self._read[1]

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        folder = self._file.parent
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with (folder / "trust.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                projects = json.loads(json.dumps(self._projects()))
                yield projects
                self._write(json.dumps({"version": 1, "projects": projects}, indent=2, sort_keys=True) + "\n")
        except OSError as error:
            raise NotTrusted(
                f"Your approvals cannot be stored in {self._file}.",
                cause=str(error.strerror or error),
                remedy=f"Make {folder} writable for you, or free space, and try again.",
            ) from error

    def _write(self, text: str) -> None:
        number, partial = tempfile.mkstemp(dir=self._file.parent, prefix=".trust-")
        try:
            with os.fdopen(number, "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            Path(partial).replace(self._file)
        except BaseException:
            with suppress(OSError):
                Path(partial).unlink()
            raise


def _projects_in(data: bytes) -> dict[str, Any]:
    try:
        said = json.loads(data)["projects"]
        return {path: dict(answers) for path, answers in said.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}  # nothing in it counts: the user is asked again


def _value(settings: Settings, key: str) -> Any:
    value: Any = settings
    for name in key.split("."):
        value = getattr(value, name)
    return value
