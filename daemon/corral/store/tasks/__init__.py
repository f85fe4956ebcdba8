"""SQL for tasks, what they wait for, the worktrees they have, and what became of them."""
