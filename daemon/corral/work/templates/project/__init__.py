"""The template that a project was prepared from: its parts, their validation, its lock, and merging a new version."""
