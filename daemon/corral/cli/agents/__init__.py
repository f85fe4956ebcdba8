"""``corral agent`` beyond the list: the record of an agent's work, and the versions of its definition."""
