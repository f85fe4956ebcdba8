"""Checkouts and worktrees: made, listed, known for what they are, looked at, saved and removed."""
