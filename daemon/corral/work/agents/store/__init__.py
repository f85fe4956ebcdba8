"""SQL for this noun."""
