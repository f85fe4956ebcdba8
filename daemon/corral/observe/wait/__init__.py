"""Waiting until tasks have landed or failed."""
