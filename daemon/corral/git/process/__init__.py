"""Running git: the wrapper, its process, and the leftovers of a killed git."""
