"""Hook events of Claude Code: from the payload to the answer, and what they show of a session and of its files."""
