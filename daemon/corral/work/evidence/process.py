"""The phases that a task of the roadmap is asked for: what its agent is told, and which of them it left no file of."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from corral.config.sections.work import Supervisor
from corral.core.states import PHASES
from corral.git import refs
from corral.git.process.command import Git
from corral.git.refs import RawChange
from corral.store.rows.tasks import TaskRow
from corral.work.evidence.bundle import OF_ROADMAP, OWN_FOLDER, name_of_folder, phase_of

PROCESS, REQUIRED = "process", "process_required"
"""The keys of a task's own choice: in the roadmap, and in the metadata of its queue task."""
INCOMPLETE = "process_incomplete"
"""The ``error_code`` of an attempt that left no file of a phase that is required."""


@dataclass(frozen=True)
class Process:
    """The phases that a task is asked for, in order; empty: none.

    Attributes:
        is_required: Whether a missing one makes the attempt a failure.
        folder: Where its agent writes the files.
    """

    phases: Sequence[str] = ()
    is_required: bool = False
    folder: str = OWN_FOLDER

    def asked_in(self, prompt: str) -> str:
        """A prompt that asks for them, before the task itself; behind a command of the client, which must be the first word."""
        if not self.phases:
            return prompt
        listed = "\n".join(f"- {phase}: {self.folder}/{phase}.md: {PHASES[phase]}" for phase in self.phases)
        request = (
            "Work in these phases, in this order. Write a short Markdown file of each when you end it, and commit the files with "
            f"your work{', or the task fails' if self.is_required else ''}:\n\n{listed}"
        )
        return f"{prompt}\n\n{request}" if prompt.startswith("/") else f"{request}\n\nThe task:\n\n{prompt}"

    def missing(self, files: Collection[str]) -> list[str]:
        """The phases of which there is no file.

        Args:
            files: The names of those that there are, as the evidence has them.
        """
        return [phase for phase in self.phases if f"{phase}.md" not in files]


def of_task(task: TaskRow, rules: Supervisor) -> Process:
    """The process of a task: its own, else that of the settings. Only a task of the roadmap that gets a prompt has one."""
    if task["command"] is not None or not (task["idempotency_key"] or "").startswith(OF_ROADMAP):
        return Process()
    metadata = task["metadata"] or {}
    own, is_required = metadata.get(PROCESS), metadata.get(REQUIRED)
    return Process(
        phases=rules.process if own is None else own,
        is_required=rules.process_required if is_required is None else bool(is_required),
        folder=f"{OWN_FOLDER}/{name_of_folder(str(metadata.get('roadmap_id') or task['task_id']))}",
    )


def files(git: Git, base: str, head: str) -> dict[str, RawChange]:
    """The files of phases that were added or changed between two commits, by the names that the evidence gives them.

    One in the folder for them counts before one at the top.

    Raises:
        CorralError: Git cannot tell.
    """
    changed = refs.raw_changes(git, base, head)
    by_name: dict[str, RawChange] = {}
    for change in sorted(changed, key=lambda change: change.path.count("/")):
        name = phase_of(change.path)
        if name is not None and change.new_mode.startswith("100"):  # not deleted, and a regular file
            by_name[name] = change
    return by_name
