"""A roadmap in a coordinated repository, and what the queue and the supervisor say of its tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from corral.config.paths import find_project
from corral.faces.cli.project import trust as project_trust
from corral.work.roadmap.checks import read_roadmap
from tests.support.coordinated import Coordinated, eventually


class Plan:
    """The roadmap of a repository."""

    def __init__(self, house: Coordinated, text: str) -> None:
        self.house = house
        self.path = house.root / ".corral" / "state" / "roadmap.yaml"
        self.path.parent.mkdir(exist_ok=True)
        self.write(text)

    def write(self, text: str, *, approved: bool = True) -> None:
        """As an editor does: aside, then in its place. ``approved``: and type `corral trust` then."""
        aside = self.path.with_suffix(".edit")
        aside.write_text(text)
        aside.replace(self.path)
        if approved:
            self.approve()

    def approve(self) -> None:
        """As `corral trust --yes` does, without a process for it."""
        project = find_project(self.house.root)
        project_trust.store().approve(project.common_dir, project_trust.untrusted(project))
        project_trust.tell_daemon(project)

    def edit(self, old: str, new: str, *, approved: bool = True) -> None:
        for _try in range(20):
            text = self.path.read_text()
            assert old in text
            changed = text.replace(old, new, 1)
            if self.path.read_text() == text:
                return self.write(changed, approved=approved)
        raise AssertionError("the file is being written all the time")

    def statuses(self) -> dict[str, Any]:
        return {task.task_id: task.status for task in read_roadmap(self.path.read_bytes()).tasks}

    def until(self, **wanted: str) -> None:
        def reached() -> bool:
            return wanted.items() <= self.statuses().items()

        try:
            eventually(reached)
        except AssertionError as error:
            status = self.house.run("supervisor", "status", check=False).stdout
            queue = self.house.run("task", "list", check=False).stdout
            log = (self.house.root / ".corral" / "logs" / "corral.log").read_text()[-3000:]
            raise AssertionError(f"{self.statuses()}\n{status}\n{queue}\n{log}") from error


def runs(marker: Path) -> int:
    return len(marker.read_text().splitlines()) if marker.exists() else 0


def queued(house: Coordinated) -> dict[str, Any]:
    """The details of the tasks that are in the queue and not over, by their id in the roadmap."""
    rows = [house.json("task", "detail", row["task_id"]) for row in house.json("task", "list")]
    return {row["metadata"]["roadmap_id"]: row for row in rows if row["status"] in ("pending", "waiting", "running")}


def noted(house: Coordinated) -> dict[str, str]:
    return {note["id"]: note["message"] for note in house.json("supervisor", "status")["notes"]}
