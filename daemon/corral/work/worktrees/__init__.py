"""The worktrees of tasks and sessions: allocated, made usable, owned, given back."""
