"""Dependencies: cycles among them, and the outlook of one for the task that waits for it."""
