"""Commands that prepare, check and leave a repository."""
