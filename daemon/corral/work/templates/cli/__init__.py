"""``corral template``."""
