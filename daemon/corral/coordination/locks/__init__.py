"""Locks: what a lock is taken on, what overlaps, who holds it, who waits for it, and when it may be taken away."""
