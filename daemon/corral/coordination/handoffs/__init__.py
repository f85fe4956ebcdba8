"""Handoffs: notes that a session leaves for the next one."""
