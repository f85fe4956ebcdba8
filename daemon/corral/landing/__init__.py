"""How a branch reaches its target: pinned head, candidate, verification of the merged tree, receipt, landing.

``requests`` is what people ask for, ``queue`` the job that decides, ``land`` the durable step that moves a target,
``blockers`` what holds a request in the user's checkout, ``verify`` judges one commit: ``verification`` runs the configured
commands in the verification worktree, ``test_counts`` reads their output, ``verification_receipts`` writes the receipt.
"""
