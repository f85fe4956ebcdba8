"""The life of the daemon: one process for a project, put together, guarded, recovered and taken apart."""
