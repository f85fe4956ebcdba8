"""Running git: the wrapper, its process, and what a git that was killed leaves behind."""
