"""The way of a commit onto a branch: the candidate, the fast-forward of a checkout, what it leaves when it is cut short."""
