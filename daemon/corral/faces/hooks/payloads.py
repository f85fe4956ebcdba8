"""The events of Claude Code's hooks as types, and the answers the client understands.

Source: the payloads that client 2.1.197 and 2.1.330 send. A field that is missing is empty here; an event that is unknown is
still an event, so that a newer client never breaks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from corral.client import last_look
from corral.client.last_look import EDIT_TOOLS
from corral.coordination.locks.keys import MAX_PATH_BYTES
from corral.core.identifiers import check_session_id
from corral.core.instants import UTC

LIMIT = 9_500
"""Maximum length of an answer, characters: the client moves more than 10,000 into a file, and shows only its beginning."""
_LONGEST_COMMAND = 128 * 1024
"""Characters of a shell command that are looked at: a longer one is no argument of any program on Linux."""
_ENDS_TURN = frozenset({"Stop", "StopFailure", "SubagentStop", "SessionEnd", "SessionStart"})
_OF_MOD = "mod_"
"""The prefix of the ids of what another plugin's mod does by itself, as ``hooks/guard.js`` makes them."""


@dataclass(frozen=True)
class HookEvent:
    """One event.

    Attributes:
        actor: The session that acts: the subagent's id inside a subagent, else the session's.
        parent: The session's id inside a subagent, else None.
        path: The absolute path an edit tool writes to, or empty; also where it is too long to be one (``has_endless_path``).
        moved: The absolute path from which an MCP tool moves a file to ``path``, or empty.
        prompt: The session's prompt, or empty; a client cuts it.
        held_before: Whether a Stop hook holds the session already: it stops for the second time.
        came_at: When its bridge sent it; for a command hook, when it was read.
        bridge: The process id of the MCP bridge that carried the event, or empty for a command hook.
        transcript_path: Where the client writes down what the session says; empty inside a subagent.
        unheard: The span in which answers to the actor got lost; None if all arrived.
        action: What a tool is to do with the worktree that it leaves: ``keep`` or ``remove``, or empty.
        recipient: To whom the client's own SendMessage tool writes, or empty; ``summary``: about what.
        owner: The agent that a working copy is asked for, or empty: the session itself.
        since: The commit at which a working copy began, or empty; ``folder``: where it is.
        calls: The ids of the calls of a batch, ``reads``: the files that they read.
        carrier: What brought the event: ``mod``, ``bridge`` or ``command``; ``guest``: the bridge of a session of another
            project, about a command that may concern this one.
        client_version: The version of the client, or empty where its carrier does not know it.
        is_unread: Whether nobody waits for the answer.
    """

    name: str
    actor: str
    parent: str | None
    cwd: str
    tool: str
    path: str
    moved: str
    has_endless_path: bool
    command: str
    use_id: str
    agent_type: str
    source: str
    reason: str
    worktree_name: str
    worktree_path: str
    message: str
    notification: str
    last_words: str
    held_before: bool
    prompt: str
    came_at: datetime
    bridge: str
    unheard: tuple[datetime, datetime] | None
    client_pid: int | None
    entrypoint: str
    transcript_path: str
    action: str
    recipient: str
    summary: str
    owner: str
    since: str
    folder: str
    calls: tuple[str, ...]
    reads: tuple[str, ...]
    carrier: str
    client_version: str
    is_unread: bool

    @property
    def session_id(self) -> str:
        """The session, also inside a subagent."""
        return self.parent or self.actor

    @property
    def is_edit(self) -> bool:
        """Whether an edit tool is running, or another MCP server's tool that writes a file; ours name what they lock."""
        return self.tool in EDIT_TOOLS or (last_look.is_others(self.tool) and bool(self.path))

    @property
    def begins_at_rest(self) -> bool:
        """Whether a session starts without a prompt; one that compacts is in the middle of a turn."""
        return self.source in ("startup", "resume", "clear", "fork")

    @property
    def is_shell(self) -> bool:
        """Whether a shell command is running."""
        return self.tool == "Bash"

    @property
    def has_reader(self) -> bool:
        """Whether a model reads the answer: none reads what is answered to another plugin's mod."""
        return not (self.is_unread or self.use_id.startswith(_OF_MOD))

    @property
    def is_guest(self) -> bool:
        """Whether its session belongs to another project, or to none: nothing but what concerns this one is heard of it."""
        return self.carrier == "guest"

    @property
    def ends_turn(self) -> bool:
        """Whether no tool of the actor is running any more."""
        return self.name in _ENDS_TURN


def read(name: str, payload: Mapping[str, Any], now: datetime) -> HookEvent:
    """Read a payload.

    Raises:
        InvalidInput: The session id is missing or invalid.
    """
    session = check_session_id(_text(payload, "session_id"))
    parts = (payload.get("tool_input"), payload.get("_hook"))
    tool_input, origin = (part if isinstance(part, Mapping) else {} for part in parts)
    agent = _text(payload, "agent_id") and check_session_id(_text(payload, "agent_id"))
    pid, listed = origin.get("pid"), payload.get("tool_calls")
    batch = [call for call in listed if isinstance(call, Mapping)] if isinstance(listed, list) else []
    client = pid if isinstance(pid, int) and not isinstance(pid, bool) and pid > 1 else None
    cwd = _text(payload, "cwd")
    path, moved = (
        last_look.as_written(written, cwd, client or 0) if written else "" for written in last_look.paths(payload)
    )
    return HookEvent(
        name=name,
        actor=agent or session,
        parent=session if agent else None,
        cwd=cwd,
        tool=_text(payload, "tool_name"),
        path=path if len(path) <= MAX_PATH_BYTES else "",
        moved=moved if len(moved) <= MAX_PATH_BYTES else "",
        has_endless_path=max(len(path), len(moved)) > MAX_PATH_BYTES,
        command=_text(tool_input, "command")[:_LONGEST_COMMAND],
        use_id=_text(payload, "tool_use_id"),
        agent_type=_text(payload, "agent_type"),
        source=_text(payload, "source"),
        reason=_text(payload, "reason"),
        worktree_name=_text(payload, "name"),
        worktree_path=_text(payload, "worktree_path"),
        message=_text(payload, "message"),
        notification=_text(payload, "notification_type"),
        last_words=_text(payload, "last_assistant_message"),
        held_before=payload.get("stop_hook_active") in (True, "true"),
        prompt=_text(payload, "prompt"),
        came_at=min(now, _instant(origin.get("sent")) or now),
        bridge=str(origin.get("bridge") or ""),
        unheard=_span(origin.get("unheard")),
        client_pid=client,
        entrypoint=_text(origin, "entrypoint"),
        transcript_path="" if agent else _text(payload, "transcript_path"),
        action=_text(tool_input, "action"),
        recipient=_text(tool_input, "to") if _text(payload, "tool_name") == "SendMessage" else "",
        summary=_text(tool_input, "summary"),
        owner=_text(payload, "owner"),
        since=_text(payload, "since"),
        folder=_text(payload, "path"),
        calls=tuple(_text(call, "tool_use_id") for call in batch),
        reads=tuple(_reads(batch)),
        carrier=_text(origin, "source"),
        client_version=_text(origin, "client_version"),
        is_unread=payload.get("is_unread") is True,
    )


def _reads(batch: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The files that a batch of tool calls read."""
    for call in batch:
        arguments = call.get("tool_input") if _text(call, "tool_name") == "Read" else None
        if isinstance(arguments, Mapping) and (path := _text(arguments, "file_path")):
            yield path


def _text(mapping: Mapping[str, Any], key: str) -> str:
    value = mapping.get(key)
    return value if isinstance(value, str) else ""


def _instant(value: object) -> datetime | None:
    """The instant of a Unix time; None if the value is none."""
    try:
        return datetime.fromtimestamp(value, UTC) if isinstance(value, (float, int)) else None
    except (ValueError, OverflowError, OSError):
        return None


def _span(value: object) -> tuple[datetime, datetime] | None:
    """The span between two Unix times; None if the value is none."""
    begin, end = map(_instant, value) if isinstance(value, list) and len(value) == 2 else (None, None)
    return (begin, end) if begin and end else None


def denial(reason: str, event: str = "PreToolUse") -> dict[str, Any]:
    """Refuse a tool call; the model reads ``reason``."""
    return {
        "hookSpecificOutput": {
            "hookEventName": event,
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }
    }


def reason_of_denial(answer: Mapping[str, Any]) -> str:
    """Why an answer refuses a tool call; empty: it does not."""
    return str(answer.get("hookSpecificOutput", {}).get("permissionDecisionReason", "")) if answer else ""


def texts_of(answer: Mapping[str, Any]) -> list[str]:
    """The texts that an answer adds to the model's context."""
    text = answer.get("hookSpecificOutput", {}).get("additionalContext") if answer else None
    return [text] if text else []


_TAKES_CONTEXT = frozenset(
    {
        "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch",
        "SubagentStart",
    }
)  # fmt: skip


def hold(reason: str) -> dict[str, Any]:
    """Keep a session from stopping; the model reads ``reason`` and goes on."""
    return {"decision": "block", "reason": reason}


def context(event: str, texts: list[str]) -> dict[str, Any]:
    """The answer that adds texts to the model's context; empty without texts, or if the event cannot carry them.

    Args:
        texts: One-time texts first; what exceeds :data:`LIMIT` is cut.
    """
    if not texts or event not in _TAKES_CONTEXT:
        return {}
    text = "\n".join(texts)
    shown = text if len(text) <= LIMIT else text[: LIMIT - 1] + "…"
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": shown}}
