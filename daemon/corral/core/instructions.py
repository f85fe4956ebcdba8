"""The MCP server's instructions for a model: sent by the bridge to Claude Code, by the daemon to other clients."""

PROFILES = ("core", "mail", "queue", "full")
"""Profiles of tools; see :mod:`corral.faces.mcp.profiles`."""

INSTRUCTIONS = (
    "Corral coordinates the sessions that work on this repository. Files that you edit are locked for "
    "you automatically; acquire_lock is for files you will need later, for globs, and for logical keys "
    "such as api:GET /v1/users. If another session holds a lock, do not work around it: send_message to "
    "its holder, or do something else first. Mail reaches you automatically; fetch_inbox shows all of "
    "it. To land a branch: request_merge. Corral itself reports completions, failures and merges: do not "
    "send those again. When you stop before the work is finished, write_handoff. help(topic) explains "
    "the rest."
)
"""At most 200 tokens: it is in the context of every session."""
