"""The warm pool: worktrees of tasks that ended well, kept for the next tasks instead of being removed.

Invariants:
    * A kept worktree is on no branch, holds exactly the files of its base commit, and has a name and a place of its own.
    * Nobody works in one. It is used only if it looks as it did when it was kept; on any doubt it is removed like every other
      worktree (what a person wrote there is salvaged first), and the next task gets a fresh one.
    * After a kill at any point a restart keeps it, or removes it.
"""
