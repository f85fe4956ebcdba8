"""The context that all verifications of this daemon share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from corral.config.paths import Project
from corral.config.sections.sharing import MOST_SLOTS
from corral.config.worktree_root import WorktreeRoot
from corral.core.inputs import Prepared
from corral.core.sealing import put_off
from corral.git.land import candidates
from corral.git.process.command import Git
from corral.git.refs import oid
from corral.landing.verify.programs import Programs
from corral.landing.verify.verification import marks
from corral.landing.verify.verification_worktree import VerificationWorktree
from corral.runners.environment import verification_environment
from corral.runners.tags import VERIFICATION_MARK
from corral.store.protocol import Store
from corral.work.worktrees.allocation import WorktreeContext
from corral.work.worktrees.recipes import DEEPEST, of_files
from corral.work.worktrees.trial import preparation

FIRST_FREE_PORT = 1024
DRY_RUN = "dry-run"
"""The folder of a dry run's verification worktree, and the end of its name."""
_PORT_BLOCKS = ("1", DRY_RUN, *map(str, range(2, MOST_SLOTS + 1)))
"""The slots in the order of their ports, downwards."""


@dataclass(frozen=True)
class VerificationContext:
    """The context that all verifications of this daemon share.

    Attributes:
        db: Holds the verification worktree's row.
        project: Says where the logs of merges are.
        project_id: The project's, by which its processes are known.
        places: Says where the verification worktree is made.
        prepare: Makes the worktree usable, given it and the target's tip.
        environ: The daemon's environment; what is no credential of it is passed on.
        spawn: Runs a function that may take minutes (checkout, setup) where no step waits for it; by default at once.
        ready: Told from there that it is done.
        unsealed: Told that a log waits for :mod:`corral.core.sealing`.
        recipes: The content of the recipes that apply to a commit, each with its ``setup`` command or None.
        programs: What is known of the programs that the commands name.
    """

    db: Store
    project: Project
    project_id: str
    places: WorktreeRoot
    prepare: Callable[[VerificationWorktree, str], Prepared]
    environ: Mapping[str, str]
    spawn: Callable[[Callable[[], None]], None] = lambda function: function()
    ready: Callable[[], None] = lambda: None
    unsealed: Callable[[], None] = lambda: None
    recipes: Callable[[str], Sequence[Mapping[str, Any]]] = lambda _commit: ()
    programs: Programs = field(default_factory=Programs)

    def environment(self, additions: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of a verification's commands: nothing of the daemon's that names the person's checkout."""
        return verification_environment(self.environ, additions, self.project.root.resolve())

    def put_off_sealing(self, log: Path) -> None:
        """Note that a log is to be sealed once the step is over: that of 256 MB takes too long for it."""
        put_off(self.project.logs_dir, log)
        self.unsealed()

    def marks_of_programs(self) -> dict[str, str]:
        """The mark of the processes of programs that are asked for their version: they are of no worktree."""
        return marks(Path("programs"), self.project_id)

    def asking_environment(self) -> dict[str, str]:
        """The environment in which a program is asked for its version."""
        return {**self.environment({}), **self.marks_of_programs()}


def context_of(
    worktrees: WorktreeContext,
    environ: Mapping[str, str],
    spawn: Callable[[Callable[[], None]], None],
    nudge: Callable[[str], None],
) -> VerificationContext:
    """Make it for a daemon.

    Args:
        nudge: Asks for a step of a job.
    """
    return VerificationContext(
        worktrees.db,
        worktrees.project,
        worktrees.project_id,
        worktrees.places,
        partial(_prepare, worktrees),
        environ,
        spawn=spawn,
        ready=lambda: nudge("landing"),
        unsealed=lambda: nudge("log_sealing"),
        recipes=partial(_recipes_of, worktrees, lru_cache(2)(partial(_files_of, worktrees.repo))),
    )


def _prepare(worktree_context: WorktreeContext, worktree: VerificationWorktree, tip_sha: str) -> Prepared:
    """Make a verification worktree usable.

    Its ports lie below those of the allocated ones, each slot's and a dry run's by themselves: all may run at once.
    """
    settings = worktree_context.settings().worktrees
    path = worktree.path
    blocks_below = _PORT_BLOCKS.index(worktree.slot) + 1
    ports = settings.port_first - blocks_below * settings.ports_each
    port_base = ports if settings.ports_each and ports >= FIRST_FREE_PORT else None
    place = preparation.Place(path, worktree.name, port_base, {VERIFICATION_MARK: str(path)}, worktree.prove)
    prepared = preparation.prepare(worktree_context, place, tip_sha)
    merged = candidates.used(worktree.prove(), tip_sha)
    return replace(prepared, inputs={**prepared.inputs, "merge_drivers": merged}) if merged else prepared


def _recipes_of(
    worktree_context: WorktreeContext, files_of: Callable[[str], list[str]], commit: str
) -> list[dict[str, object]]:
    """The content of the recipes that apply to a commit."""
    recipes = of_files(worktree_context.recipes, worktree_context.settings().worktrees.recipes, files_of(commit))
    return [recipe.model_dump(mode="json") for recipe in recipes]


def _files_of(git: Git, commit: str) -> list[str]:
    """The files of a commit in which a recipe may find its project."""
    paths = git.check("ls-tree", "-r", "-z", "--name-only", oid(commit)).names
    return [path for path in paths if path.count("/") < DEEPEST]
