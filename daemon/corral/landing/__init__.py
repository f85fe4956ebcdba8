"""How a branch reaches its target: pinned head, candidate, verification of the merged tree, receipt, landing.

``requests`` is what people ask for, ``queue`` the job that decides, ``land`` the durable step that moves a target,
``blockers`` what holds a request in the user's checkout, ``trial`` one commit judged: ``verification`` runs the configured
commands in the ``bench`` worktree, ``test_counts`` reads their output, ``proof`` writes the receipt.
"""
