"""A workflow of five steps over three items lands as one tree, whatever becomes of the daemon."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.coordinated import Coordinated, eventually
from tests.support.files import executable, put

FEATURE = """
name: feature
description: Specify, test, build and review each part, then sum up.
parameters:
  PARTS: {type: list, description: What the feature is made of.}
claims: ["src/{{ PARTS }}"]
steps:
- name: specification
  for_each: PARTS
  command: mkdir -p docs && echo spec of {{ ITEM }} > docs/{{ ITEM }}.md && echo specified {{ ITEM }}
- name: tests
  for_each: PARTS
  wait_for: [specification]
  command: part={{ ITEM }}; mkdir -p tests && echo "test -f 'src/$part.txt'" > "tests/$part.sh"
- name: implementation
  for_each: PARTS
  wait_for: [tests]
  command: |
    part={{ ITEM }}
    mkdir -p src
    while ! test -e "$GATE"; do sleep 0.05; done
    test "$CORRAL_ITERATION" = 1 || echo built $part > "src/$part.txt"
    echo built $part
  loop: {until: [{kind: tests, command: "sh tests/{{ ITEM }}.sh"}], max_iterations: 3}
- name: review
  for_each: PARTS
  wait_for: [implementation]
  command: cat src/{{ ITEM }}.txt && cp "$CORRAL_RESULTS_FILE" review-{{ ITEM }}.json && echo good {{ ITEM }}
- name: summary
  wait_for: [review]
  agent: scribe
  agents: 2
  combine: vote
  prompt: Sum up {{ PARTS }}.
"""
SCRIBE = """#!/bin/sh
cat > asked.txt && cp "$CORRAL_RESULTS_FILE" summary.json && cat src/*.txt > all.txt && echo summed up
"""
ITEMS = ["login", "search page", "export"]
"""One has a space: a command gets it as one word."""
TOLD = "These steps came before; what they changed is in your worktree. Their reports:"
EACH = ["specification", "tests", "implementation", "review"]


def scribe(folder: Path) -> str:
    """The definition of an agent whose program keeps what it is asked."""
    program = executable(folder / "scribe", SCRIBE)
    return f"---\nname: scribe\ndescription: Sums up.\nrunner: command\ncommand: [{program}]\n---\n\nBe short.\n"


def write(house: Coordinated, name: str, text: str) -> None:
    folder = house.root / ".corral" / "templates"
    put(folder / f"{name}.yaml", text)


@pytest.mark.slow("seventeen tasks with their landings, and the daemon killed between them")
@pytest.mark.req("FR-QUEUE-008", "FR-LOOP-001", "FR-TMPL-004", "FR-SWARM-003")
def test_five_steps_over_three_items_land_as_one_tree_while_the_daemon_is_killed(
    coordinate: Callable[..., Coordinated],
) -> None:
    house = coordinate(config="tasks: {retry_initial_s: 0.1, retry_max_s: 0.2}\n")
    gate = house.root.parent / "gate"
    write(house, "feature", FEATURE.replace('claims: ["src/{{ PARTS }}"]\n', "").replace("$GATE", str(gate)))
    put(house.root / ".claude" / "agents" / "scribe.md", scribe(house.root.parent))
    house.trust()
    assert house.json("template", "validate") == {"valid": True, "checked": 1, "errors": []}
    values = "[" + ", ".join(f'"{item}"' for item in ITEMS) + "]"
    root = house.json("task", "submit", "--template", "feature", "--set", f"PARTS={values}")["task_id"]

    def tree() -> dict[str, dict[str, Any]]:
        return {step["step"]: step for step in house.json("task", "detail", root)["steps"]}

    first = tree()
    assert list(first) == [*(f"{step}[{item}]" for step in EACH for item in ITEMS), "summary"]
    ids = {name: step["task_id"] for name, step in first.items()}
    assert first["tests[login]"]["wait_for"] == [ids["specification[login]"]], "an item's own"
    assert first["summary"]["wait_for"] == [ids[f"review[{item}]"] for item in ITEMS], "each of them"

    eventually(lambda: [tree()[f"implementation[{item}]"]["status"] for item in ITEMS] == ["running"] * 3)
    house.kill_daemon()
    gate.touch()
    house.run("wait", root, "--timeout", "85", check=False)
    detail = house.json("task", "detail", root)
    assert detail["status"] == "completed", detail["error_message"]
    landed = [*(f"{step}[{item}]" for step in EACH for item in ITEMS), "summary"]
    assert {name: step["outcome"] for name, step in tree().items()} == dict.fromkeys(landed, "landed")
    assert (detail["outcome"], detail["attempts"]) == ("nothing to land", 0), "it does nothing itself"
    (last,) = detail["result"]["steps"].values()
    assert (last["output"], last["votes"]) == ("summed up", {"for": 2, "of": 2}), (
        "two did it, one result came of theirs"
    )
    assert (house.root / "all.txt").read_text() == "".join(f"built {item}\n" for item in sorted(ITEMS))
    content = json.loads((house.root / "summary.json").read_text())
    assert [(step["step"], step["status"]) for step in content] == [(f"review[{item}]", "completed") for item in ITEMS]
    asked = (house.root / "asked.txt").read_text()
    assert "Sum up login, search page, export." in asked
    reports = [f"## review[{item}]\nbuilt {item}\ngood {item}" for item in ITEMS]
    assert asked.strip().endswith("\n\n".join([TOLD, *reports])), "a prompt has what the steps before it reported"
    rows = {row["task_id"]: row["parent_task_id"] for row in house.json("task", "list")}
    assert set(rows) == {root, *ids.values(), *house.json("task", "detail", ids["summary"])["followers"]}
    assert [parent for task_id, parent in rows.items() if task_id in ids.values()] == [root] * len(ids)
    assert house.json("loop", "status", ids["implementation[login]"])["status"] == "completed"
