"""Corral: many Claude Code sessions on one git repository."""

__version__ = "0.1.0"
PROTOCOL = 1
"""Version of the wire protocol; if a client and the daemon differ, the client asks for a restart of the daemon."""
