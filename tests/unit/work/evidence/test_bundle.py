"""The evidence of a task is made of its rows alone, and its names are safe."""

from __future__ import annotations

from typing import Any

import pytest

from corral.store.rows.tasks import ExportedTask
from corral.work.evidence import bundle


def task(roadmap_id: Any = None) -> ExportedTask:
    metadata = {"roadmap_id": roadmap_id}
    return {"task_id": "q1", "title": "t", "status": "completed", "priority": 5, "metadata": metadata}


@pytest.mark.req("SUP-AC6")
def test_a_folder_has_the_tasks_id_where_that_can_be_a_name() -> None:
    assert bundle.folder_name(task("TEST-SUPERVISOR-INTEGRATION-001")) == "TEST-SUPERVISOR-INTEGRATION-001"
    assert bundle.folder_name(task()) == "q1"


@pytest.mark.req("SUP-AC6")
@pytest.mark.parametrize("name", ["..", ".", "../../etc", "a/b", "-rf", "a\nb", "é" * 300, "x" * 300, "con:", " "])
def test_a_folder_never_leaves_its_place(name: str) -> None:
    made = bundle.folder_name(task(name))
    assert "/" not in made and not made.startswith((".", "-")) and made.isascii() and made.isprintable()
    assert 0 < len(made) <= bundle.LONGEST_NAME + 9


def test_names_that_are_cut_alike_get_folders_of_their_own() -> None:
    assert bundle.folder_name(task("a/b")) != bundle.folder_name(task("a_b"))
    assert bundle.folder_name(task("x" * 300)) != bundle.folder_name(task("x" * 301))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("PLAN.md", "PLAN.md"),
        ("plan.MD", "PLAN.md"),
        (".corral-evidence/Strategize.md", "STRATEGIZE.md"),
        ("docs/PLAN.md", None),
        ("PLANS.md", None),
        ("PLAN", None),
    ],
)
def test_what_an_agent_wrote_of_a_phase_is_known_by_its_name(path: str, name: str | None) -> None:
    assert bundle.phase_of(path) == name
