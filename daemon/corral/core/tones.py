"""What a state's word says to who reads it: each face has a colour for it, beside the word."""

from __future__ import annotations

from typing import Literal

Tone = Literal["good", "busy", "wait", "bad", "dim", "plain"]

_STATES: dict[Tone, tuple[str, ...]] = {
    "good": ("landed", "completed", "passed", "active", "acknowledged", "done", "green"),
    "busy": ("running", "verifying", "spawning", "queued", "terminating"),
    "wait": (
        "held",
        "waiting",
        "pending",
        "unverified",
        "bypassed",
        "interrupted",
        "urgent",
        "high",
        "waits for approval",
        "faulted",  # the machine failed it, or could not run it: nobody's work is bad
        "error",
    ),
    "bad": ("conflict", "failed", "red", "dead", "stalled", "unguarded"),
    "dim": ("cancelled", "dismissed", "superseded", "disconnected", "returned", "idle", "read"),
}
_TONES = {state: tone for tone, states in _STATES.items() for state in states}


def tone_of(state: str) -> Tone:
    """The tone of a state."""
    return _TONES.get(state, "plain")
