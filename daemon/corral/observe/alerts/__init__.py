"""Alerts as pure functions: what fires, what becomes of it, and when it is told."""
