"""The screen of ``corral interactive``."""
