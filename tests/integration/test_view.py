"""The view: what every face shows, composed once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from corral.core.instants import parse
from tests.conftest import commit, git
from tests.support.coordinated import Coordinated, eventually


def view(house: Coordinated) -> dict[str, Any]:
    answer = house.ask("GET", "/status")
    assert isinstance(answer, dict)
    return answer


@pytest.mark.req("FR-MONITOR-002")
def test_the_view_begins_with_what_needs_a_person_and_says_of_which_moment_it_is(house: Coordinated) -> None:
    first = view(house)
    assert list(first)[:4] == ["needs_you", "version", "seq", "composed_at"] and first["version"] == 1
    house.carry_out("later", "true")
    second = view(house)
    assert "tasks     1 completed" in house.run("status").stdout
    assert second["seq"] > first["seq"] and second["recent"][0]["event_id"] <= second["seq"]
    assert {"later"} == {event["title"] for event in second["recent"] if event["task_id"]}
    house.hook("SessionStart", "s-1", source="startup")
    house.hook("SessionEnd", "s-1", reason="other")
    name = house.ask("GET", "/sessions/s-1")["agent_name"]
    shown = [line.split()[1:] for line in house.run("status").stdout.splitlines() if "session.ended" in line]
    assert shown[0] == ["session.ended", name], "people know sessions by their names"
    assert json.loads(house.run("status", "--json").stdout).keys() == first.keys()


@pytest.mark.req("FR-MONITOR-002")
def test_a_running_task_is_shown_with_its_agent_and_age_and_what_is_used_beside_its_limit(
    coordinate: Callable[..., Coordinated],
) -> None:
    house = coordinate(config="supervisor: {max_agents: 3}\nlimits: {memory_mb: 900, cost_usd_per_day: 7.5}\n")
    task_id = house.submit("a long one", "sleep 60")
    (row,) = eventually(lambda: [task for task in view(house)["at_work"] if task["state"] == "running"])
    assert (row["task_id"], row["title"], row["kind"], row["attempt"]) == (task_id, "a long one", "command", 1)
    assert row["agent"] and row["age_s"] >= 0 and row["number"] == 1
    used = view(house)["resources"]
    assert used["agents"] == {"used": 1, "allowed": 3} and used["memory_mb"]["allowed"] == 900
    assert used["cost_usd_per_day"] == {"used": 0, "allowed": 7.5} and used["free_disk_mb"] > 0
    shown = house.run("status").stdout
    assert "running   1 of 3 agents: 1 command" in shown and f"  {row['agent']}" in shown and "1 a long one" in shown
    assert "of 900 MiB of memory" in shown and "$0.00 of 7.5" in shown
    house.run("task", "cancel", task_id)
    eventually(lambda: view(house)["at_work"] == [])


@pytest.mark.req("FR-MONITOR-002")
def test_the_queue_is_shown_in_its_order_with_the_reason_of_each_wait(house: Coordinated) -> None:
    for branch, file in (("first", "src/a.py"), ("second", "src/b.py")):
        git(house.root, "switch", "-q", "-c", branch, "main")
        commit(house.root, {file: "a = 2\n"})
    git(house.root, "switch", "-q", "main")
    house.run("pause")
    for branch in ("first", "second"):
        house.run("merge", "submit", branch)
    status = view(house)
    assert [(row["branch"], row["position"], row["state"]) for row in status["queue"]] == [
        ("first", 1, "queued"),
        ("second", 2, "queued"),
    ]
    assert all("All work is paused" in row["waits_for"] for row in status["queue"])
    shown = house.run("status").stdout
    assert "queue     2" in shown and "1. first -> main  queued: All work is paused" in shown
    (house.root / "src" / "a.py").write_text("a = 3\n")
    house.run("resume")
    held = eventually(lambda: [row for row in view(house)["queue"] if "overlap" in row["waits_for"]])
    assert (held[0]["branch"], held[0]["state"]) == ("first", "held")


def asks(house: Coordinated, session_id: str, tool: str, **tool_input: Any) -> None:
    house.hook("PermissionRequest", session_id, tool_name=tool, tool_input=tool_input)


@pytest.mark.req("FR-MONITOR-002")
def test_a_session_that_asks_its_person_is_named_with_its_work_its_file_and_since_when(house: Coordinated) -> None:
    house.hook("SessionStart", "s-1", source="startup")
    house.hook("UserPromptSubmit", "s-1", prompt="Fix the login")
    assert view(house)["needs_you"] == []
    asks(house, "s-1", "Write", file_path=str(house.root / "src" / "login.py"))
    (need,) = view(house)["needs_you"]
    name = view(house)["sessions"][0]["agent_name"]
    assert (need["kind"], need["ids"]) == ("waiting_session", {"session_id": "s-1"})
    assert need["what"] == f"{name} is waiting for permission for Write of src/login.py. It was asked: Fix the login"
    house.hook("Notification", "s-1", message="Claude needs your permission", notification_type="permission_prompt")
    (again,) = view(house)["needs_you"]
    assert again == need and abs((parse(need["since"]) - parse(view(house)["composed_at"])).total_seconds()) < 60
    assert view(house)["sessions"][0]["waiting_since"] == need["since"]
    house.edit("s-1", "src/login.py")  # it was answered
    assert view(house)["needs_you"] == [] and view(house)["sessions"][0]["waiting_since"] is None
    asks(house, "s-1", "AskUserQuestion")
    (question,) = view(house)["needs_you"]
    assert "is waiting for an answer to its question. It was asked" in question["what"]
    house.hook("Stop", "s-1")
    house.hook("Notification", "s-1", message="Claude is waiting for your input", notification_type="idle_prompt")
    assert view(house)["needs_you"] == []  # at rest it asks nothing
    assert view(house)["sessions"][0]["waiting_for"] == "Claude is waiting for your input"
