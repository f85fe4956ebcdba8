"""`corral guard`: a git hook that tells a commit whose files it would take along."""
