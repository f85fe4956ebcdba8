"""Loops: what is repeated, and until when."""
