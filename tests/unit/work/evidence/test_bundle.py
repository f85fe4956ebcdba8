"""The evidence of a task is made of its rows alone, and its names are safe."""

from __future__ import annotations

from typing import Any

import pytest

from corral.store.rows.tasks import ExportedTask
from corral.work.evidence import bundle


def task(roadmap_id: Any = None, key: str | None = "roadmap:x", task_id: str = "q1") -> ExportedTask:
    metadata = {"roadmap_id": roadmap_id}
    return {
        "task_id": task_id, "idempotency_key": key, "title": "t", "status": "completed", "priority": 5, "metadata": metadata
    }  # fmt: skip


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


@pytest.mark.req("SUP-AC6")
def test_only_the_tasks_of_the_roadmap_itself_share_a_folder() -> None:
    mine, replaced = bundle.folder_name(task("T-1")), bundle.folder_name(task("T-1", "roadmap-was:q0", "q0"))
    theirs = {bundle.folder_name(task("T-1", None, "q2")), bundle.folder_name(task("T-1", "own key", "q3"))}
    assert mine == replaced == "T-1" and len(theirs) == 2 and "T-1" not in theirs


def test_names_that_are_cut_alike_get_folders_of_their_own() -> None:
    assert bundle.folder_name(task("a/b")) != bundle.folder_name(task("a_b"))
    assert bundle.folder_name(task("x" * 300)) != bundle.folder_name(task("x" * 301))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("PLAN.md", "PLAN.md"),
        ("plan.MD", "PLAN.md"),
        (".corral-evidence/Strategize.md", "STRATEGIZE.md"),
        (".corral-evidence/T-1/PLAN.md", "PLAN.md"),
        (".corral-evidence/T-1/more/PLAN.md", None),
        ("docs/PLAN.md", None),
        ("PLANS.md", None),
        ("PLAN", None),
    ],
)
def test_what_an_agent_wrote_of_a_phase_is_known_by_its_name(path: str, name: str | None) -> None:
    assert bundle.phase_of(path) == name
