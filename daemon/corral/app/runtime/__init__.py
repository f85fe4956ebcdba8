"""The services that operations use: the daemon's parts, access to the store, waiting for changes, waking the jobs."""
