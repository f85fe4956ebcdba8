"""Which tools a client is shown: definitions cost context, and most sessions need few."""

from __future__ import annotations

from inspect import cleandoc

from corral.coordination.features import tools as features
from corral.coordination.handoffs import tools as handoffs
from corral.coordination.locks import reservation_tools as reservations
from corral.coordination.locks import tools as locks
from corral.coordination.mail import identity_tools as identity
from corral.coordination.mail import macro_tools as macros
from corral.coordination.mail import tools as mail
from corral.coordination.memory import tools as memory
from corral.coordination.sessions import tools as sessions
from corral.core.instructions import PROFILES
from corral.core.payload import Payload
from corral.faces.mcp import help
from corral.faces.mcp.calls import Function, tools_in
from corral.landing import tools as merges
from corral.work.state import tools as state
from corral.work.tasks import tools as work

_MODULES = (
    locks,
    features,
    handoffs,
    mail,
    identity,
    macros,
    work,
    merges,
    help,
    reservations,
    memory,
    sessions,
    state,
)
TOOLS: dict[str, Function] = {tool.__name__: tool for module in _MODULES for tool in tools_in(module.__name__)}
"""Every tool by the name that it is published under."""

CORE = (
    "acquire_lock", "release_lock", "check_locks", "get_work", "complete_work", "submit_work", "write_handoff",
    "read_handoff", "discover_agents", "register_session", "heartbeat", "remember", "recall", "get_task",
    "send_message", "fetch_inbox", "request_merge", "help",
)  # fmt: skip
"""The tools of the coordination document, and those that every session needs beside them."""

MAIL = (
    "ensure_project", "register_agent", "create_agent_identity", "whois", "health_check", "file_reservation_paths",
    "release_file_reservations", "renew_file_reservations", "force_release_file_reservation",
    "check_file_reservation_conflicts", "send_message", "reply_message", "fetch_inbox", "acknowledge_message",
    "mark_message_read", "search_messages", "macro_start_session", "macro_prepare_thread",
    "macro_file_reservation_cycle", "request_contact", "respond_contact", "list_contacts", "set_contact_policy",
    "macro_contact_handshake", "discover_agents", "help",
)  # fmt: skip
"""Agent Mail's."""

QUEUE = (
    "get_work", "complete_work", "submit_work", "get_task", "cancel_task_convention", "register_feature",
    "deregister_feature", "get_feature", "list_active_features", "analyze_feature_conflicts", "request_merge",
    "merge_status", "list_flakes", "revert_merge", "discover_agents", "cleanup_dead_agents", "send_message", "fetch_inbox",
    "get_state",
    "set_state", "list_state", "delete_state", "help",
)  # fmt: skip
"""For sessions that hand out work."""


def clusters() -> list[Payload]:
    """The tools by the modules that have them: ``{name, purpose, tools}``, each with its profiles."""
    return [
        {
            "name": module.__name__.removeprefix("corral.").removesuffix("tools").strip("._").replace("_", " "),
            "purpose": cleandoc(module.__doc__ or "").split("\n\n")[0],
            "tools": [
                {
                    "name": tool.__name__,
                    "summary": " ".join((tool.__doc__ or "").split()),
                    "profiles": [profile for profile in PROFILES if tool in tools_of(profile)],
                }
                for tool in tools_in(module.__name__)
            ],
        }
        for module in _MODULES
    ]


def tools_of(profile: str) -> list[Function]:
    """The tools of a profile, in its order; ``full`` is all of them."""
    names = {"core": CORE, "mail": MAIL, "queue": QUEUE}.get(profile, tuple(TOOLS))
    return [TOOLS[name] for name in names if name in TOOLS]
