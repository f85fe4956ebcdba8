"""The criteria of loops: a module per kind, each with ``evaluate``."""
