"""The supervisor of the roadmap with a real daemon: the file is worked off, and says how its tasks stand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import git
from tests.integration.planned import Plan, runs
from tests.support.coordinated import Coordinated, eventually

PLAN = """\
# What we do.
epics:
- id: E
  milestones:
  - id: M
    tasks:
    - id: base      # first of all
      title: "Lay the base"
      status:   pending
      command: echo base > base.txt

    - {id: top, title: On top, status: pending, dependencies: [base, side], command: 'cat base.txt side.txt > top.txt'}
tasks:
    - id: side
      title: Beside
      command: echo side > side.txt
    - id: nothing
      title: Changes nothing
      status: "pending"
      dependencies: [top]
      command: 'true'
"""


@pytest.mark.req("SUP-AC1", "SUP-AC5", "SUP-FR1")
def test_a_roadmap_is_worked_off_in_the_order_of_its_dependencies(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate()
    plan = Plan(house, PLAN)
    started = house.json("supervisor", "start")
    assert started["supervised"] is True and started["since_at"] and started["error"] is None
    plan.until(base="done", side="done", top="done", nothing="done")
    assert git(house.root, "show", "main:top.txt") == "base\nside"
    for begin in (
        "roadmap:",
        "member:",
    ):  # with such a key its task would be taken for one of the roadmap, and withdrawn
        key = ("--idempotency-key", f"{begin}mine")
        refused = house.run("task", "submit", "--title", "mine", "--command", "true", *key, check=False)
        assert refused.returncode == 2 and f"'{begin}' is for Corral's own tasks" in refused.stderr
    expected = (
        PLAN.replace("status:   pending", "status:   done")
        .replace("title: On top, status: pending", "title: On top, status: done")
        .replace("- id: side\n", "- id: side\n      status: done\n")
        .replace('status: "pending"', 'status: "done"')
    )
    assert plan.path.read_text() == expected
    rows = [house.json("task", "detail", row["task_id"]) for row in house.json("task", "list")]
    by_id = {row["metadata"]["roadmap_id"]: row for row in rows}
    assert set(by_id) == {"base", "side", "top", "nothing"}
    assert set(by_id["top"]["wait_for"]) == {by_id["base"]["task_id"], by_id["side"]["task_id"]}
    status = house.json("supervisor", "status")
    assert status["tasks"] == {"pending": 0, "in_progress": 0, "blocked": 0, "done": 4}
    assert (status["open"], status["next"], status["problems"]) == (0, [], [])
    assert house.json("supervisor", "start")["since_at"] == started["since_at"], "said again it changes nothing"


@pytest.mark.req("SUP-NFR1")
def test_a_killed_daemon_goes_on_with_the_roadmap_and_runs_nothing_twice(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house = coordinate()
    gate, first, second = tmp_path / "gate", tmp_path / "first", tmp_path / "second"
    plan = Plan(
        house,
        f"- {{id: A, command: 'echo x >> {first}; until test -e {gate}; do sleep 0.05; done'}}\n"
        f"- {{id: B, dependencies: [A], command: 'echo x >> {second}'}}\n",
    )
    since = house.json("supervisor", "start")["since_at"]
    plan.until(A="in_progress")
    house.kill_daemon()
    plan.edit("{id: B,", "{id: C, dependencies: [B], command: 'true'}\n- {id: B,")
    gate.touch()
    house.run("daemon", "start")
    assert house.json("supervisor", "status")["since_at"] == since
    plan.approve()
    plan.until(A="done", B="done", C="done")
    assert runs(second) == 1 and len(house.json("task", "list")) == 3


@pytest.mark.req("SUP-FR1")
def test_a_task_that_failed_is_blocked_and_runs_again_when_it_is_pending_again(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house = coordinate()
    mended, count = tmp_path / "mended", tmp_path / "count"
    plan = Plan(
        house,
        f"- id: A # is it?\n  status: pending\n  command: 'echo x >> {count}; test -e {mended}'\n"
        "- {id: B, dependencies: [A], command: 'true'}\n",
    )
    house.run("supervisor", "start")
    plan.until(A="blocked")
    assert plan.statuses()["B"] == "pending" and "A keeps B waiting" in house.run("supervisor", "status").stdout
    assert [need["kind"] for need in house.json("status")["needs_you"]] == ["failed_task"]
    mended.touch()
    plan.edit("status: blocked", "status: pending")
    plan.until(A="done", B="done")
    assert runs(count) == 2 and len(house.json("task", "list")) == 2, "the same queue task"
    plan.edit("status: done", "status: pending")
    eventually(lambda: runs(count) == 3)
    plan.until(A="done")
    mended.unlink()
    plan.edit("status: done", "status: pending")
    plan.until(A="blocked")
    plan.edit(f"test -e {mended}'", "true'")
    plan.edit("status: blocked", "status: pending")
    plan.until(A="done")
    assert runs(count) == 5 and house.json("status")["needs_you"] == []


@pytest.mark.req("SUP-FR1")
def test_a_merge_that_came_back_blocks_its_task(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate(verify=("! ls | grep -q ^bad",))
    plan = Plan(house, "- {id: A, command: 'echo x > bad.txt'}\n- {id: B, dependencies: [A], command: 'true'}\n")
    house.run("supervisor", "start")
    plan.until(A="blocked", B="pending")


def test_a_broken_roadmap_is_named_stops_nothing_else_and_goes_on_when_it_is_mended(
    coordinate: Callable[..., Coordinated],
) -> None:
    house = coordinate()
    plan = Plan(house, "- {id: A, command: 'true'}\n- {id: B, title: 'open}\n")
    status = house.json("supervisor", "start")
    assert status["error"]["line"] is not None and "is not YAML" in status["error"]["message"]

    def needs() -> list[str]:
        rows = house.json("status")["needs_you"]
        return [need["what"] for need in rows if need["kind"] == "roadmap_problem"]

    (need,) = eventually(needs)
    assert "roadmap.yaml: line" in need
    assert "is not YAML" in house.run("supervisor", "status").stdout
    other = house.carry_out("beside", "true")
    assert house.json("task", "list")[0]["task_id"] == other
    plan.write(
        "- {id: A, command: 'true'}\n- {id: B, runner: abacus}\n- {id: C, agent: nobody}\n"
        "- {id: D, dependencies: [B], command: 'true'}\n"
    )
    plan.until(A="done", B="pending", C="pending", D="pending")
    first, second = eventually(lambda: len(problems := needs()) == 2 and problems)
    assert first == "The roadmap task B (line 2): unknown runner 'abacus': use command, claude or anthropic"
    assert second.startswith("The roadmap task C (line 3): ") and "nobody" in second
    plan.write("- {id: A, status: done}\n- {id: B, command: 'true'}\n- {id: D, dependencies: [B], command: 'true'}\n")
    plan.until(B="done", D="done")
    eventually(lambda: not needs())
    plan.path.unlink()
    assert "There is no roadmap" in house.json("supervisor", "status")["error"]["message"]
    assert (
        "remedy   Write it, or end the supervisor: corral supervisor stop." in house.run("supervisor", "status").stdout
    )
    (lost,) = eventually(
        lambda: [need for need in house.json("status")["needs_you"] if need["kind"] == "roadmap_problem"]
    )
    assert lost["remedy"].startswith("Write it, or end the supervisor")


def test_what_is_changed_or_taken_out_before_it_starts_is_not_run(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate(config="supervisor: {max_agents: 2}\n")
    house.run("pause")
    plan = Plan(
        house,
        "".join(f"- {{id: {name}, command: 'echo {name} > {name}.txt'}}\n" for name in "ABCDE")
        + "- {id: F, priority: critical, command: 'true'}\n",
    )
    house.run("supervisor", "start")

    def queued() -> dict[str, str]:
        rows = [house.json("task", "detail", row["task_id"]) for row in house.json("task", "list")]
        return {row["metadata"]["roadmap_id"]: row["command"] for row in rows if row["status"] == "pending"}

    eventually(lambda: set(queued()) == {"F", "A", "B", "C"})
    assert [task["id"] for task in house.json("supervisor", "status")["next"]] == ["D", "E"]
    plan.edit("- {id: A, command: 'echo A > A.txt'}\n", "")
    plan.edit("id: B,", "id: B, status: done,")
    plan.edit("echo C > C.txt", "echo other > C.txt")
    eventually(lambda: (now := queued()).keys() == {"F", "C", "D", "E"} and now["C"] == "echo other > C.txt")
    house.run("resume")
    plan.until(C="done", D="done", E="done", F="done", B="done")
    assert git(house.root, "show", "main:C.txt") == "other"
    assert git(house.root, "ls-tree", "--name-only", "main", "A.txt", "B.txt") == ""


@pytest.mark.req("SUP-AC1")
def test_one_round_while_stopped_and_a_stop_that_lets_what_runs_end(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house = coordinate()
    gate = tmp_path / "gate"
    plan = Plan(
        house,
        f"- {{id: A, command: 'until test -e {gate}; do sleep 0.05; done'}}\n"
        "- {id: B, dependencies: [A], command: 'true'}\n",
    )
    once = house.json("supervisor", "once")
    assert (once["supervised"], once["open"], once["next"]) == (False, 1, [])
    plan.until(A="in_progress")
    house.run("supervisor", "start")
    assert house.json("supervisor", "stop")["was_supervised"] is True
    assert house.json("supervisor", "stop")["was_supervised"] is False
    gate.touch()
    plan.until(A="done")
    assert [task["id"] for task in house.json("supervisor", "status")["next"]] == ["B"]
    house.run("daemon", "restart")
    assert house.json("supervisor", "status")["supervised"] is False
    assert plan.statuses()["B"] == "pending" and len(house.json("task", "list")) == 1
    assert house.json("supervisor", "once")["open"] == 1
    plan.until(B="done")


def test_the_roadmap_is_where_the_settings_say(coordinate: Callable[..., Coordinated], tmp_path: Path) -> None:
    house = coordinate(config=f"supervisor: {{state_dir: {tmp_path}}}\n")
    (tmp_path / "roadmap.yaml").write_text("- {id: A, command: 'true'}\n")
    assert house.json("supervisor", "start")["file"] == str(tmp_path / "roadmap.yaml")
    eventually(lambda: (tmp_path / "roadmap.yaml").read_text() == "- {id: A, status: done, command: 'true'}\n")


def test_the_roadmap_is_shared_and_the_rest_of_its_folder_is_not(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate()
    state = house.root / ".corral" / "state"
    state.mkdir(exist_ok=True)
    for name in ("roadmap.yaml", "supervisor_leases.jsonl", ".roadmap-x.tmp"):
        (state / name).write_text("[]\n")
    shown = git(house.root, "status", "--porcelain", "--untracked-files=all", "--", ".corral/state")
    assert shown == "?? .corral/state/roadmap.yaml"
