"""Making a verification worktree usable: it is given copies, and says of each where it came from.

Invariants:
    * Nothing in it leads into the person's checkout. What is taken from there is a copy, and is named with its digest: a
      dependency folder where the recipe's own command may not or cannot run, and the files that ``.worktreeinclude`` names as
      it is committed on the target.
    * What a run changed in a dependency folder, or left beside it, is gone before the next one.
"""
