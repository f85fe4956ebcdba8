"""What a model is told once of the MCP server: the bridge says it to Claude Code, the daemon to everybody else."""

PROFILES = ("core", "mail", "queue", "full")
"""Sets of tools; see :mod:`corral.server.mcp.profiles`."""

INSTRUCTIONS = (
    "Corral coordinates the sessions that work on this repository. Files you edit are locked for you by themselves; "
    "acquire_lock is for what you will need later, for globs, and for logical keys such as api:GET /v1/users. "
    "If something is held, do not work around it: send_message to its holder, or do something else first. "
    "Mail reaches you by itself; fetch_inbox shows all of it. To land a branch: request_merge. "
    "Corral itself reports completions, failures and merges: do not send those again. "
    "When you stop in the middle of something, write_handoff. help(topic) explains the rest."
)
"""At most 200 tokens; it is in the context of every session."""
