"""Tasks, merge requests and worktrees over HTTP, and waiting for them."""
