"""The verification of a candidate: its worktree, the commands, what they proved, and whose fault it is when they are red."""
