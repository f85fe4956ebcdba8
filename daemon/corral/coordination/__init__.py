"""What sessions know of each other: identity, locks, and what a hook event of Claude Code means."""
