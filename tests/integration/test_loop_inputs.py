"""The field ``loop`` wherever a task is written down, and a best iteration that lands though the loop has not converged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import git
from tests.support.coordinated import Coordinated, eventually
from tests.support.files import put

BATCH = """
tasks:
- title: Count
  command: echo x >> count.txt
  loop:
    until:
    - {kind: tests, command: test $(wc -l < count.txt) -ge 2}
- title: After it
  command: cp count.txt copy.txt
  wait_for: [Count]
"""
TEMPLATE = """
name: count
description: Count as far as wanted
parameters:
  far: {type: integer, default: 3, description: How far}
command: echo {{ far }} >> counted.txt
loop:
  until:
  - {kind: tests, command: "test $(wc -l < counted.txt) -ge {{ far }}"}
"""


@pytest.mark.req("FR-LOOP-001", "FR-QUEUE-001")
def test_a_task_of_a_batch_is_a_loop_and_what_waits_for_it_starts_when_it_has_converged(house: Coordinated) -> None:
    file = house.root.parent / "batch.yaml"
    file.write_text(BATCH)
    house.run("task", "batch-submit", "--file", str(file))
    house.run("wait", "--all", "--timeout", "60")
    eventually(lambda: git(house.root, "show", "main:copy.txt").split() == ["x", "x"])
    file.write_text(BATCH.replace("kind: tests", "kind: wish"))
    refused = house.run("task", "batch-submit", "--file", str(file), check=False)
    assert refused.returncode == 2 and "loop" in refused.stderr
    assert len(house.json("task", "list")) == 2, "all or nothing"


@pytest.mark.req("FR-LOOP-001", "FR-TMPL-001")
def test_a_template_gives_its_loop_with_the_values_of_its_parameters(house: Coordinated) -> None:
    folder = house.root / ".corral" / "templates"
    put(folder / "count.yaml", TEMPLATE)
    house.run("template", "validate")
    task_id = house.json("task", "submit", "--template", "count", "--set", "far=2")["task_id"]
    house.run("wait", task_id, "--timeout", "60")
    assert [row["verdict"] for row in house.json("loop", "history", task_id)] == ["not_converged", "converged"]
    start = ("loop", "start", "--template", "count", "--set", "far=9", "--max-iterations", "1")
    short, other = house.json(*start), house.json(*start, "--test", "true")
    house.run("wait", "--all", "--timeout", "60", check=False)
    assert house.json("task", "detail", short["task_id"])["error_code"] == "max_iterations_exceeded"
    assert [row["verdict"] for row in house.json("loop", "history", other["task_id"])] == ["converged"]
    (folder / "plain.yaml").write_text("name: plain\ncommand: 'true'\n")
    assert "loop.until" in house.run("loop", "start", "--template", "plain", check=False).stderr
    (folder / "count.yaml").write_text(TEMPLATE.replace("kind: tests", "kind: wish"))
    refused = house.run("template", "validate", check=False)
    assert refused.returncode != 0 and "loop" in refused.stdout + refused.stderr


@pytest.mark.req("FR-LOOP-007")
def test_the_best_iteration_lands_by_itself_where_the_user_has_said_so(
    coordinate: Callable[..., Coordinated], repo: Path
) -> None:
    house = coordinate(repo)
    work = "case $CORRAL_ITERATION in 2) echo 0.3;; *) echo 0.8;; esac > score.txt"
    limits = ("--target", "<0.2", "--max-iterations", "3", "--land-best")
    task_id = house.json("loop", "start", "--command", work, "--threshold", "cat score.txt", *limits)["task_id"]
    house.run("wait", task_id, "--timeout", "60")
    detail = house.json("task", "detail", task_id)
    assert (detail["error_code"], detail["outcome"]) == ("max_iterations_exceeded", "landed")
    assert git(repo, "show", "main:score.txt").strip() == "0.3"
    assert house.json("status")["needs_you"] == [], "it ended as it was asked to"
