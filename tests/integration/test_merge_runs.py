"""The log of a request is that of the run that decided, and says so, on every surface; other runs are named."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import commit, git
from tests.integration.test_tasks_end_to_end import started
from tests.support.browsing import visitor
from tests.support.coordinated import Coordinated, eventually

VERIFY = "if ls | grep -q bad; then echo IT-IS-'RED'; exit 3; else echo IT-IS-'GREEN'; fi"


@pytest.fixture
def red(coordinate: Callable[..., Coordinated]) -> tuple[Coordinated, str, str]:
    """A project, a task whose change is red, and its merge request."""
    house = coordinate(verify=(VERIFY,), config="tasks: {max_retries: 0}")
    task = house.carry_out("bad", "touch bad.txt", check=False)
    merge = next(row for row in house.json("merge", "list") if row["task_id"] == task)
    assert merge["state"] == "failed"
    return house, task, str(merge["merge_id"])


def test_the_log_of_a_red_request_is_the_red_run_of_its_change(red: tuple[Coordinated, str, str]) -> None:
    house, task, merge = red
    output = house.run("merge", "log", merge).stdout
    assert "IT-IS-RED" in output and "IT-IS-GREEN" not in output
    heading = output.splitlines()[:2]
    assert re.fullmatch(
        r"# Run 2, of the candidate \(the change, merged\) [0-9a-f]{12}: failed, exit code 3, ended at 20\S+Z \(it decided\)",
        heading[0],
    )
    assert heading[1] == f"# Command: {VERIFY}"
    assert output.splitlines()[2] == f"$ {VERIFY}"

    control = house.run("merge", "log", merge[:8], "--run", "control").stdout
    assert "IT-IS-GREEN" in control and "IT-IS-RED" not in control
    assert control.startswith("# Run 3, of the control (the target without the change) ")
    assert "passed, exit code 0" in control.splitlines()[0]
    assert "IT-IS-RED" in house.run("merge", "log", merge, "--run", "candidate").stdout
    repeated = house.run("merge", "log", merge, "--run", "1").stdout
    assert repeated.startswith("# Run 1, of the candidate") and ": red, and repeated" in repeated
    assert "IT-IS-RED" in repeated
    assert house.run("merge", "log", merge, "--follow").stdout == output, "it is over"

    answer = house.json("merge", "log", merge)
    assert set(answer) == {"text", "complete", "run"} and answer["text"].startswith(f"$ {VERIFY}\nIT-IS-RED")
    assert (answer["run"]["role"], answer["run"]["number"], answer["run"]["exit_code"]) == ("candidate", 2, 3)
    rows = house.json("merge", "runs", merge)
    assert [(row["number"], row["role"], row["status"], row["decided"]) for row in rows] == [
        (1, "candidate", "repeated", False),
        (2, "candidate", "failed", True),
        (3, "control", "passed", False),
    ]
    assert "control" in house.run("merge", "runs", merge).stdout
    unknown = house.run("merge", "log", merge, "--run", "9", check=False)
    assert unknown.returncode == 3 and f"corral merge runs {merge[:8]}" in unknown.stderr
    assert house.run("merge", "log", merge, "--run", "both", check=False).returncode == 2

    reason = house.json("merge", "detail", merge)["reason"]
    assert f"log: .corral/logs/merges/{merge}/3.log" in reason and "without it passed, " in reason
    assert f"Log: .corral/logs/merges/{merge}/2.log" in reason

    evidence = house.root / ".corral/state/evidence"
    [log] = eventually(lambda: list(evidence.glob("*/verification.log")))
    assert log.read_text() == output

    person = visitor(house)
    page = person.get(f"/merges/{merge}").text
    assert "IT-IS-RED" in page and "IT-IS-GREEN" not in page
    assert "# Run 2, of the candidate" in page and f"/merges/{merge}?run=3" in page
    other = person.get(f"/merges/{merge}?run=3").text
    assert "IT-IS-GREEN" in other and "# Run 3, of the control" in other
    assert task


def test_a_log_that_is_followed_goes_through_the_runs_and_each_has_its_heading(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    go, end = tmp_path / "go", tmp_path / "end"
    control = f"ls | grep -q bad || until [ -e {end} ]; do sleep 0.05; done"  # it is seen before all is over
    house = coordinate(
        verify=(f"echo BEGUN; until [ -e {go} ]; do sleep 0.05; done; {control}; {VERIFY}",),
        config="tasks: {max_retries: 0}",
    )
    task = house.submit("bad", "touch bad.txt")
    row = eventually(lambda: [merge for merge in house.ask("GET", "/merges") if merge["state"] == "verifying"])[0]
    path = f"/merges/{row['merge_id']}/log"
    eventually(lambda: "BEGUN" in house.ask("GET", path)["text"])
    assert house.ask("GET", path)["run"]["status"] == "running"
    with started(house, "merge", "log", row["merge_id"], "--follow") as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline().startswith("# Run 1, of the candidate (the change, merged) ")
        go.touch()
        output = ""
        while "# Run 3" not in output:
            output += follower.stdout.readline()
        end.touch()
        output += follower.stdout.read()
        assert follower.wait(60) == 0
    house.run("wait", task, "--timeout", "60", check=False)
    headings = "".join(line for line in output.splitlines() if line.startswith("# Run"))
    assert (
        "# Run 2, of the candidate" in headings
        and "# Run 3, of the control (the target without the change)" in headings
    )
    first, _, last = output.partition("# Run 3")
    assert first.count("IT-IS-RED\n") == 2 and "IT-IS-GREEN" not in first
    assert last.count("IT-IS-GREEN\n") == 1 and "passed, exit code 0" in last, "each from its beginning, once"


@pytest.mark.req("G22")
def test_a_merge_driver_of_this_clone_is_told_with_the_receipt(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    """Another clone would have had a conflict."""
    house = coordinate()
    git(house.root, "config", "merge.theirs.driver", "cp %B %A")
    commit(house.root, {"d/.gitattributes": "f merge=theirs\n", "d/f": "base\n"})
    task = house.submit(
        "both", f"echo work > d/f; touch {tmp_path}/began; while ! test -e {tmp_path}/go; do sleep 0.05; done"
    )
    eventually((tmp_path / "began").exists)
    commit(house.root, {"d/f": "mine\n"})
    (tmp_path / "go").touch()
    house.run("wait", task, "--timeout", "60")
    merge = house.json("task", "detail", task)["merge"]
    assert (house.root / "d/f").read_text() == "work\n"
    assert "merged by this clone's merge.theirs.driver: d/f" in str(merge["receipt"]["note"])
