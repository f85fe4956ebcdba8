"""Shared state: values that the agents at one task share while it lasts."""
