"""Several sessions of the real client in one coordinated repository, each with the real daemon behind it."""

from __future__ import annotations

import json
import shutil
import sys
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from tests.e2e.client import Conversation, Run, run_client
from tests.e2e.stage import FENCE, Request, Stage, Step, script, text
from tests.support.coordinated import Coordinated, eventually
from tests.support.files import executable

ROOT = Path(__file__).parents[2]
PLUGIN = ("--plugin-dir", str(ROOT))
Json = dict[str, Any]


def corral_command(folder: Path) -> Path:
    """Put a ``corral`` into a folder, as an installation puts one on the PATH."""
    folder.mkdir(exist_ok=True)
    return executable(
        folder / "corral", f'#!/bin/sh\nPYTHONPATH="{ROOT / "daemon"}" exec "{sys.executable}" -m corral "$@"\n'
    )


def plugin(folder: Path, *, hooks: bool = True, mod: bool = True, **files: str) -> tuple[str, str]:
    """A copy of the plugin; its flags.

    Args:
        hooks: Whether it has its hooks, besides the mod.
        mod: Whether it has its mod: clients before mods do as if not.
        files: Other texts for files of ``hooks/``, by their names with ``_`` for the dot.
    """
    for name in (".claude-plugin", ".claude/agents", "hooks", "skills", "bin", ".mcp.json"):
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    file = folder / "hooks" / "hooks.json"
    manifest = json.loads(file.read_text())
    parts = {
        **({"hooks": manifest["hooks"]} if hooks else {"hooks": {}}),
        **({"modules": manifest["modules"]} if mod else {}),
    }
    file.write_text(json.dumps(parts))
    for name, content in files.items():
        (folder / "hooks" / name.replace("_", ".")).write_text(content)
    return "--plugin-dir", str(folder)


def session_of(request: Request) -> str:
    """The session that a request comes from."""
    about = json.loads(request.body.get("metadata", {}).get("user_id") or "{}")
    return str(about.get("session_id"))


def words_since_script(request: Request) -> str:
    """What a conversation holds after its latest script, except for what the model said itself."""
    words: list[str] = []
    for message in request.body["messages"]:
        if message["role"] == "assistant":
            continue
        for block in _blocks(message["content"]):
            if FENCE.search(block.get("text", "")):
                words = []
            else:
                words += [
                    block.get("text", ""),
                    *(inner.get("text", "") for inner in _blocks(block.get("content") or [])),
                ]
    return "\n".join(filter(None, words))


def _blocks(content: Any) -> list[Json]:
    return [{"text": content}] if isinstance(content, str) else content


def argv(process: psutil.Process) -> list[str]:
    """What a process was started with; nothing of one that is just ending."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


class Member:
    """One session that stays open, and what the model of it was told."""

    def __init__(self, conversation: Conversation, session_id: str, team: Team) -> None:
        self.conversation = conversation
        self.session_id = session_id
        self._team = team
        self._turns = 0

    @property
    def pid(self) -> int:
        return self.conversation.pid

    def begin(self, *steps: Step, say: str = "Do this.") -> None:
        """Give it something to do, and do not wait for it."""
        self.say(script(*steps, say=say))

    def say(self, words: str) -> None:
        """Say something to it, which begins a turn."""
        self._turns = len(self.conversation.results)
        self.conversation.send(words)

    def has_done(self) -> bool:
        """Whether it has ended the turn that it began last."""
        return len(self.conversation.results) > self._turns

    def do(self, *steps: Step, say: str = "Do this.") -> str:
        """Have it play the steps; returns what the model was told meanwhile, by tool results and beside them."""
        self.conversation.turn(script(*steps, text("Done."), say=say))
        return self.told

    @property
    def told(self) -> str:
        """Everything that the model was told since its latest prompt."""
        return words_since_script(self.requests[-1])

    @property
    def requests(self) -> list[Request]:
        """The requests of this session."""
        return [request for request in self._team.stage.requests if session_of(request) == self.session_id]

    @property
    def row(self) -> Json:
        """The session as ``corral session list --json`` shows it."""
        return self._team.session(self.session_id)

    @property
    def name(self) -> str:
        return str(self.row["agent_name"])

    @property
    def bridge(self) -> psutil.Process:
        """Its MCP bridge."""
        (child,) = [child for child in psutil.Process(self.pid).children() if argv(child)[-1:] == ["mcp"]]
        return child


class Team:
    """The sessions of one test; they end with it."""

    def __init__(
        self, house: Coordinated, claude: Path, env: dict[str, str], stage: Stage, logs: Path, stack: ExitStack
    ) -> None:
        self.house, self.stage, self.env = house, stage, env
        self._claude, self._logs, self._stack = claude, logs, stack
        self.repo = house.root
        self.plugin = PLUGIN
        """The flags that give the sessions their plugin."""

    def member(self, *flags: str, cwd: Path | None = None, new: bool = True, path: Path | None = None) -> Member:
        """Start a session that stays open.

        Args:
            new: Whether it gets an id of its own; False where flags name a session to go on with.
            path: A folder that comes first on its PATH.
        """
        session_id = str(uuid.uuid4())
        identity = ("--session-id", session_id) if new else ()
        env = {**self.env, "PATH": f"{path}:{self.env['PATH']}"} if path else self.env
        log = self._logs / f"{session_id}.log"
        conversation = Conversation(self._claude, cwd or self.repo, env, log, *self.plugin, *identity, *flags)
        self._stack.enter_context(conversation)
        return Member(conversation, session_id, self)

    def run(self, *steps: Step, cwd: Path | None = None, flags: tuple[str, ...] = (), say: str = "Do this.") -> Run:
        """Run one ``claude -p`` to its end."""
        return run_client(
            self._claude, cwd or self.repo, script(*steps, text("Done."), say=say), self.env, *self.plugin, *flags
        )

    def sessions(self) -> list[Json]:
        """Every session that ever was."""
        sessions: list[Json] = self.house.ask("GET", "/sessions")
        return sessions

    def session(self, session_id: str) -> Json:
        """One session."""
        return next(row for row in self.sessions() if row["session_id"] == session_id)

    def locks(self) -> dict[str, str]:
        """Path to holder's session id."""
        return {row["file_path"]: row["session_id"] for row in self.house.ask("GET", "/locks")}

    def until(self, condition: Callable[[], Any]) -> Any:
        """Poll until it is true."""
        return eventually(condition)


class Pair(NamedTuple):
    """Two sessions that stay open, in one checkout."""

    team: Team
    one: Member
    other: Member
