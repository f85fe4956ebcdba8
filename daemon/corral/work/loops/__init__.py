"""Loops: a task that is repeated until criteria say that its work is good; each iteration is an attempt, in one worktree."""
