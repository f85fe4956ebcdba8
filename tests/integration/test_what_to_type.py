"""At each stop `corral wait` and `corral status` say what to type, and exactly that, typed into a shell, leads on."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import commit, commit_on, git
from tests.e2e.team import corral_command
from tests.support.coordinated import Coordinated, eventually
from tests.support.files import executable, put

IDENTITY = {f"GIT_{who}_{what}": "a@b.test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


class Person:
    """Who copies a command out of what was printed, and types it."""

    def __init__(self, house: Coordinated, folder: Path) -> None:
        self.house = house
        self._path = f"{corral_command(folder).parent}:{os.environ['PATH']}"

    def type(self, command: str) -> str:
        """Run a line in a shell in the repository; returns what it printed."""
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.house.root,
            env={**os.environ, **IDENTITY, "PATH": self._path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
        )
        return done.stdout + done.stderr

    def need(self, kind: str) -> dict[str, Any]:
        """The one thing of this kind that `corral status` says needs somebody."""
        needs: list[dict[str, Any]] = eventually(
            lambda: [need for need in self.house.json("status")["needs_you"] if need["kind"] == kind]
        )
        (need,) = needs
        return need


@pytest.fixture
def person(house: Coordinated, tmp_path: Path) -> Person:
    return Person(house, tmp_path / "bin")


Waiting = Callable[[], tuple["subprocess.Popen[str]", Path]]


@pytest.fixture
def waiting(house: Coordinated, tmp_path: Path) -> Iterator[Waiting]:
    """Start `corral wait --all`, which has no end of its own while something is held; and the file of its standard error."""
    started: list[subprocess.Popen[str]] = []
    output = tmp_path / "said"

    def start() -> tuple[subprocess.Popen[str], Path]:
        argv = [str(corral_command(tmp_path / "bin")), "wait", "--all"]
        with output.open("w") as errors:
            process = subprocess.Popen(
                argv, cwd=house.root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        started.append(process)
        return process, output

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_wait_for_a_person_says_what_for_and_the_commands_that_end_it_and_ends(
    house: Coordinated, person: Person, waiting: Waiting
) -> None:
    commit_on(house.root, "side", {"a new file": "new\n", "src/a.py": "a = 2\n"})
    (house.root / "a new file").write_text("new\n")
    merge = house.json("merge", "submit", "side")["merge_id"]
    person.need("held_merge")
    process, output = waiting()

    def told() -> list[str]:
        lines = output.read_text().splitlines()
        return next((lines[at:] for at, line in enumerate(lines[:-1]) if "overlap with the changes" in line), [])

    first, remedy, *_rest = eventually(told)
    assert "overlap with the changes to land (a new file)" in first
    printed = process.communicate(timeout=60)[0]
    heading, *block, end = printed.splitlines()
    assert (process.returncode, heading, end) == (1, f"{merge[:8]}  held  side", "What is left waits for you.")
    assert block == [first, remedy], "the result says it too: it went elsewhere than what was said meanwhile"
    command = remedy.strip().removeprefix("Commit them: ").partition("; ")[0]
    person.type(command)
    assert house.run("wait", merge, "--timeout", "60").stdout == f"{merge[:8]}  landed  side\n"
    assert git(house.root, "show", "main:a new file") == "new"


def shell(folder: Path, script: str) -> Path:
    """A shell in which a person types this, and leaves."""
    return executable(folder / "typing", f"#!/bin/sh\n{script}\n")


def test_a_wait_that_failed_says_each_thing_once_with_its_reason_and_what_to_type(
    house: Coordinated, person: Person, tmp_path: Path
) -> None:
    commit_on(house.root, "side", {"src/a.py": "a = 2\n"})
    commit(house.root, {"src/a.py": "a = 3\n"})
    merge = house.json("merge", "submit", "side")["merge_id"]
    dead = house.submit("Fails", "echo boom >&2; exit 3")
    eventually(lambda: house.json("status")["open"] == {"conflict": 1, "dead": 1})
    ended = house.run("wait", "--all", check=False)
    assert ended.returncode == 1 and "\\n" not in ended.stdout
    assert (
        f"'Fails' is dead: The command exited with 3: boom\n      corral task logs {dead[:8]}; then corral task retry"
        in ended.stdout
    )
    need = person.need("returned_merge")
    assert need["remedy"] in ended.stdout

    opening, _colon, _advice = need["remedy"].partition(":")
    assert opening == f"corral merge open {merge[:8]}"
    assert "Nothing is committed there" in person.type(f"SHELL={shell(tmp_path, 'echo mine > src/a.py')} {opening}")
    resolve = "grep -q mine src/a.py && echo 'a = 5' > src/a.py && git commit -qam resolved"
    shown = person.type(f"SHELL={shell(tmp_path, resolve)} {opening}")
    assert "The merge of main is begun; to resolve: src/a.py." in shown and "queued" in shown, shown
    eventually(lambda: [row["state"] for row in house.json("merge", "list")] == ["conflict", "landed"])
    assert git(house.root, "show", "main:src/a.py") == "a = 5"
    assert git(house.root, "branch", "--show-current") == "main" and git(house.root, "show", "side:src/a.py") == "a = 2"
    assert "returned_merge" not in {need["kind"] for need in house.json("status")["needs_you"]}, "it was replaced"
    for line in person.need("failed_task")["remedy"].replace(", or", ";").split("; "):
        assert "error" not in person.type(line.removeprefix("then ")), line
        eventually(lambda: house.json("task", "detail", dead)["status"] not in ("pending", "running"))


def test_the_merge_of_a_task_is_shown_once_and_the_seconds_of_a_wait_go_on_beside_a_long_reason(
    house: Coordinated, person: Person, tmp_path: Path
) -> None:
    (house.root / "src" / "a.py").write_text("a = 3\n")
    task = house.submit("Change a", "echo 'a = 2' > src/a.py")
    merge = person.need("held_merge")["ids"]["merge_id"]
    shown = house.run("wait", "--all", "--timeout", "0", check=False).stdout
    assert shown.splitlines()[0] == "    1  held  Change a" and merge[:8] not in shown and task
    answer = house.json("wait", "--all", "--timeout", "0", check=False)
    assert answer["needs_you"][0]["ids"]["task_id"] == task
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    argv, seen = [str(tmp_path / "bin" / "corral"), "wait", "--all"], ""
    waiting = subprocess.Popen(argv, cwd=house.root, env={**os.environ, "TERM": "xterm"}, stdout=slave, stderr=slave)
    os.close(slave)
    try:
        until = time.monotonic() + 60
        while not re.search(r"0:00:\d\d\S* waiting for 1 of 1: uncommitted", seen):
            assert time.monotonic() < until, seen[-400:]
            if select.select([master], [], [], 1)[0]:
                seen += os.read(master, 65536).decode()
    finally:
        waiting.kill()
        waiting.wait()
        os.close(master)
    assert "Commit them: git -C" in seen


def test_a_target_that_is_gone_is_named_with_the_command_that_makes_it(house: Coordinated, person: Person) -> None:
    tip = git(house.root, "rev-parse", "main")
    git(house.root, "switch", "-q", "-c", "elsewhere")
    git(house.root, "branch", "-q", "-d", "main")
    task = house.carry_out("No target", "echo t > t.txt", check=False)
    need = person.need("failed_task")
    assert "There is no branch 'main'" in need["what"]
    make, again = need["remedy"].split("; then ")
    person.type(make.removeprefix("Make it: ").partition(" (")[0].replace("COMMIT", tip))
    person.type(again.partition(", or")[0])
    assert house.run("wait", task, "--timeout", "60").returncode == 0
    assert git(house.root, "show", "main:t.txt") == "t"


@pytest.mark.req("FR-QUEUE-009")
def test_a_red_target_leads_to_the_ignored_file_that_its_verification_lacks(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house = coordinate(
        verify=("python3 -c 'import _version'",),
        config="landing: {verify: [\"python3 -c 'import _version'\"], reruns: 0}",
    )
    person = Person(house, tmp_path / "bin")
    commit(house.root, {".gitignore": "_version.py\nbuild/\n__pycache__/\n"})
    (house.root / "_version.py").write_text("version = 1\n")
    put(house.root / "build" / "out", "x\n")
    task = house.submit("Say hello", "echo hello > hello.txt")
    need = person.need("red_target")
    assert need["what"].endswith("exit code 1: ModuleNotFoundError: No module named '_version'")
    assert need["remedy"] in house.run("wait", task, "--timeout", "0", check=False).stdout
    doctor = need["remedy"].partition("corral doctor")[1] + " --verify"
    assert doctor in need["remedy"]
    output = person.type(doctor)
    assert "With these files it passes" in output and "build" not in output.partition("With these files")[2]
    person.type(next(line for line in output.splitlines() if "printf" in line).partition("commit it: ")[2])
    again = need["remedy"].partition("Then: ")[2].partition(". ")[0]
    person.type(again)
    assert house.run("wait", task, "--timeout", "60").returncode == 0


def test_what_does_not_start_says_what_it_waits_for_and_what_ends_that(house: Coordinated, person: Person) -> None:
    go = house.root.parent / "go"
    (house.root / "src" / "a.py").write_text("a = 3\n")
    parent = house.submit("Parent", "echo 'a = 2' > src/a.py")
    child = house.submit("Child", "true", "--wait-for", parent)
    first = house.submit("First", f"until [ -e {go} ]; do sleep 0.1; done", "--claims", "docs/")
    eventually(lambda: house.json("task", "detail", first)["status"] == "running")
    second = house.submit("Second", "true", "--claims", "docs/guide.md", "--claims", "src/b.py")
    third = house.submit("Third", "true", "--claims", "src/b.py")
    by_hand = house.json("task", "submit", "--title", "By hand", "--description", "Look at it.")["task_id"]
    person.need("held_merge")
    rows = {row["task_id"]: row for row in house.json("wait", "--all", "--timeout", "0", check=False)["tasks"]}
    refusal = house.run("task", "cancel", parent, check=False).stderr
    assert f"corral merge cancel {rows[parent]['merge_id'][:8]}" in refusal
    assert rows[child]["delay"] == f"It waits for 'Parent' (held, {parent[:8]}) to land."
    assert rows[second]["delay"] == f"It waits until task {first[:8]} has ended, which claims docs/ too."
    assert rows[third]["delay"] == (
        f"It waits until task {second[:8]} has started, which is before it in the queue and claims src/b.py too; "
        f"that one waits until task {first[:8]} has ended."
    )
    assert rows[third]["delay"] in " ".join(house.run("task", "detail", third).stdout.split())
    assert "`corral task claim`" in rows[by_hand]["delay"]
    assert rows[by_hand]["delay"] in house.run("task", "detail", by_hand).stdout
    go.touch()
    git(house.root, "restore", "src/a.py")
    assert by_hand in person.type("corral task claim")
    taken = house.run("wait", by_hand, "--timeout", "60", check=False)
    assert "has taken it" in taken.stdout and "What is left waits for you." in taken.stdout
    assert house.run("wait", child, second, third, "--timeout", "60").returncode == 0


LEFT = "What is left waits for you."


def test_what_only_a_person_can_start_needs_them_in_the_status_too(house: Coordinated, person: Person) -> None:
    house.configure("supervisor: {max_agents: 0}")
    task = house.submit("For a worker", "true")
    by_hand = house.json("task", "submit", "--title", "By hand", "--description", "Look at it.")["task_id"]
    waited = house.run("wait", task, by_hand, "--timeout", "60", check=False).stdout
    assert LEFT in waited
    assert f"`corral task cancel {by_hand[:8]}`" in waited, "what is in backticks can be typed as it is"
    assert person.need("unclaimed_task")["what"] == "'By hand' waits until a session takes it, and none is here."
    more = house.json("task", "submit", "--title", "Also by hand", "--description", "Look.")["task_id"]
    assert "and 1 more wait" in person.need("unclaimed_task")["what"]
    screen = house.ask("POST", "/statusline/screen", {"session_id": "ann"})
    assert "3 for you" in screen["band"] and house.json("status")["needs_you_number"] == 3
    house.run("task", "cancel", more)
    workers = person.need("no_workers")["remedy"]
    assert f"`{workers}`" in waited
    person.type(workers)
    assert by_hand in person.type(person.need("unclaimed_task")["remedy"].partition(": ")[2])
    assert house.run("wait", task, "--timeout", "60").returncode == 0
    assert house.json("status")["needs_you"] == []
    waited = house.run("wait", by_hand, "--timeout", "60", check=False).stdout
    person.type(waited.partition("it is done: `")[2].partition("`")[0])
    assert house.run("wait", by_hand, "--timeout", "60").returncode == 0
    house.configure("supervisor: {max_agents: 0}")
    put(house.root / ".corral" / "state" / "roadmap.yaml", "- {id: a, title: Planned, command: 'true'}\n")
    shown = house.run("supervisor", "start").stdout
    assert "waits    the next ones: at most twice `supervisor.max_agents`" in shown
    assert person.need("no_workers")["remedy"] == workers


def test_a_wait_ends_also_for_what_is_queued_behind_what_a_person_holds(house: Coordinated, person: Person) -> None:
    git(house.root, "branch", "rel")
    commit_on(house.root, "landed", {"landed.txt": "1\n"})
    merge = house.json("merge", "submit", "landed", "--target", "rel")["merge_id"]
    house.run("wait", merge, "--timeout", "60")
    git(house.root, "branch", "-m", "rel", "old")
    for branch in ("one", "two"):
        commit_on(house.root, branch, {f"{branch}.txt": "1\n"})
        merge = house.json("merge", "submit", branch, "--target", "rel")["merge_id"]
    waited = house.run("wait", "--all", "--timeout", "60", check=False).stdout
    assert LEFT in waited and "queued" in waited and "held" in waited
    need = person.need("held_merge")
    assert need["remedy"] in house.run("wait", merge, "--timeout", "0", check=False).stdout, "of what it is behind"
    (make,) = re.findall("`(git branch [^`]+)`[.] It lands", need["remedy"])
    person.type(make)
    assert house.run("wait", "--all", "--timeout", "60").returncode == 0


def test_a_wait_ends_for_a_task_that_was_begun_on_or_waits_for_what_its_target_lost(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house = coordinate(config="tasks: {unblock_on: completed}\n")
    person, before = Person(house, tmp_path / "bin"), git(house.root, "rev-parse", "HEAD")
    (house.root / "src" / "a.py").write_text("a = 3\n")
    held = house.submit("Held", "echo 'a = 2' > src/a.py")
    behind = house.submit("Behind", "echo b > behind.txt", "--wait-for", held)
    waited = house.run("wait", held, behind, "--timeout", "60", check=False).stdout
    assert LEFT in waited and "It lands behind" in waited
    (drawn,) = house.ask("POST", "/statusline/screen", {"session_id": "ann"})["needs"]
    assert drawn["remedy"] == person.need("held_merge")["remedy"] and len(drawn["remedy"]) > 200, "no half command"
    git(house.root, "restore", "src/a.py")
    house.run("wait", "--all", "--timeout", "60")
    git(house.root, "reset", "-q", "--hard", before)
    person.need("rewound_target")
    child = house.submit("Child", "true", "--wait-for", behind)
    assert LEFT in house.run("wait", child, "--timeout", "60", check=False).stdout
    person.type(person.need("rewound_target")["remedy"].partition("Bring it back: ")[2].partition(". ")[0])
    assert house.run("wait", child, "--timeout", "60").returncode == 0


def test_what_uninstall_refuses_for_is_given_up_with_the_commands_that_it_names(
    house: Coordinated, person: Person
) -> None:
    (house.root / "src" / "a.py").write_text("a = 3\n")
    parent = house.submit("Parent", "echo 'a = 2' > src/a.py")
    house.submit("Child", "true", "--wait-for", parent)
    made = Path(house.json("worktree", "create", "mine")["path"])
    (made / "half.txt").write_text("half")
    person.need("held_merge")
    remedy = json.loads(house.run("uninstall", "--yes", "--json", check=False).stderr)["error"]["remedy"]
    commands = remedy.partition("or give it up: ")[2].split("; ")
    assert len(commands) == 3, remedy
    for command in commands:
        assert "error" not in person.type(command), command
    house.run("uninstall", "--yes")
    assert not (house.root / ".corral").exists()


def test_what_git_has_under_way_is_ended_with_the_command_that_is_named(house: Coordinated, person: Person) -> None:
    base = git(house.root, "rev-parse", "main")
    commit(house.root, {"src/a.py": "a = 2\n"})
    git(house.root, "switch", "-q", "-c", "other", base)
    commit(house.root, {"src/a.py": "a = 3\n"})
    git(house.root, "switch", "-q", "main")
    assert "CONFLICT" in person.type("git merge other")
    task = house.submit("Say hello", "echo hello > hello.txt")
    need = person.need("held_merge")
    assert "a merge is in progress" in need["what"]
    person.type(need["remedy"].removeprefix("Finish it: ").partition(" (or")[0].replace("--continue", "--abort"))
    assert house.run("wait", task, "--timeout", "60").returncode == 0


def test_a_checkout_of_the_target_that_is_gone_for_good_is_forgotten_with_the_command_that_is_named(
    house: Coordinated, person: Person, tmp_path: Path
) -> None:
    git(house.root, "switch", "-q", "-c", "elsewhere")
    git(house.root, "worktree", "add", "-q", str(tmp_path / "on a stick"), "main")
    git(house.root, "worktree", "lock", str(tmp_path / "on a stick"))
    shutil.rmtree(tmp_path / "on a stick")
    task = house.submit("Say hello", "echo hello > hello.txt")
    need = person.need("held_merge")
    assert "which cannot be reached" in need["what"]
    person.type(need["remedy"].partition("for good: ")[2].removesuffix(". It lands by itself then."))
    assert house.run("wait", task, "--timeout", "60").returncode == 0


@pytest.mark.req("FR-QUEUE-008")
@pytest.mark.parametrize("again", ["merge", "task"])
def test_what_failed_with_a_merge_waits_again_as_soon_as_that_is_tried_again(
    coordinate: Callable[..., Coordinated], tmp_path: Path, again: str
) -> None:
    is_right, go = tmp_path / "is_right", tmp_path / "go"
    house = coordinate(
        verify=(f"test ! -e ba[d].txt || {{ test -e {is_right} && until [ -e {go} ]; do sleep 0.05; done; }}",)
    )
    parent = house.submit("Parent", "echo x > bad.txt")
    child = house.submit("Child", "test -e bad.txt", "--wait-for", parent)
    last = house.submit("Last", "true", "--wait-for", child)
    house.run("wait", parent, child, last, "--timeout", "60", check=False)
    failed = house.json("task", "detail", child)
    assert failed["status"] == "failed" and f"{parent} (Parent)" in failed["error_message"]
    is_right.touch()
    merge = house.json("task", "detail", parent)["merge"]["merge_id"]
    house.run(again, "retry", merge if again == "merge" else parent)
    assert [house.json("task", "detail", task)["status"] for task in (child, last)] == ["waiting", "waiting"]
    go.touch()
    assert house.run("wait", child, last, "--timeout", "60").returncode == 0
