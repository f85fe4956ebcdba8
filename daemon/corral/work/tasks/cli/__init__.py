"""``corral task``."""
