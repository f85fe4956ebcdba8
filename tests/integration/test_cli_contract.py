"""What programs may rely on: the shapes that ``--json`` prints, the exit codes, and the names of errors."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.conftest import commit_all, git
from tests.integration.refusals import refused
from tests.support.coordinated import Coordinated

TASK = {"task_id", "title", "status", "outcome", "priority", "created_at", "number", "agent", "template", "progress"}
TASK |= {"parent_task_id", "step"}
TASK_DETAIL = TASK | {
    "error_code", "error_message", "attempts", "result", "worktree", "branch", "usage", "merge"
}  # fmt: skip
USAGE = {"input_tokens", "output_tokens", "cost_usd", "turns"}
MERGE_OF_TASK = {"merge_id", "state", "outcome", "landed_sha", "receipt"}
RECEIPT = {"status", "tree", "commands", "exit_code", "tests", "duration_s", "log"}
MERGE = {
    "merge_id",
    "task_id",
    "number",
    "title",
    "branch",
    "target",
    "state",
    "outcome",
    "reason",
    "created_at",
    "standing",
    "reverted_by",
}
UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def untouched(shared_house: Coordinated) -> Coordinated:
    """For tests that leave nothing behind."""
    return shared_house


@pytest.mark.req("FR-QUEUE-002", "FR-CLI-004")
def test_the_list_sorts_by_priority_then_age_and_filters_the_same_in_every_format(
    coordinate: Callable[..., Coordinated],
) -> None:
    house = coordinate(config="supervisor: {max_agents: 0}")
    for title, priority in (("low", "3"), ("first of two", "7"), ("middle", "5"), ("second of two", "7")):
        house.submit(title, "true", "--priority", priority)
    house.run("task", "cancel", house.submit("gone", "true", "--priority", "9"))
    expected = ["gone", "first of two", "second of two", "middle", "low"]
    assert [row["title"] for row in house.json("task", "list")] == expected
    lines = house.run("task", "list").stdout.splitlines()
    assert [next(title for title in expected if f" {title} " in line) for line in lines[1:]] == expected
    waiting = house.json("task", "list", "--status", "pending")
    assert [row["title"] for row in waiting] == expected[1:]
    assert all(set(row) >= TASK for row in waiting)
    lines = house.run("task", "list", "--status", "pending").stdout.splitlines()
    assert len(lines) == 5 and "gone" not in "".join(lines)
    assert [row["title"] for row in house.json("task", "list", "--priority", "6")] == expected[:3]
    high = ("task", "list", "--status", "pending", "--priority", "7")
    rows, (heading, *lines) = house.json(*high), house.run(*high).stdout.splitlines()
    assert [row["title"] for row in rows] == expected[1:3]
    assert heading.split() == ["TASK", "OUTCOME", "PRIO", "AGE", "TITLE", "ID"]
    for row, line in zip(rows, lines, strict=True):
        number, outcome, priority, age, *title, task_id = line.split()
        assert [number, outcome, priority, task_id] == [str(row["number"]), "pending", "7", row["task_id"][:8]]
        assert " ".join(title) == row["title"] and re.fullmatch(r"\d+[sm]", age)
    compact = house.run(*high, "--compact").stdout.splitlines()
    assert [line.split(maxsplit=4) for line in compact] == [
        [str(row["number"]), row["task_id"][:8], "pending", "7", row["title"]] for row in rows
    ]
    assert [row["title"] for row in house.json("task", "list", "--sort", "newest", "--status", "pending")] == [
        "second of two", "middle", "first of two", "low"]  # fmt: skip


@pytest.mark.req("FR-QUEUE-001", "FR-QUEUE-004")
def test_a_task_that_landed_as_every_command_shows_it(house: Coordinated) -> None:
    answer = house.json("task", "submit", "--title", "hello", "--command", "echo hello > hello.txt", "--priority", "7")
    task_id = answer["task_id"]
    waited = house.json("wait", task_id, "--timeout", "60")
    row = {"task_id": task_id, "number": 1, "title": "hello", "status": "completed", "merge_state": "landed"}
    row["outcome"] = "landed"
    assert waited == {
        "tasks": [{**row, "merge_id": house.json("merge", "list")[0]["merge_id"]}],
        "merges": [],
        "done": True,
        "waits_for_person": False,
        "paused": [],
        "needs_you": [],
    }
    (row,) = house.json("task", "list")
    assert set(row) == TASK
    assert (row["task_id"], row["title"], row["status"], row["priority"]) == (task_id, "hello", "completed", 7)
    detail = house.json("task", "detail", task_id)
    assert set(detail) >= TASK_DETAIL
    assert {key: detail[key] for key in TASK} == row
    assert set(detail["usage"]) == USAGE
    assert detail["attempts"] == 1
    assert (detail["error_code"], detail["error_message"]) == (None, None)
    merge = detail["merge"]
    assert set(merge) >= MERGE_OF_TASK
    assert merge["state"] == "landed"
    assert merge["landed_sha"] == git(house.root, "rev-parse", "main")
    receipt = merge["receipt"]
    assert set(receipt) >= RECEIPT
    assert (receipt["status"], receipt["commands"], receipt["exit_code"]) == ("passed", ["true"], 0)
    assert receipt["tree"] == git(house.root, "rev-parse", "main^{tree}")
    assert (house.root / receipt["log"]).is_file()
    assert (house.root / "hello.txt").read_text() == "hello\n"
    (listed,) = house.json("merge", "list")
    assert set(listed) == MERGE
    assert listed == {
        "merge_id": merge["merge_id"], "task_id": task_id, "branch": detail["branch"], "target": "main",
        "state": "landed", "outcome": "landed", "reason": None, "number": row["number"], "title": "hello",
        "created_at": listed["created_at"], "standing": None, "reverted_by": None,
    }  # fmt: skip
    assert house.json("merge", "detail", merge["merge_id"])["receipt"] == receipt


def test_without_a_verification_the_receipt_says_so_wherever_it_is_shown(
    coordinate: Callable[..., Coordinated],
) -> None:
    house = coordinate(verify=())
    task = house.carry_out("hello", "echo hello > hello.txt")
    receipt = house.json("task", "detail", task)["merge"]["receipt"]
    assert receipt["status"] == "unverified"
    assert (receipt["commands"], receipt["exit_code"], receipt["tests"]) == ([], None, None)
    assert "unverified" in house.run("task", "detail", task).stdout
    assert "unverified" in house.run("status").stdout
    assert house.json("status")["verified"] is False
    output = house.run("merge", "log", house.json("merge", "list")[0]["merge_id"]).stdout
    assert "unverified" in output and "No verification command is configured" in output


@pytest.mark.req("FR-CLI-006")
def test_unknown_ids_of_every_noun_exit_with_3(untouched: Coordinated) -> None:
    commands = [
        ("task", "detail", UNKNOWN), ("task", "cancel", UNKNOWN), ("task", "retry", UNKNOWN),
        ("task", "reprioritize", UNKNOWN, "3"), ("task", "logs", UNKNOWN), ("wait", UNKNOWN),
        ("merge", "detail", UNKNOWN), ("merge", "retry", UNKNOWN), ("merge", "cancel", UNKNOWN), ("merge", "log", UNKNOWN),
        ("merge", "submit", "no-such-branch"), ("merge", "submit", "main", "--target", "no-such-branch"),
        ("worktree", "remove", "nobody"), ("worktree", "recover", "nobody"),
        ("worktree", "create", "fresh", "--base", "no-such-branch"),
        ("init", "--target", "no-such-branch", "--yes"),
    ]  # fmt: skip
    for command in commands:
        code, error = refused(untouched, *command)
        assert (code, error["name"]) == (3, "not_found"), command
    assert untouched.json("worktree", "list") == []


@pytest.mark.req("FR-CLI-006", "FR-QUEUE-006")
def test_wrong_values_exit_with_2_and_change_nothing(untouched: Coordinated) -> None:
    commands = [
        ("task", "submit", "--title", "x"),
        ("task", "submit", "--title", "x", "--command", "true", "--prompt", "both"),
        ("task", "submit", "--title", "  ", "--command", "true"),
        ("task", "submit", "--title", "x", "--command", "true", "--runner", "claude"),
        ("task", "submit", "--title", "x", "--command", "true", "--timeout", "0"),
        ("task", "submit", "--title", "x", "--command", "true", "--claims", "../outside"),
        ("task", "submit", "--title", "x", "--command", "true", "--wait-for", UNKNOWN),
        ("wait",), ("wait", "--all", UNKNOWN), ("lock", "release"), ("lock", "acquire", "../outside"),
        ("lock", "acquire", "a", "--ttl", "-1"), ("merge", "submit", "main"), ("worktree", "create", "../outside"),
        ("-C", "/no/such/folder", "task", "list"),
    ]  # fmt: skip
    for command in commands:
        code, error = refused(untouched, *command)
        assert (code, error["name"]) == (2, "invalid_input"), command
    for command in (
        ("task", "submit", "--title", "x", "--command", "true", "--priority", "11"), ("task", "nonsense"), ("nonsense",),
        ("task", "list", "--status", "asleep"), ("merge", "list", "--state", "asleep"),
        ("session", "list", "--status", "asleep"), ("task", "submit", "--command", "true"), ("task", "detail"),
        ("wait", "--all", "--timeout", "-1"),
        ("task", "submit", "--title", "x", "--command", "true", "--runner", "abacus"),
    ):  # fmt: skip
        done = untouched.run(*command, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.strip()
    assert untouched.json("task", "list") == untouched.json("lock", "list") == untouched.json("worktree", "list") == []


def test_what_contradicts_the_present_state_exits_with_4(house: Coordinated) -> None:
    task = house.carry_out("hello", "echo hello > hello.txt")
    merge = house.json("merge", "list")[0]["merge_id"]
    house.run("lock", "acquire", "src/a.py", CLAUDE_CODE_SESSION_ID="one")
    house.run("worktree", "create", "mine", CLAUDE_CODE_SESSION_ID="one")
    commands = [
        ("task", "cancel", task), ("task", "retry", task), ("task", "reprioritize", task, "3"),
        ("merge", "cancel", merge), ("merge", "retry", merge), ("lock", "acquire", "src/a.py"),
        ("worktree", "create", "mine"), ("worktree", "remove", "mine"), ("init", "--yes", "--verify", "false"),
    ]  # fmt: skip
    for command in commands[:-2]:
        code, error = refused(house, *command)
        assert code == 4, (command, error)
    assert refused(house, *commands[-1])[0] == 4
    held = refused(house, "lock", "acquire", "src/a.py", "src/b.py")[1]
    assert held["name"] == "lock_held"
    assert [lock["file_path"] for lock in house.json("lock", "list")] == ["src/a.py"]


def test_an_error_has_one_name_on_the_command_line_and_over_http(house: Coordinated) -> None:
    house.hook("SessionStart", "someone")
    house.run("message", "send", "all", "s", "x", "--idempotency-key", "k")
    for command, expected in (
        (("Nobody", "s", "x"), (3, "recipient_not_found")),
        (("all", "s", "y", "--idempotency-key", "k"), (4, "idempotency_key_conflict")),
    ):
        code, error = refused(house, "message", "send", *command)
        assert (code, error["name"]) == expected


def test_what_needs_the_daemon_exits_with_5_when_there_can_be_none(house: Coordinated) -> None:
    house.stop()
    run = house.root / ".corral" / "run"
    run.rename(run.with_name("kept"))
    run.write_text("in the way")
    for command in (("task", "list"), ("status",), ("daemon", "start")):
        code, error = refused(house, *command)
        assert (code, error["name"]) == (5, "daemon_unreachable"), command
    run.unlink()
    run.with_name("kept").rename(run)


@pytest.mark.req("FR-QUEUE-002")
def test_lists_begin_with_the_number_both_nouns_understand_every_name_and_a_task_without_a_change_has_no_merge(
    house: Coordinated,
) -> None:
    title = "Write down in a very long title what is to be done, so that no terminal shows it whole"
    task = house.carry_out(title, "echo hello > hello.txt")
    (merge,) = house.json("merge", "list")
    assert (merge["number"], merge["title"]) == (1, title)
    for noun in ("task", "merge"):
        _heading, line = house.run(noun, "list", COLUMNS="").stdout.splitlines()
        assert title in line, "a pipe is as wide as it has to be"
        assert line.split()[0] == "1" and line.index("Write down") < line.index(
            (task if noun == "task" else merge["merge_id"])[:8]
        )
    for name in ("1", "#1", task, task[:8], merge["merge_id"], merge["merge_id"][:8]):
        assert house.json("task", "detail", name)["task_id"] == task, name
        detail = house.json("merge", "detail", name)
        assert (detail["merge_id"], detail["number"]) == (merge["merge_id"], 1), name
        assert house.json("wait", name)["tasks"][0]["task_id"] == task
    assert house.run("merge", "log", "1").returncode == 0
    nothing = house.submit("look", "true")
    row = {
        "task_id": nothing,
        "number": 2,
        "title": "look",
        "status": "completed",
        "merge_state": None,
        "merge_id": None,
    }
    assert house.json("wait", nothing, "--timeout", "60") == {
        "tasks": [{**row, "outcome": "nothing to land"}],
        "merges": [],
        "done": True,
        "waits_for_person": False,
        "paused": [],
        "needs_you": [],
    }
    assert house.json("task", "detail", nothing)["merge"] is None
    assert [row["merge_id"] for row in house.json("merge", "list")] == [merge["merge_id"]]
    assert refused(house, "merge", "detail", nothing)[0] == 3
    git(house.root, "branch", "side", "HEAD~1")
    git(house.root, "worktree", "add", "-q", "../side", "side")
    git(house.root.parent / "side", "commit", "-q", "--allow-empty", "-m", "empty")
    (house.root.parent / "side" / "side.txt").write_text("x")
    commit_all(house.root.parent / "side", "side")
    alone = house.json("merge", "submit", "side")["merge_id"]
    waited = house.json("wait", alone[:8])
    assert waited["done"] and waited["merges"][0]["merge_id"] == alone
    assert refused(house, "task", "detail", alone)[0] == 3
