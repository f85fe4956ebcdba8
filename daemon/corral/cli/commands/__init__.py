"""The commands by noun: tasks, merges, sessions, locks, mail and the rest, each a module."""
