"""What operations are given: the daemon's parts, access to the store, waiting for changes, waking the jobs."""
