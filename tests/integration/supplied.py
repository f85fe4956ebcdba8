"""A merge queue whose verification worktree is supplied as the daemon does it, with the shipped recipes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from corral.config.model import Settings
from corral.config.sections.sharing import Landing
from corral.config.sections.work import Worktrees
from corral.core.inputs import Prepared
from corral.landing.verify.verification_worktree import VerificationWorktree
from corral.store.rows.merges import MergeRow
from corral.work.worktrees.allocation import WorktreeContext
from corral.work.worktrees.trial.preparation import Place, prepare
from tests.integration.landing_world import World
from tests.support.files import put


class Supplied(World):
    """The commands verify what :meth:`land` is given; ``worktrees`` are its settings."""

    def __init__(self, root: Path, *verify: str, **worktrees: object) -> None:
        self.worktrees = Worktrees.model_validate(worktrees)
        super().__init__(root, landing=Landing(verify=list(verify), reruns=0))

    def supply(self, path: Path, tip_sha: str) -> Prepared:
        settings = Settings(worktrees=self.worktrees)
        worktree_context = WorktreeContext(self.db, self.project, self.repo(), lambda: settings, self.now, "world")
        own = VerificationWorktree(self.db, self.places, self.repo(), path.name)
        return prepare(worktree_context, Place(path, own.name, None, {}, own.prove), tip_sha)

    def inputs(self, merge: MergeRow) -> dict[str, Any]:
        """What the receipt of a request names beside the commit."""
        receipt = self.receipt(merge["merge_id"])
        assert receipt["inputs"] is not None, receipt
        return dict(receipt["inputs"])

    def dependencies(self, merge: MergeRow) -> dict[str, dict[str, Any]]:
        """Those of them that are dependency folders, by path."""
        return {dependency["path"]: dependency for dependency in self.inputs(merge).get("dependencies", ())}


def package(modules: Path, name: str, text: str) -> Path:
    """A package as a package manager unpacks it."""
    folder = modules / name
    put(folder / "package.json", json.dumps({"name": name, "main": "index.js"}))
    (folder / "index.js").write_text(text)
    return folder
