"""Landing a commit on a branch: the candidate, the fast-forward of a checkout, and its recovery after an interruption."""
