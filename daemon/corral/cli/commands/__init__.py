"""The commands by noun: tasks, merges, sessions, locks, mail and the rest, one module each."""
