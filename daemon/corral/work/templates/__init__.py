"""Templates: those of tasks, and the one that a project was prepared from."""
