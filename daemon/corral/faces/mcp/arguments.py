"""Arguments of tool calls: ignored ones, invalid ones, and calls with too many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from corral.coordination.sessions import tokens
from corral.core.errors import InvalidInput

IGNORED = frozenset({
    "attachments_policy", "auto_accept",
    "auto_contact_if_blocked", "convert_images", "delegated_from", "format", "identity_mode",
    "llm_mode", "llm_model", "model", "pane_id", "program", "reaper_exempt", "register_if_missing",
    "registration_proof", "target_registration_token", "task_description", "topic", "window_id",
})  # fmt: skip
"""Arguments of Agent Mail's and the coordinator's clients that have no effect here: formats, handshakes with what the
other is to be registered as, panes."""
MOST_BYTES = 4 * 1024 * 1024
"""Maximum size of a request, the limit of the MCP library."""
MOST_LOOKED_AT = 16 * 1024 * 1024
"""Up to this size a request that is too large is parsed, so that the answer can name the argument."""
_PLAIN = {"unexpected_keyword_argument": "is no parameter of this tool", "missing_argument": "is needed"}


def without_ignored(arguments: Mapping[str, Any], parameters: Iterable[str]) -> dict[str, Any]:
    """The arguments without those that clients add and the tool has no parameter for."""
    known = frozenset(parameters)
    return {
        name: value
        for name, value in arguments.items()
        if name in known or (name not in IGNORED and name not in tokens.ARGUMENTS)
    }


def token_in(arguments: Mapping[str, Any]) -> str:
    """The token among the arguments of a call; empty: there is none."""
    return next((str(arguments[name]) for name in tokens.ARGUMENTS if arguments.get(name)), "")


def invalid(problems: Iterable[Mapping[str, Any]], parameters: Iterable[str]) -> InvalidInput:
    """The invalid arguments, each with its reason.

    Args:
        problems: As pydantic tells them.
        parameters: The names that the tool knows.
    """
    reasons_of: dict[str, list[str]] = {}
    for problem in problems:
        kind, (field, *_) = problem["type"], problem["loc"] or ("arguments",)
        reasons_of.setdefault(str(field)[:80], []).append(_PLAIN.get(kind, str(problem["msg"])))
    errors = [
        {"field": field, "message": ", or: ".join(dict.fromkeys(reasons))} for field, reasons in reasons_of.items()
    ]
    return InvalidInput(
        " ".join(f"{error['field']}: {error['message']}." for error in errors[:5]),
        remedy=f"The parameters are: {', '.join(parameters)}.",
        details={"errors": errors[:50]},
    )


def too_large(size: int, arguments: Mapping[str, Any]) -> InvalidInput:
    """The error of a call that is too large; it names the largest argument."""
    lengths = {name: len(str(value)) for name, value in arguments.items()}
    longest = max(lengths, key=lambda name: lengths[name], default="arguments")
    cause = f"{longest[:80]}: {lengths.get(longest, size)} characters are too many"
    return InvalidInput(
        f"{cause}; a call has at most {MOST_BYTES} bytes, this one has {size}.",
        remedy="Write it to a file, and name the file.",
        details={"errors": [{"field": longest[:80], "message": f"too long for a call of at most {MOST_BYTES} bytes"}]},
    )
