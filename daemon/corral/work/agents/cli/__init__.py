"""``corral agent``."""
