"""SQL for merge requests: whose they are, what their verification proved, what holds them."""
