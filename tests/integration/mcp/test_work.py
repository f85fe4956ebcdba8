"""Work through MCP: submitted, claimed, completed, read; branches handed in; what a session may look up."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from corral.core.errors import NotFound
from tests.conftest import commit, git
from tests.integration.mcp.client import Agent, play
from tests.support.coordinated import Coordinated, eventually

READ = {
    "task_id", "task_type", "status", "input_data", "result", "error_message", "priority", "created_at", "completed_at",
}  # fmt: skip
UNKNOWN = "00000000-0000-4000-8000-000000000000"


async def until_it_is(agent: Agent, task_id: str, status: str) -> dict[str, Any]:
    """The task, read again and again until it is in a state."""
    deadline = time.monotonic() + 45
    while True:
        task = await agent.call("get_task", task_id=task_id)
        if task["status"] == status:
            return dict(task)
        assert time.monotonic() < deadline, task


@pytest.mark.req("GETTASK-1", "GETTASK-2", "GETTASK-3")
def test_work_goes_from_hand_to_hand(house: Coordinated) -> None:
    async def scene(one: Agent, two: Agent) -> None:
        answer = await one.call(
            "submit_work",
            task_type="review",
            description="Look at it.\nAll of it.",
            input_data={"b": [1]},
            thread_id="batch-1",
        )
        assert answer["success"]
        task_id = answer["task_id"]
        second = (
            await one.call("submit_work", task_type="build", description="Then this.", depends_on=[task_id], priority=9)
        )["task_id"]
        assert {row["task_id"]: row["status"] for row in await one.read("work://pending")} == {
            task_id: "pending",
            second: "waiting",
        }
        assert await two.call("get_work", task_types=["build"]) == {"success": False, "reason": "no_tasks_available"}
        got = await two.call("get_work", task_types=["review", "else"])
        shown = {
            name: got[name] for name in ("success", "task_id", "task_type", "description", "input_data", "priority")
        }
        assert shown == {
            "success": True,
            "task_id": task_id,
            "task_type": "review",
            "description": "Look at it.\nAll of it.",
            "input_data": {"b": [1]},
            "priority": 5,
        }
        assert got["deadline"] is None and got["lease_expires_at"] and got["thread_id"] == "batch-1"
        assert (await one.call("get_work"))["reason"] == "no_tasks_available"
        refused = await one.call("complete_work", task_id=task_id, success=True)
        assert (refused["success"], refused["reason"]) == (False, "task_not_found_or_not_claimed_by_agent")
        done = await two.call("complete_work", task_id=task_id, success=True, result={"verdict": {"ok": True}})
        assert done == {"success": True, "status": "completed", "task_id": task_id}

        # Whoever has the next package reads what the one before has left, and changes nothing by it.
        assert (await one.call("get_work"))["task_id"] == second
        before = house.ask("GET", f"/tasks/{task_id}/detail")
        read = await one.call("get_task", task_id=task_id)
        assert set(read) == READ | {"success", "task"}
        assert (read["status"], read["result"]) == ("completed", {"verdict": {"ok": True}})
        answer = {name: read[name] for name in ("task_id", "task_type", "input_data", "error_message", "priority")}
        assert answer == {
            "task_id": task_id, "task_type": "review", "input_data": {"b": [1]}, "error_message": None, "priority": 5
        }  # fmt: skip
        assert read["created_at"] < read["completed_at"]
        over_http = house.ask("GET", f"/tasks/{task_id}")
        assert over_http == {name: read[name] for name in READ}
        assert house.ask("GET", f"/tasks/{task_id}/detail") == before
        missing = await one.call("get_task", task_id=UNKNOWN)
        assert (missing["success"], missing["error"], missing["reason"]) == (False, "not_found", "task_not_found")
        for unknown in (UNKNOWN, "nonsense"):
            with pytest.raises(NotFound):
                house.ask("GET", f"/tasks/{unknown}")

    play(house, scene, agents=2)


def test_work_returns_when_its_session_ends_and_outlives_a_restart_of_the_daemon(house: Coordinated) -> None:
    async def keeps(agent: Agent) -> str:
        task_id = str((await agent.call("submit_work", task_type="t", description="long"))["task_id"])
        assert (await agent.call("get_work"))["task_id"] == task_id
        house.kill_daemon()
        assert (await agent.call("get_task", task_id=task_id))["status"] == "running"
        return task_id

    task_id = play(house, keeps)
    eventually(lambda: house.ask("GET", f"/tasks/{task_id}")["status"] == "pending")
    assert house.json("task", "claim", CLAUDE_CODE_SESSION_ID="me")["task_id"] == task_id
    assert house.json("session", "show", "me")["current_task"] == "long"
    done = house.json("task", "complete", task_id, "--result", '{"n": 1}', CLAUDE_CODE_SESSION_ID="me")
    assert done["status"] == "completed" and house.json("session", "show", "me")["current_task"] is None
    assert house.ask("GET", f"/tasks/{task_id}")["result"] == {"n": 1}


def test_work_whose_answer_was_lost_is_neither_hidden_nor_done_twice(house: Coordinated) -> None:
    async def scene(one: Agent, two: Agent) -> None:
        async def submit(description: str, key: str) -> Any:
            return await one.call("submit_work", task_type="t", description=description, idempotency_key=key)

        task_id = (await submit("first", "k"))["task_id"]
        assert (await submit("first", "k"))["task_id"] == task_id
        other = await submit("another", "k")
        assert (other["error"], other["details"]["task_id"]) == ("idempotency_key_conflict", task_id)
        second = (await submit("another", "l"))["task_id"]
        assert "also_held" not in (got := await two.call("get_work")) and got["task_id"] == task_id
        # That answer never came: the session asks again, and learns of both.
        got = await two.call("get_work")
        assert (got["task_id"], [task["task_id"] for task in got["also_held"]]) == (second, [task_id])
        none = await two.call("get_work")
        assert (none["reason"], len(none["also_held"])) == ("no_tasks_available", 2)
        assert await one.call("get_work") == {"success": False, "reason": "no_tasks_available"}
        answers = [
            await two.call("complete_work", task_id=task_id, success=True, result={"x": 1}) for _twice in range(2)
        ]
        assert answers[0] == answers[1] and answers[0]["success"]

    play(house, scene, agents=2)
    mine: dict[str, Any] = {"CLAUDE_CODE_SESSION_ID": "me"}
    house.run("task", "submit", "--title", "x", "--description", "for the one at the keyboard")
    assert "also_held" not in house.json("task", "claim", **mine)
    assert "You already hold" in house.run("task", "claim", **mine).stdout


def test_a_branch_is_handed_in_from_the_worktree_that_has_it(house: Coordinated) -> None:
    place = Path(house.json("worktree", "create", "mine")["path"])
    commit(place, {"new.txt": "new\n"}, "A new file")
    (place / "left.txt").write_text("not committed\n")

    async def scene(agent: Agent) -> None:
        asked = await agent.call("request_merge")
        assert (asked["success"], asked["branch"], asked["target"]) == (True, "corral/mine", "main")
        assert asked["uncommitted"] == ["left.txt"] and "commit them" in asked["warning"]
        house.run("wait", "--all", "--timeout", "60")
        status = await agent.call("merge_status", merge_id=asked["merge_id"])
        assert (status["state"], status["landed_sha"]) == ("landed", git(house.root, "rev-parse", "main"))
        assert (await agent.call("merge_status", branch="corral/mine"))["merge_id"] == asked["merge_id"]
        assert await agent.call("merge_status") == {"success": True, "merges": []}
        assert await agent.call("list_flakes") == {"success": True, "flakes": []}
        assert await agent.read("merges://queue") == []
        again = await agent.call("request_merge")
        assert (again["success"], again["merge_id"]) == (True, None) and "nothing to merge" in again["message"]
        assert (await agent.call("merge_status", branch="nobody"))["error"] == "not_found"
        assert (await agent.call("request_merge", branch="main"))["error"] == "invalid_input"

    play(house, scene, profile="full", cwd=place)


def test_help_is_short_and_leads_on(house: Coordinated) -> None:
    async def scene(agent: Agent) -> None:
        topics = (await agent.call("help"))["topics"]
        for topic in topics:
            text = (await agent.call("help", topic=topic))["text"]
            assert 0 < len(text) <= 800, topic
        assert (await agent.call("help", topic="nonsense"))["error"] == "not_found"
        bad = await agent.call("submit_work", task_type="t", description="x", priority=11)
        assert (bad["error"], bad["details"]["errors"][0]["field"]) == ("invalid_input", "priority")
        assert json.dumps(await agent.read("work://pending")) == "[]"

    play(house, scene)


@pytest.mark.req("FR-LOOP-001")
def test_work_can_be_a_loop(house: Coordinated) -> None:
    async def scene(agent: Agent) -> None:
        work = {"task_type": "build", "description": "Count to two.", "command": "echo x >> count.txt"}
        until = [{"kind": "tests", "command": "test $(wc -l < count.txt) -ge 2"}]
        answer = await agent.call("submit_work", **work, loop={"until": until})
        await until_it_is(agent, answer["task_id"], "completed")
        assert [row["verdict"] for row in house.json("loop", "history", answer["task_id"])] == [
            "not_converged",
            "converged",
        ]
        refused = await agent.call("submit_work", **work, loop={"until": [{"kind": "wish"}]})
        assert refused["success"] is False and "loop" in str(refused)

    play(house, scene)
