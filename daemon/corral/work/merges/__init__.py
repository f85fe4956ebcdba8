"""Merge requests: a task's way to the target, as rows and as answers."""
