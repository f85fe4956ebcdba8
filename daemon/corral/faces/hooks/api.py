"""Hook events: what is asked for, and what is answered."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from typing_extensions import NotRequired, TypedDict

from corral.core.states import MailWay

HookPayload = Annotated[
    dict[str, Any],
    Field(
        description="What Claude Code gives to a hook: its fields are the client's.",
        examples=[
            {
                "session_id": "s-1",
                "cwd": "/repo",
                "hook_event_name": "PreToolUse",
                "tool_name": "Edit",
                "tool_input": {"file_path": "/repo/src/a.py"},
                "tool_use_id": "toolu_01",
            }
        ],
    ),
]
StopPayload = Annotated[
    dict[str, Any],
    Field(
        description="What Claude Code gives to a Stop hook.",
        examples=[{"session_id": "s-1", "hook_event_name": "Stop"}],
    ),
]


class Bridge(BaseModel):
    """A bridge: its process and its client's, and the session that it was started for, as far as it knows."""

    pid: str = Field(examples=["4711"])
    client: int = Field(examples=[4710])
    session: str = ""


class Brought(BaseModel):
    """Mail that a mod brought to its model, by the numbers of the messages; ``way``: into a running turn, or as a prompt."""

    session_id: str = Field(examples=["s-1"])
    messages: list[int] = Field(examples=[[1]], max_length=100)
    way: Literal[MailWay.TURN, MailWay.PROMPT] = Field(examples=["turn"])


class HookOutput(TypedDict):
    """What an answer says about its event: a refusal with its reason, words for the model, or the place of a new worktree."""

    hookEventName: str
    permissionDecision: NotRequired[Literal["deny"]]
    permissionDecisionReason: NotRequired[str]
    additionalContext: NotRequired[str]
    worktreePath: NotRequired[str]


class HookAnswer(TypedDict):
    """What the hook prints, in the words that Claude Code knows; empty: there is nothing to say.

    ``vcs``: what a mod answers where the client asks for a working copy, asks what one holds, or gives one back. ``decision``:
    keeps a session from stopping, for a ``reason`` that the model reads; ``systemMessage``: for the person. ``is_quiet``: to a
    mod before a call, that nothing waits for its session. ``is_elsewhere``: the file of an edit is in no checkout of this
    project; perhaps it is in one of another, whose daemon is to be asked.
    """

    hookSpecificOutput: NotRequired[HookOutput]
    decision: NotRequired[Literal["block"]]
    reason: NotRequired[str]
    systemMessage: NotRequired[str]
    vcs: NotRequired[dict[str, Any]]
    is_quiet: NotRequired[Literal[True]]
    is_elsewhere: NotRequired[Literal[True]]


class Woken(TypedDict):
    """What a session that stopped is woken with; without ``text`` it is not woken."""

    text: NotRequired[str]


class Offered(TypedDict):
    """Mail for the model of a session, and the numbers of its messages; without ``text`` there is none."""

    session_id: NotRequired[str]
    messages: NotRequired[list[int]]
    text: NotRequired[str]
