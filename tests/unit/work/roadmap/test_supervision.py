"""Rounds over a roadmap whose file somebody is just writing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from corral.config.model import Settings
from corral.config.paths import Project
from corral.config.sections.work import Queue, Tasks
from corral.core.errors import RunnerUnavailable
from corral.store.engine.database import Database
from corral.store.migrate import open_schema
from corral.store.rows.tasks import RoadmapTaskRow
from corral.work.roadmap import store as rows_of
from corral.work.roadmap.supervision import AT_REST_S, RoadmapSupervision
from corral.work.tasks import tasks
from corral.work.tasks.wire import TaskSubmission

LINES = ("- {id: A, command: 'true'}", "- {id: B, command: 'true'}")


class World:
    """A roadmap with two tasks in the queue, and a clock that starts with each change of its file."""

    def __init__(self, root: Path) -> None:
        open_schema(root / "corral.db")
        self.db = Database(root / "corral.db")
        project = Project(root, root / ".git", root / ".corral", bare=False)
        self.settings = Settings()
        self.settle: Callable[[Sequence[TaskSubmission]], list[TaskSubmission]] = list
        self.me = RoadmapSupervision(
            self.db, project, lambda: self.settings, lambda them: self.settle(them), lambda _claims: [], lambda: None
        )
        self.me.path.parent.mkdir(parents=True)
        self.write(*LINES)
        self.me.start(self.after(0))
        self.me.step(self.after(0))
        assert self.statuses() == {"A": "pending", "B": "pending"}

    def write(self, *lines: str) -> None:
        self.me.path.write_text("".join(f"{line}\n" for line in lines))

    def after(self, seconds: float) -> datetime:
        changed = datetime.fromtimestamp(self.me.path.stat().st_mtime, timezone.utc)
        return changed + timedelta(seconds=seconds)

    def statuses(self) -> dict[str, str]:
        """Those of the queue tasks that have not been withdrawn."""
        return {name: row["status"] for name, row in self.rows().items()}

    def rows(self) -> dict[str, RoadmapTaskRow]:
        rows = self.db.read(lambda conn: rows_of.with_keys(conn, "roadmap:"))
        return {str(row["idempotency_key"]).removeprefix("roadmap:"): row for row in rows}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.db.close()


@pytest.mark.req("SUP-FR1")
def test_a_part_of_the_file_withdraws_nothing_and_is_not_written_over(world: World) -> None:
    world.write(LINES[0])  # the rest comes in a moment
    again = world.me.step(world.after(AT_REST_S / 2))
    assert again is not None and world.statuses() == {"A": "pending", "B": "pending"}
    world.write(*LINES)
    world.me.step(world.after(2 * AT_REST_S))
    assert world.statuses() == {"A": "pending", "B": "pending"}
    world.write(LINES[0])
    world.me.step(world.after(2 * AT_REST_S))
    assert world.statuses() == {"A": "pending"}


def test_a_full_queue_is_no_fault_of_the_file(world: World) -> None:
    world.settings = Settings(queue=Queue(max_size=2))
    world.write(*LINES, "- {id: C, command: 'true'}")
    world.me.step(world.after(2 * AT_REST_S))
    (problem,) = world.me.problems()
    assert problem.task_id == "C" and problem.remedy == "Wait until some have started, or raise `queue.max_size`."


def test_what_the_machine_lacks_is_no_fault_of_the_file(world: World) -> None:
    def refuse(_them: Sequence[TaskSubmission]) -> list[TaskSubmission]:
        raise RunnerUnavailable("The client was not found.", remedy="Install it.")

    world.settle = refuse
    world.write(*LINES, "- {id: C, command: 'true'}")
    world.me.step(world.after(2 * AT_REST_S))
    (problem,) = world.me.problems()
    assert (problem.task_id, problem.remedy) == ("C", "Install it.")


def test_a_status_is_written_once_the_file_is_at_rest(world: World) -> None:
    row = world.rows()["A"]
    world.db.write(lambda conn: tasks.cancel(conn, row["task_id"], world.after(0), Tasks()))
    world.write(LINES[0])
    world.me.step(world.after(AT_REST_S / 2))
    assert world.me.path.read_text() == f"{LINES[0]}\n"
    world.me.step(world.after(2 * AT_REST_S))
    assert world.me.path.read_text() == "- {id: A, status: blocked, command: 'true'}\n"


@pytest.mark.req("SUP-FR1")
def test_what_keeps_others_from_ever_being_next_is_named(world: World) -> None:
    broken = "- {id: E, runner: abacus, dependencies: [D]}"
    chain = [
        f"- {{id: {name}, dependencies: [{before}], command: 'true'}}" for before, name in ("AC", "CD", "EF", "BG")
    ]
    world.write("- {id: A, status: blocked}", "- {id: B, status: done}", *chain, broken)
    notes = {note["id"]: note["message"] for note in world.me.status()["notes"]}
    assert notes["A"] == "keeps C, D waiting, since it is blocked: set it to pending to run it again, or to done"
    assert notes["E"] == "keeps F waiting, since it has an error" and set(notes) == {"A", "E"}
    many = [f"- {{id: W{number}, dependencies: [A], command: 'true'}}" for number in range(8)]
    world.write("- {id: A, status: blocked}", *many)
    (note,) = world.me.status()["notes"]
    assert "keeps W0, W1, W2, W3, W4 and 3 more waiting" in note["message"]


def test_a_task_that_only_the_file_calls_in_progress_is_named(world: World) -> None:
    world.write(*LINES, "- {id: C, status: in_progress, command: 'true'}")
    (note,) = world.me.status()["notes"]
    assert (note["id"], note["line"]) == ("C", 3) and "no task of the queue does it" in note["message"]
