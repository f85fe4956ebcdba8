"""The evidence of a task: what it was, what it did, and what became of it."""
