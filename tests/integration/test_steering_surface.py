"""Steering the queue and taking work back, at the surface: commands, the daemon's answers, status and the tool of agents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from corral.core.errors import NotPermitted
from corral.faces.mcp.profiles import TOOLS
from tests.conftest import commit, commit_on
from tests.integration.mcp.client import Agent, play
from tests.support.browsing import visitor
from tests.support.coordinated import Coordinated, eventually

VERIFY = """landing:
  verify:
    - while [ -e $(git rev-parse --git-common-dir)/hold ]; do sleep 0.05; done
    - "! ls | grep -q broke && echo '1 passed in 0.01s'"
  reruns: 0
"""
WRITES = "echo {0} > {0}.txt && git add -A && git commit -qm {0}"
ORDERS = (
    ("merge", "skip", "0000"),
    ("merge", "bypass", "0000", "--reason", "x", "--yes"),
    ("merge", "freeze", "main", "--reason", "x"),
    ("merge", "thaw", "main"),
)


def needs(house: Coordinated, kind: str) -> list[dict[str, Any]]:
    return [need for need in house.json("status")["needs_you"] if need["kind"] == kind]


@pytest.fixture
def house(share: Callable[..., Coordinated]) -> Coordinated:
    """Each test leaves its target as it found it: green, and not frozen."""
    return share(config=VERIFY)


def submitted(house: Coordinated, name: str) -> str:
    """A branch with one file that is queued; what the command says."""
    commit_on(house.root, name, {f"{name}.txt": "x\n"})
    return str(house.run("merge", "submit", name, "--target", "main").stdout)


def test_a_person_steers_the_queue_and_an_agent_does_not(house: Coordinated) -> None:
    house.run("daemon", "start")
    for order in ORDERS:
        done = house.run(*order, check=False, CLAUDECODE="1")
        assert done.returncode == NotPermitted.exit_code and "needs a person" in done.stderr, order
    for path, body in {"/targets/freeze": {"reason": "x"}, "/targets/thaw": {}}.items():
        with pytest.raises(NotPermitted):
            house.ask("POST", path, {"target": "main", "session_id": "s-1", **body})
    assert not {name for name in TOOLS if any(word in name for word in ("freeze", "thaw", "skip", "bypass"))}

    house.run("merge", "freeze", "main", "--reason", "A release is being made.")
    (need,) = needs(house, "frozen_target")
    assert need["what"].endswith("A release is being made.") and need["remedy"] == "corral merge thaw main"
    assert "main is frozen since" in need["what"]
    assert "main" in [row["title"] for row in house.json("status")["recent"] if row["kind"] == "target.frozen"]
    assert "A release is being made." in submitted(house, "good")
    good = house.json("merge", "list", "--branch", "good")[0]["merge_id"]
    waited = house.run("wait", good, check=False)
    assert waited.returncode == 1 and "corral merge thaw main" in waited.stdout + waited.stderr
    # While it is verified, that is what is told.
    eventually(lambda: "A release is being made." in house.run("merge", "detail", good).stdout)
    assert house.ask("GET", "/targets/stopped")[0]["target"] == "main"
    let = house.json("merge", "bypass", good, "--reason", "It is text.", "--yes")
    assert "A release is being made." in let["reason"], "it lands once that is over"
    shown = house.run("merge", "detail", good).stdout
    assert "place       1\n" in shown and "let it land without a verification: It is text." in shown

    assert house.json("merge", "thaw", "main") == {"target": "main", "was_frozen": True, "verifies": False}
    house.run("wait", good, "--timeout", "60")


def test_a_bypass_is_on_record_and_what_it_breaks_is_told_until_it_is_reverted(house: Coordinated) -> None:
    hold = house.root / ".git" / "hold"
    hold.touch()
    submitted(house, "broken")
    merge_id = house.json("merge", "list", "--branch", "broken")[0]["merge_id"]
    asked = house.run("merge", "bypass", merge_id, "--reason", "It is urgent.", check=False)
    assert "Nothing verifies it" in asked.stdout and asked.returncode != 0, "nobody can be asked here"
    house.run("merge", "bypass", merge_id, "--reason", "It is urgent.", "--yes")
    house.run("wait", merge_id, "--timeout", "60", check=False)
    detail = house.json("merge", "detail", merge_id)
    assert detail["state"] == "landed" and detail["receipt"]["status"] == "bypassed"
    assert "let it land without a verification: It is urgent." in house.run("merge", "detail", merge_id).stdout
    browser = visitor(house)
    eventually(lambda: "<bdi>main</bdi> as it is" in browser.get("/queue").text)
    assert "Verification of main as it is: running" in browser.get("/timeline").text
    hold.unlink()
    (red,) = eventually(lambda: needs(house, "red_target"))
    assert "It is urgent." in red["what"] and "corral merge thaw main" in red["remedy"]

    undone = house.json("merge", "revert", merge_id)
    house.run("wait", undone["merge_id"], "--timeout", "60")
    eventually(lambda: not needs(house, "red_target"))
    assert house.json("merge", "detail", merge_id)["reverted_by"] == undone["merge_id"]
    assert f"taken back by {undone['merge_id'][:8]}" in house.run("merge", "list").stdout

    def actions() -> dict[str, Any]:
        return {line["action"]: line for line in house.json("audit") if "error" not in line["result"]}

    eventually(lambda: {"merge.bypass", "merge.revert"} <= set(actions()))
    reasons = [line["parameters"]["reason"] for line in house.json("audit") if line["action"] == "merge.bypass"]
    assert "It is urgent." in reasons


def test_a_revert_names_what_was_built_on_the_work_and_an_agent_can_ask_for_it(house: Coordinated) -> None:
    first = house.submit("one", WRITES.format("one"))
    second = house.submit("two", WRITES.format("two"), "--wait-for", first)
    third = house.submit("three", WRITES.format("three"), "--wait-for", second)
    house.run("wait", first, second, third, "--timeout", "60")
    output = house.run("merge", "revert", first).stdout
    assert "These tasks were built on what it takes back" in output and "two" in output and "three" in output
    house.run("wait", "--all", "--timeout", "60")
    assert not (house.root / "one.txt").exists() and (house.root / "three.txt").exists()
    assert ", and taken back by " in house.run("task", "detail", first).stdout
    merge = house.json("task", "detail", second)["merge"]["merge_id"]

    async def scene(agent: Agent) -> None:
        answer = await agent.call("revert_merge", merge_id=merge)
        assert answer["reverts"] == merge and [row["title"] for row in answer["dependents"]] == ["three"]

    play(house, scene, profile="queue")
    eventually(lambda: not (house.root / "two.txt").exists())
    commit(house.root, {"three.txt": "mine\n"})
    output = house.run("merge", "revert", third).stdout
    assert "three.txt (modify/delete)" in output and "corral merge open" in output
