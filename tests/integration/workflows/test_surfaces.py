"""Workflows from the command line, over HTTP, in batches and by MCP; refused as a whole, cancelled and failed as a whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from corral.core.errors import CorralError
from tests.integration.mcp.client import Agent, play
from tests.integration.workflows.test_lands import write
from tests.support.browsing import visitor
from tests.support.coordinated import Coordinated, eventually
from tests.support.screens import Player
from tests.support.screens import play as open_screen

EACH = """
name: each
description: Do each, then sum up.
parameters:
  PARTS: {type: list}
  THEN: {default: "true"}
steps:
- name: do
  for_each: PARTS
  command: |
    part={{ ITEM }}
    test -e "$CORRAL_PROJECT/$part" && sleep 600
    test "$part" != bad || test -e $CORRAL_PROJECT/mended
- {name: sum, wait_for: [do], command: "sh -c {{ THEN }}"}
"""


def steps_of(house: Coordinated, root: str) -> dict[str, Any]:
    detail = house.ask("GET", f"/tasks/{root}/detail")
    return {step["step"]: step for step in detail["steps"]}


def outcomes(house: Coordinated, root: str) -> dict[str, str]:
    return {name: step["outcome"] for name, step in steps_of(house, root).items()}


def test_every_surface_makes_the_same_tree(house: Coordinated) -> None:
    write(house, "each", EACH)
    values = {"PARTS": ["a", "b"]}
    by_http = house.ask("POST", "/tasks", {"template": "each", "input_data": values})["task_id"]
    file = house.root.parent / "batch.json"
    entries = [
        {"template": "each", "name": "w", "input_data": {"PARTS": ["a"]}},
        {"title": "t", "command": "true", "wait_for": ["w"]},
    ]
    file.write_text(json.dumps(entries))
    in_batch, after = house.json("task", "batch-submit", "--file", str(file))["task_ids"]
    typed = house.json("task", "submit", "--template", "each", "--set", "PARTS=a,b")["task_id"]

    made: list[str] = []

    async def scene(agent: Agent) -> None:
        asked = {"task_type": "x", "description": "d", "template": "each", "input_data": values}
        made.append((await agent.call("submit_work", **asked))["task_id"])

    play(house, scene)
    (by_mcp,) = made
    for root in (by_http, typed, by_mcp):
        assert list(steps_of(house, root)) == ["do[a]", "do[b]", "sum"]
    assert list(steps_of(house, in_batch)) == ["do[a]", "sum"]
    house.run("wait", by_http, in_batch, typed, by_mcp, after, "--timeout", "85")
    assert outcomes(house, by_mcp) == dict.fromkeys(("do[a]", "do[b]", "sum"), "nothing to land")
    shown = house.run("task", "detail", typed).stdout
    ids = {name: step["task_id"][:8] for name, step in steps_of(house, typed).items()}
    assert f"  do[a]  nothing to land  {ids['do[a]']}\n  do[b]  nothing to land  {ids['do[b]']}\n" in shown
    assert "└ sum: Do each" in house.run("task", "list").stdout
    assert visitor(house).get(f"/tasks/{in_batch}").text.count("└ ") == 1, "below the one that it waits for"

    async def look(player: Player) -> None:
        await player.press("2", "slash", *in_batch[:8], "enter", "g", "enter")
        lines = await player.sees("Its steps", "do[a]", "sum")
        first, then = (next(line for line in lines if f" {name}  nothing to land" in line) for name in ("do[a]", "sum"))
        assert len(then) - len(then.lstrip()) == len(first) - len(first.lstrip()) + 2, "and so on the screen"

    open_screen(house, look, (100, 60))
    refused = house.run("task", "feedback", typed, "--rating", "4", check=False)
    assert refused.returncode == 2 and "give feedback on its steps" in refused.stderr
    listed = {row["name"]: row for row in house.json("template", "list")}
    assert listed["each"]["kind"] == "steps" and "  do\n" in house.run("template", "show", "each").stdout


def test_a_failed_step_is_named_and_the_whole_goes_on_when_it_is_tried_again(house: Coordinated) -> None:
    write(house, "each", EACH)
    root = house.json("task", "submit", "--template", "each", "--set", "PARTS=bad,good")["task_id"]
    assert house.run("wait", root, "--timeout", "60", check=False).returncode == 1
    detail = house.json("task", "detail", root)
    failed = detail["steps"][0]["task_id"]
    assert (detail["status"], detail["error_code"]) == ("failed", "dependency_failed")
    assert detail["error_message"].startswith(f"Its step do[bad] ({failed}) is dead: The command exited with 1")
    assert outcomes(house, root) == {"do[bad]": "dead", "do[good]": "nothing to land", "sum": "failed"}
    needs = [need for need in house.json("status")["needs_you"] if need["kind"] == "failed_task"]
    assert len(needs) == 1 and failed[:8] in json.dumps(needs), "one thing is wrong, and it is said once"
    (house.root / "mended").touch()
    house.run("task", "retry", failed)
    house.run("wait", root, "--timeout", "60")
    assert house.json("task", "detail", root)["status"] == "completed"
    assert outcomes(house, root) == dict.fromkeys(("do[bad]", "do[good]", "sum"), "nothing to land")


def test_a_follower_that_is_no_step_is_shown_beside_the_steps(house: Coordinated) -> None:
    write(house, "each", EACH)
    (house.root / "a").touch()
    root = house.json("task", "submit", "--template", "each", "--set", "PARTS=a")["task_id"]
    follower = house.submit("follower", "sleep 600", "--parent", root)
    assert list(steps_of(house, root)) == ["do[a]", "sum"]
    shown = house.run("task", "detail", root).stdout
    assert f"  leads     {follower[:8]}\n" in shown and "  do[a]  " in shown
    assert follower in house.ask("GET", f"/tasks/{root}/detail")["followers"]
    page = visitor(house).get(f"/tasks/{root}").text
    assert "do[a]" in page and "<bdi>None</bdi>" not in page
    house.run("task", "cancel", root)


def test_a_cancelled_whole_ends_its_steps_also_when_the_daemon_dies_meanwhile(
    coordinate: Callable[..., Coordinated],
) -> None:
    house = coordinate(config="supervisor: {stop_grace_s: 0.5}\n")
    write(house, "each", EACH)
    (house.root / "a").touch()
    root = house.json("task", "submit", "--template", "each", "--set", "PARTS=a,b")["task_id"]
    eventually(
        lambda: outcomes(house, root)["do[a]"] == "running" and outcomes(house, root)["do[b]"] == "nothing to land"
    )
    house.run("task", "cancel", root)
    house.kill_daemon()
    ended = {"do[a]": "cancelled", "do[b]": "nothing to land", "sum": "cancelled"}
    eventually(lambda: outcomes(house, root) == ended)
    assert house.json("task", "detail", root)["status"] == "cancelled"


BAD: list[tuple[tuple[str, str], Any, str, str]] = [
    (("[do]", "[nobody]"), ["a"], "template", "there is no step 'nobody'"),
    (("- name: do\n", "- name: do\n  wait_for: [sum]\n"), ["a"], "template", "circular dependency: do → sum → do"),
    (("{name: sum,", "{name: do,"), ["a"], "template", "a step 'do' already"),
    (("for_each: PARTS", "for_each: PART"), ["a"], "template", "there is no parameter 'PART'"),
    (("for_each: PARTS", "for_each: THEN"), ["a"], "template", "of type list"),
    (("", ""), [], "input_data.PARTS", "has no item"),
    (("", ""), [str(n) for n in range(1001)], "input_data.PARTS", "at most 1000 items"),
    (("", ""), "a", "input_data.OTHER", "no such parameter"),
    (('command: "sh', 'claims: [../out], command: "sh'), ["a"], "steps.sum.claims", "out"),
    (('command: "sh -c {{ THEN }}"', "prompt: p, agent: Nobody"), ["a"], "steps.sum.agent", "Nobody"),
    (('command: "sh', 'target: nowhere, command: "sh'), ["a"], "steps.sum.target", "no branch 'nowhere'"),
]
"""What is replaced in the template by what, the values of ``PARTS``, the wrong field, and a part of what is said of it."""


@pytest.mark.req("FR-QUEUE-007")
def test_a_bad_one_is_refused_as_a_whole_with_the_place(house: Coordinated) -> None:
    for change, values, field, part in BAD:
        write(house, "each", EACH.replace(*change) if change[0] else EACH)
        input_data = {"PARTS": values, **({"OTHER": 1} if "OTHER" in field else {})}
        item = {"template": "each", "input_data": input_data}
        for path, body in (("/tasks", item), ("/tasks/batch", {"tasks": [{"title": "t", "command": "true"}, item]})):
            with pytest.raises(CorralError) as refused:
                house.ask("POST", path, body)
            errors = refused.value.details["errors"]
            index = 1 if "batch" in path else 0
            assert [(error["index"], error["field"]) for error in errors] == [(index, field)], (part, path)
            assert part in errors[0]["message"], (part, path)
    assert house.ask("GET", "/tasks") == []


def test_one_that_is_too_large_or_too_deep_is_refused_as_a_whole(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate(config="queue: {max_size: 4}\nsupervisor: {max_depth: 2}\n")
    write(house, "each", EACH)
    full = house.run("task", "submit", "--template", "each", "--set", "PARTS=a,b,c", check=False)
    assert full.returncode == 4 and "5 more were submitted, 4 are allowed" in full.stderr
    leader = house.submit("leader", "sleep 600")
    below = ("task", "submit", "--template", "each", "--set", "PARTS=a", "--parent", leader)
    deep = house.run(*below, check=False)
    assert deep.returncode == 2 and "would be 3 levels deep; 2 are allowed" in deep.stderr
    assert [row["task_id"] for row in house.json("task", "list")] == [leader]
    house.run("task", "cancel", leader)
