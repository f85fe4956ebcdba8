"""The life of a task: submitted, scheduled, attempted, tried again, settled; and what waits for it."""
