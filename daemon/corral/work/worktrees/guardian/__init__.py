"""Guardian of worktrees: it saves what is in them, and notices what others do to them."""
