"""The team: roles, capabilities and who is at work."""
