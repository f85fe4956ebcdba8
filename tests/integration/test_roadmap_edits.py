"""What is edited in a roadmap while it is worked on: what takes effect, what needs an approval, and what a status says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import commit, commit_all, git
from tests.integration.planned import Plan, noted, queued
from tests.support.coordinated import Coordinated, eventually


@pytest.mark.req("SUP-FR1")
def test_every_change_of_a_task_that_waits_reaches_the_queue(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate()
    house.run("pause")
    names = ("priority", "claims", "agent", "retries", "needs", "broken", "same")
    plan = Plan(house, "".join(f"- {{id: {name}, command: 'true'}}\n" for name in names))
    house.run("supervisor", "start")
    eventually(lambda: set(queued(house)) == set(names))
    before = queued(house)
    plan.edit("{id: priority,", "{id: priority, priority: critical,")
    plan.edit("{id: claims,", "{id: claims, claims: [src/a.py],")
    plan.edit("{id: agent,", "{id: agent, agent: nobody,")
    plan.edit("{id: retries,", "{id: retries, max_retries: 2, timeout_s: 7,")
    plan.edit("{id: needs,", "{id: needs, dependencies: [same],")
    plan.edit("{id: broken,", "{id: broken, runner: abacus,")
    eventually(lambda: queued(house).get("priority", {}).get("priority") == 10)
    eventually(lambda: set(queued(house)) == {"priority", "claims", "retries", "same"})
    after = queued(house)
    assert after["priority"]["task_id"] == before["priority"]["task_id"], "it keeps its place"
    assert after["claims"]["claims"] == ["src/a.py"]
    (problem, _of_broken) = house.json("supervisor", "status")["problems"][::-1]
    assert problem["id"] == "agent" and "nobody" in problem["message"]
    assert (after["retries"]["max_retries"], after["retries"]["timeout_s"]) == (2, 7)
    assert after["same"]["task_id"] == before["same"]["task_id"]
    house.run("task", "reprioritize", after["same"]["task_id"], "9")
    plan.edit("{id: broken, runner: abacus,", "{id: broken,")
    eventually(lambda: "broken" in queued(house))
    assert queued(house)["same"]["priority"] == 9, "what the file did not change is not taken back"
    house.run("supervisor", "stop")
    plan.edit("{id: same,", "{id: same, claims: [src/b.py],")
    assert "stays in the queue as it was" in noted(house)["same"]
    house.run("supervisor", "start")
    eventually(lambda: queued(house).get("same", {}).get("claims") == ["src/b.py"])


@pytest.mark.req("SUP-FR1")
def test_a_change_between_two_attempts_counts_and_one_of_a_task_that_runs_is_named(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house = coordinate(config="tasks: {max_retries: 5, retry_initial_s: 3600, retry_max_s: 3600}\n")
    gate, failing, other = tmp_path / "gate", tmp_path / "failing", tmp_path / "other"
    wait = "until test -e {}; do sleep 0.05; done".format
    plan = Plan(
        house,
        f"- {{id: A, command: '{wait(gate)}'}}\n- {{id: B, command: '{wait(failing)}; exit 3'}}\n"
        f"- {{id: C, command: '{wait(failing)}; exit 3'}}\n",
    )
    house.run("supervisor", "start")
    plan.until(A="in_progress", B="in_progress", C="in_progress")
    failing.touch()
    eventually(
        lambda: {(queued(house)[name]["status"], queued(house)[name]["attempts"]) for name in "BC"} == {("pending", 1)}
    )
    plan.edit(
        f"{{id: B, status: in_progress, command: '{wait(failing)}; exit 3'}}", f"{{id: B, command: 'touch {other}'}}"
    )
    plan.until(B="done")
    assert other.exists()
    plan.edit(
        f"id: C, status: in_progress, command: '{wait(failing)}; exit 3'", "id: C, status: in_progress, command: 'true'"
    )
    plan.until(C="done")
    running = queued(house)["A"]["task_id"]
    plan.edit("{id: A, status: in_progress, ", "{id: A, status: in_progress, title: Other, ")
    assert "goes on as it was" in noted(house)["A"] and f"corral task cancel {running[:8]}" in noted(house)["A"]
    plan.edit("status: in_progress, title: Other", "status: blocked, title: Other")
    assert "says blocked, but its task goes on" in noted(house)["A"]
    line = plan.path.read_text().splitlines(keepends=True)[0]
    plan.edit(line, "")
    assert "is not in the file any more" in noted(house)["A"]
    plan.write(line + plan.path.read_text())
    gate.touch()
    plan.until(A="done")
    assert queued(house) == {} and noted(house) == {}
    plan.edit("id: A, status: done", "id: A, status: in_progress")
    assert "its task is over" in noted(house)["A"]


@pytest.mark.req("SUP-FR1")
def test_a_task_whose_merge_waits_for_approval_says_so(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate(verify=("sh check.sh",))
    commit(house.root, {"check.sh": "true\n"}, "the verification")
    plan = Plan(
        house, "- {id: A, command: 'echo \"# more\" >> check.sh'}\n- {id: B, dependencies: [A], command: 'true'}\n"
    )
    house.run("supervisor", "start")
    note = eventually(lambda: noted(house).get("A"))
    merge = house.json("merge", "list")[0]["merge_id"]
    assert note.startswith("waits to land: ") and note.endswith(f"corral merge approve {merge[:8]}")
    assert f"corral merge approve {merge[:8]}" in house.run("supervisor", "status").stdout
    plan.until(A="in_progress", B="pending")
    house.run("merge", "approve", merge, "--yes")
    plan.until(A="done", B="done")
    assert noted(house) == {}


@pytest.mark.req("SUP-FR1")
def test_what_the_roadmap_executes_is_approved_by_a_start_and_later_changes_by_trust(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house = coordinate()
    marker = tmp_path / "marker"
    plan = Plan(house, "- {id: A, command: 'true'}\n- {id: B, dependencies: [A], command: 'true'}\n")
    by_agent = house.json("supervisor", "start", CORRAL_TASK_ID="a-worker")
    assert [claim["key"] for claim in by_agent["unapproved"]] == ["roadmap.A", "roadmap.B"], "an agent approves nothing"
    assert "corral trust" in noted(house)["A"] and house.json("task", "list") == []
    house.run("supervisor", "start")
    plan.until(A="done", B="done")  # what Corral writes itself needs no approval
    pulled = plan.path.read_text() + f"- {{id: C, command: 'touch {marker}'}}\n"
    commit_all(house.root, "ours", ".corral/state/roadmap.yaml", force=True)
    plan.write(pulled, approved=False)
    git(house.root, "commit", "-qam", "theirs, as a pull brings it")

    def needs() -> list[Any]:
        return [need for need in house.json("status")["needs_you"] if need["kind"] == "unapproved_roadmap"]

    (need,) = eventually(needs)
    assert need["what"].endswith(": C.") and need["remedy"] == "corral trust"
    assert "waits until you have approved what it executes: corral trust" in house.run("supervisor", "status").stdout
    house.run("daemon", "restart")
    eventually(needs)
    plan.edit("{id: C,", "{id: C, priority: high,", approved=False)
    house.json("supervisor", "start", CLAUDECODE="1")
    eventually(needs)
    assert not marker.exists()
    (shown,) = house.json("trust", "--yes")["approved"]
    assert (shown["key"], shown["value"]["command"]) == ("roadmap.C", f"touch {marker}")
    assert shown["source"] == ".corral/state/roadmap.yaml"
    plan.until(C="done")
    assert marker.exists() and not needs()
    house.run("pause")
    plan.edit("- {id: C,", f"- {{id: D, command: 'echo x > {marker}'}}\n- {{id: C,")
    eventually(lambda: set(queued(house)) == {"D"})
    plan.edit(f"echo x > {marker}", f"rm {marker}", approved=False)
    eventually(lambda: queued(house) == {} and needs())
    house.run("resume")
    assert house.json("supervisor", "status")["unapproved"][0]["value"]["command"] == f"rm {marker}"
    house.run("supervisor", "stop")
    assert not needs() and house.json("trust", "--yes")["approved"] == []
    house.run("supervisor", "once")
    plan.until(D="done")
    assert not marker.exists()
