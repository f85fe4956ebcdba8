"""Claude Code's hook events: from the payload to the answer."""
