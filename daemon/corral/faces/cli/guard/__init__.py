"""``corral guard``: the git hook."""
