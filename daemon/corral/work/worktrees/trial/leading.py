"""Symlinks of a dependency folder that lead into the person's checkout: they lead into the worktree instead, or are left out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from corral.work.worktrees.trial.mirror import as_written


def into(main: Path, worktree: Path) -> Callable[[Path], str]:
    """Where the copy of a link is to lead, from the link in the main checkout.

    Args:
        main: The main checkout, resolved.
        worktree: The worktree, resolved.
    """

    def lead(link: Path) -> str:
        text = as_written(link)
        target = Path(os.path.normpath(link.parent / text))
        if target.is_relative_to(main):
            return text if not Path(text).is_absolute() else str(worktree / target.relative_to(main))
        real = Path(os.path.realpath(link))
        if real.is_relative_to(main):  # by another name of the checkout, or by a link elsewhere that leads back
            return str(worktree / real.relative_to(main))
        return str(target)

    return lead


def leave_out(place: Path, links: Sequence[str], main: Path, worktree: Path) -> list[str]:
    """Remove those links of a copied folder that lead into the main checkout all the same, and name them."""
    left_out = []
    for link in links:
        real = Path(os.path.realpath(place / link))
        if real.is_relative_to(main) and not real.is_relative_to(worktree):
            (place / link).unlink()
            left_out.append(link)
    return left_out
