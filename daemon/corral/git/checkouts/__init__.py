"""Checkouts and worktrees: create, list, identify, read, salvage and remove."""
