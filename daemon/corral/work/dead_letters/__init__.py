"""Dead letters: tasks that were given up, until a person decides."""
