"""Corral: many Claude Code sessions on one git repository."""

__version__ = "0.1.0"
PROTOCOL = 1
"""Version of the wire protocol between clients and the daemon; a client asks for a restart when it differs."""
