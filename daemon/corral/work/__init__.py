"""Tasks: what waits, what runs, where it runs, and what becomes of it."""
