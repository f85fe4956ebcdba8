"""Where the criteria of an iteration run: a clean checkout of its commit, made for them and thrown away after them.

Invariant: what a criterion writes does not land, and is not there when the next iteration is judged. The work is committed on its
branch before, and the worktree that it was made in is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType

from corral.core.crash import crash_point
from corral.core.errors import CorralError
from corral.core.states import WorktreePurpose
from corral.git.checkouts import status
from corral.store.rows.tasks import TaskRow, WorktreeRow
from corral.work.loops.criteria.place import Unwanted
from corral.work.worktrees import ownership
from corral.work.worktrees.allocation import Plan, WorktreeContext, allocate, environment, give_up, mark_ready

PREFIX = "judge@"
"""Begins the names of these worktrees: no name that a person or a session may give holds an ``@``."""


@dataclass(frozen=True)
class Checkout:
    """A checkout that is ready for a criterion.

    Attributes:
        env: The variables of a process in it.
        prove: Raises PathReplaced if it is not Corral's any more.
    """

    path: Path
    env: Mapping[str, str]
    prove: Callable[[], None]


class JudgingCheckout:
    """The checkout of one iteration; a context manager that removes it at its end.

    Args:
        task: The attempt whose work is judged.
        commit: The work.
        is_unwanted: Whether the evaluation is not needed any more; asked while setup commands run.
        is_over: Whether the time of the loop is over; the same.
    """

    def __init__(
        self,
        context: WorktreeContext,
        task: TaskRow,
        commit: str,
        is_unwanted: Callable[[], bool],
        is_over: Callable[[], bool],
    ) -> None:
        self._context = context
        self._task = task
        self._commit = commit
        self._is_unwanted = is_unwanted
        self._is_over = is_over
        self._made = 0
        self._row: WorktreeRow | None = None
        self._ready: tuple[Checkout, status.Seen] | None = None

    def __enter__(self) -> JudgingCheckout:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._throw_away()

    def checkout(self) -> Checkout:
        """The checkout, made now if a criterion needs it for the first time, or if the one before changed a tracked file.

        Other files stay from one criterion of an iteration to the next, such as a build that is measured after its tests.

        Raises:
            Unwanted: The evaluation was stopped.
            CorralError: It could not be made, or not be made usable.
            OSError: The same.
        """
        if self._ready is not None and self._is_unchanged(self._ready[1]):
            return self._ready[0]
        self._throw_away()
        self._made += 1
        number = f"-{self._made}" if self._made > 1 else ""
        name = f"{PREFIX}{self._task['task_id'][:13]}-{self._task['fencing_token']}{number}"
        plan = Plan(name, None, self._commit, WorktreePurpose.VERIFY, task_id=self._task["task_id"])
        try:
            self._row, provided = allocate(
                self._context, plan, is_unwanted=lambda: self._is_unwanted() or self._is_over()
            )
        except (CorralError, OSError):
            if self._is_unwanted():
                raise Unwanted from None
            raise
        row = self._row
        self._context.db.write(lambda conn: mark_ready(conn, row["worktree_id"], provided))
        path = Path(row["path"])
        checkout = Checkout(
            path, environment(self._context, path, provided), partial(ownership.prove_remains, self._context, row)
        )
        self._ready = checkout, status.look(ownership.prove(self._context, row), untracked=False)
        crash_point("loop.judging")
        return checkout

    def _is_unchanged(self, before: status.Seen) -> bool:
        assert self._row is not None
        try:
            return status.look(ownership.prove(self._context, self._row), untracked=False) == before
        except CorralError:  # a criterion has made something else of it: the next one gets another
            return False

    def _throw_away(self) -> None:
        if self._row is not None:
            give_up(self._context, self._row, reason="its iteration was judged")
        self._row = self._ready = None
