"""Sessions and their interaction: identity, locks, mail, and the meaning of Claude Code's hook events."""
