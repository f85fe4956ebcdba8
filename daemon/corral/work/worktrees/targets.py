"""The branch that work starts from and lands on."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from corral.core.errors import NotFound, TargetGone
from corral.git import refs
from corral.work.merges.store import landed

if TYPE_CHECKING:
    from corral.work.worktrees.allocation import WorktreeContext


def landing_target(context: WorktreeContext, named: str | None) -> tuple[str, str]:
    """The branch that work lands on, and its present tip.

    Args:
        named: The branch that a task or a person asked for; None is ``landing.target``, else what the main checkout has.

    Returns:
        Short branch name, SHA.

    Raises:
        TargetGone: There is no such branch any more: something landed on it, or waits to.
        NotFound: There is no such branch, or it has no commit yet.
    """
    default = refs.default_branch(context.repo) if named is None else None
    target = named or context.settings().landing.target or (default or "").removeprefix("refs/heads/")
    tip = refs.read(context.repo, refs.branch_ref(target)) if target else None
    if tip is None and target and context.db.read(lambda conn: landed.is_known_target(conn, target)):
        raise TargetGone(
            f"There is no branch {target!r} any more.",
            cause="It was renamed or deleted.",
            remedy=f"Make it again: git branch {quote(target)} COMMIT; or cancel the task and submit it with another "
            "--target.",
        )
    if tip is None:
        raise NotFound(
            f"There is no branch {target!r} to work from." if target else "The main checkout is on no branch.",
            cause="The branch does not exist, or has no commit yet.",
            remedy=f"Make it: git branch {quote(target or 'main')} COMMIT (or name another one as `landing.target` in "
            ".corral/config.yaml)",
        )
    return target, tip
